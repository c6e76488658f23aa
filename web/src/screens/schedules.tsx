// Schedules: when they run next, and how the latest runs went.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { CalendarClock, Pause, Pencil, Play, Plus, Trash2 } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { api, ok } from '../api/client';
import { useChange, usePoll } from '../api/queries';
import type { Page as ApiPage, Schedule } from '../api/types';
import type { Shown } from '../lib/state';
import { curl, shortId } from '../lib/text';
import { duration } from '../lib/time';
import { useMay } from '../session';
import { Badge, Glyph, StateText } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Props } from '../ui/figures';
import { Confirm } from '../ui/overlay';
import { LiveButton, Page, Tabs } from '../ui/page';
import { NamedList, type PanelProps } from '../ui/named-list';
import { Panel } from '../ui/panel';
import { Empty, Failure, Skeleton } from '../ui/status';
import type { Column } from '../ui/table';
import { In, ListTime, useNow } from '../ui/time';
import { toast, toastError } from '../ui/toast';
import { useUrl } from '../url';
import { CronText } from './parts/cron';

const ScheduleDialog = lazy(() => import('./parts/schedule-form'));

const schedulesQuery = (builtin: boolean, iterator?: string) =>
  queryOptions({
    queryKey: ['schedules', 'list', builtin, iterator],
    queryFn: () =>
      ok(api.GET('/api/v1/schedule', { params: { query: { limit: 50, iterator, builtin } } })) as Promise<
        ApiPage<Schedule>
      >,
  });

const scheduleQuery = (name: string) =>
  queryOptions({
    queryKey: ['schedules', 'one', name],
    queryFn: () =>
      ok(api.GET('/api/v1/schedule/{schedule}', { params: { path: { schedule: name } } })) as Promise<Schedule>,
    placeholderData: undefined,
  });

function scheduleState(schedule: Schedule): Shown {
  if (schedule.state === 'paused') return { look: 'paused', word: 'Paused' };
  if (schedule.state === 'ended') return { look: 'cancelled', word: 'Ended' };
  return { look: 'delivered', word: 'Active' };
}

const starts = (schedule: Schedule) =>
  schedule.job
    ? `${schedule.job.queue} / ${schedule.job.kind}`
    : schedule.message
      ? `message ${schedule.message.eventType}`
      : '';

/** The run times of the next 24 hours, on a line. Only the next five are known; an interval is drawn in full. */
function Ribbon({ schedule }: { schedule: Schedule }) {
  const now = useNow();
  const day = 86_400_000;
  const every = schedule.everySeconds;
  if (schedule.state !== 'active') return <span className="ribbon" aria-hidden="true" />;
  if (every && every < 1800)
    return <span className="ribbon dense" role="img" aria-label={`every ${duration(every * 1000)}`} />;
  const times = schedule.upcoming.map((at) => Date.parse(at)).filter((at) => at - now < day);
  return (
    <span className="ribbon" role="img" aria-label={`${times.length} of the next five runs are within 24 hours`}>
      {times.map((at) => (
        <i key={at} style={{ ['--x' as string]: `${Math.max(0, ((at - now) / day) * 100).toFixed(1)}%` }} />
      ))}
    </span>
  );
}

const latestMax = 10;

/** The latest runs, the newest last. Only single schedules have a history, so every row asks for its own. */
function LatestRuns({ name }: { name: string }) {
  const query = useQuery({ ...scheduleQuery(name), staleTime: 30_000 });
  if (!query.data) return <span className="t3">{query.isError ? '–' : '…'}</span>;
  const latest = (query.data.history ?? []).slice(0, latestMax).reverse();
  if (latest.length === 0) return <span className="t3">none yet</span>;
  const counts = Map.groupBy(latest, (entry) => runs[entry.kind]?.word ?? entry.kind);
  return (
    <span
      className="ticks runs"
      role="img"
      aria-label={[...counts].map(([word, entries]) => `${entries.length} ${word.toLowerCase()}`).join(', ')}
    >
      {latest.map((entry) => (
        <i
          key={`${entry.at}-${entry.nominalAt}-${entry.kind}`}
          className={`st-${runs[entry.kind]?.look ?? 'skipped'} ${entry.kind === 'overlap' ? 'half' : ''}`}
        />
      ))}
    </span>
  );
}

const overlapWord: Record<string, string> = { allow: 'start anyway', skip: 'skip', queueOne: 'queue one' };
const missedWord: Record<string, string> = { runOnce: 'run once', skip: 'skip', catchUp: 'catch up' };

const columns: Column<Schedule>[] = [
  {
    id: 'name',
    header: 'Schedule',
    className: 'two',
    narrow: 'a',
    cell: (row) => (
      <>
        <b>{row.name}</b>
        <small>{starts(row)}</small>
      </>
    ),
  },
  {
    id: 'when',
    header: 'When',
    className: 'two',
    narrow: 'c',
    cell: (row) => (
      <>
        <span className="cut when">
          <CronText cron={row.cron} every={row.everySeconds} />
        </span>
        <small>{row.timezone ?? (row.everySeconds ? 'counted from its start' : 'UTC')}</small>
      </>
    ),
  },
  {
    id: 'next',
    header: 'Next',
    width: 150,
    narrow: 'b',
    cell: (row) =>
      row.state === 'active' && row.nextRunAt ? <In at={row.nextRunAt} /> : <StateText {...scheduleState(row)} />,
  },
  { id: 'ribbon', header: 'Next 24 h', width: 110, narrow: 'drop', cell: (row) => <Ribbon schedule={row} /> },
  { id: 'latest', header: 'Latest runs', width: 100, narrow: 'd', cell: (row) => <LatestRuns name={row.name} /> },
  {
    id: 'overlap',
    header: 'Overlap',
    width: 110,
    wide: true,
    narrow: 'drop',
    cell: (row) => <span className="t2">{overlapWord[row.overlap] ?? row.overlap}</span>,
  },
  {
    id: 'missed',
    header: 'Missed',
    width: 110,
    wide: true,
    narrow: 'drop',
    cell: (row) => <span className="t2">{missedWord[row.missed] ?? row.missed}</span>,
  },
];

export default function Schedules() {
  const [url] = useUrl();
  const may = useMay('POST /api/v1/schedule');
  const builtin = url.builtin === '1';
  const [edit, setEdit] = useState<Schedule | 'new' | null>(null);
  const query = useQuery({ ...schedulesQuery(builtin, url.cursor), refetchInterval: usePoll(10_000) });
  const empty = (
    <Empty
      icon={CalendarClock}
      title="No schedules yet"
      command={curl({
        method: 'POST',
        url: `${location.origin}/api/v1/schedule`,
        body: '{"name":"nightly","cron":"0 2 * * *","job":{"queue":"reports","kind":"report.daily","payload":{}}}',
      })}
      action={
        may && (
          <Button icon={Plus} onClick={() => setEdit('new')}>
            New schedule
          </Button>
        )
      }
    >
      A schedule starts a job or a message by a cron rule or an interval.
    </Empty>
  );
  return (
    <Page
      title="Schedules"
      tools={
        <>
          <LiveButton />
          {may && (
            <Button kind="primary" icon={Plus} onClick={() => setEdit('new')}>
              New schedule
            </Button>
          )}
        </>
      }
    >
      <NamedList
        label="Schedules"
        query={query}
        columns={columns}
        empty={empty}
        head={
          <Tabs
            label="Schedules"
            tabs={[
              { to: '/schedules', label: 'Yours', active: !builtin },
              { to: '/schedules', search: { builtin: '1' }, label: 'Built-in', active: builtin },
            ]}
          />
        }
        panel={(props) => <SchedulePanel key={props.name} {...props} onEdit={setEdit} />}
      />
      {edit && (
        <Suspense>
          <ScheduleDialog schedule={edit === 'new' ? null : edit} onClose={() => setEdit(null)} />
        </Suspense>
      )}
    </Page>
  );
}

const overlaps = {
  allow: 'Start anyway',
  skip: 'Skip a run while the one before is open',
  queueOne: 'Queue one run',
} as Record<string, string>;
const misses = { skip: 'Skip', runOnce: 'Run once', catchUp: 'Catch up' } as Record<string, string>;
const runs: Record<string, Shown> = {
  fired: { look: 'delivered', word: 'Started' },
  manual: { look: 'delivered', word: 'Started by hand' },
  overlap: { look: 'skipped', word: 'Skipped: the run before was open' },
  missed: { look: 'retrying', word: 'Missed' },
};

function SchedulePanel({ name, onEdit, onClose, onStep }: PanelProps & { onEdit: (schedule: Schedule) => void }) {
  const may = useMay('PATCH /api/v1/schedule/{schedule}');
  const [dialog, setDialog] = useState(false);
  const query = useQuery({ ...scheduleQuery(name), refetchInterval: usePoll(5000) });
  const schedule = query.data;
  const params = { params: { path: { schedule: name } } };
  const run = useChange(
    () => ok(api.POST('/api/v1/schedule/{schedule}/run', params)),
    ['schedules', 'jobs'],
    () => toast('Run started'),
  );
  const pause = useChange(
    () => ok(api.POST('/api/v1/schedule/{schedule}/pause', params)),
    ['schedules'],
    () => toast(`Schedule ${name} is paused`),
  );
  const resume = useChange(
    () => ok(api.POST('/api/v1/schedule/{schedule}/resume', params)),
    ['schedules'],
    () => toast(`Schedule ${name} is active`),
  );
  const remove = useChange(
    () => ok(api.DELETE('/api/v1/schedule/{schedule}', params)),
    ['schedules'],
    () => {
      toast(`Schedule ${name} deleted`);
      onClose();
    },
  );
  const builtin = name.startsWith('everhook.');
  const failed = (title: string) => ({ onError: (error: unknown) => toastError(title, error) });
  const footer = may && schedule && (
    <>
      <Button
        kind="primary"
        icon={Play}
        busy={run.isPending}
        onClick={() => run.mutate(undefined, failed('The run failed'))}
      >
        Run now
      </Button>
      {schedule.state === 'paused' ? (
        <Button icon={Play} onClick={() => resume.mutate(undefined, failed('Resuming failed'))}>
          Resume
        </Button>
      ) : (
        <Button icon={Pause} onClick={() => pause.mutate(undefined, failed('Pausing failed'))}>
          Pause
        </Button>
      )}
      {!builtin && (
        <Button kind="danger" icon={Trash2} className="push" onClick={() => setDialog(true)}>
          Delete
        </Button>
      )}
    </>
  );
  return (
    <Panel
      title={
        <span className="row">
          {name} {schedule && <Badge {...scheduleState(schedule)} />}
        </span>
      }
      label="Schedule"
      onClose={onClose}
      onStep={onStep}
      footer={footer}
      full={
        may &&
        schedule &&
        !builtin && (
          <Button kind="ghost" size="sm" icon={Pencil} onClick={() => onEdit(schedule)}>
            Edit
          </Button>
        )
      }
      sub={
        schedule && (
          <>
            <span>
              <CronText cron={schedule.cron} every={schedule.everySeconds} />, {schedule.timezone ?? 'UTC'}
            </span>
            {schedule.cron && <span className="tag mono">{schedule.cron}</span>}
          </>
        )
      }
    >
      {query.isError && <Failure error={query.error} what="The schedule" />}
      {!schedule && !query.isError && <Skeleton rows={6} />}
      {schedule && (
        <>
          <section>
            <h3>Next five</h3>
            {schedule.upcoming.length === 0 ? (
              <p className="t3">No run is planned.</p>
            ) : (
              <ul className="list">
                {schedule.upcoming.map((at) => (
                  <li key={at}>
                    <Zoned at={at} zone={schedule.timezone ?? 'UTC'} />
                    <span className="push t3 s12">
                      <In at={at} />
                    </span>
                  </li>
                ))}
              </ul>
            )}
            {schedule.queuedRunAt && <p className="s12 t2">One run is queued behind the job before it.</p>}
          </section>
          <section>
            <h3>Starts</h3>
            <Props
              items={[
                schedule.job
                  ? [
                      'Job',
                      <>
                        {schedule.job.kind} on{' '}
                        <Link className="link" to="/queues/$name" params={{ name: schedule.job.queue }}>
                          {schedule.job.queue}
                        </Link>
                      </>,
                    ]
                  : ['Message', schedule.message?.eventType],
                ['Overlap', overlaps[schedule.overlap] ?? schedule.overlap],
                [
                  'Missed',
                  `${misses[schedule.missed] ?? schedule.missed} when more than ${schedule.graceSeconds} s late`,
                ],
                ['Jitter', schedule.jitterSeconds ? `up to ${schedule.jitterSeconds} s` : 'none'],
              ]}
            />
          </section>
          <section>
            <h3>History</h3>
            {!schedule.history?.length && <p className="t3">No run yet.</p>}
            <ul className="list">
              {schedule.history?.map((entry) => {
                const shown = runs[entry.kind] ?? { look: 'skipped' as const, word: entry.kind };
                return (
                  <li key={`${entry.at}-${entry.nominalAt}-${entry.kind}`}>
                    <Glyph look={shown.look} />
                    <ListTime at={entry.nominalAt} />
                    <span className="t2">{shown.word}</span>
                    <span className="push">
                      {entry.jobId && (
                        <Link className="link mono s12" to="/jobs/$job" params={{ job: entry.jobId }}>
                          {shortId(entry.jobId)}
                        </Link>
                      )}
                      {entry.messageId && schedule.message && (
                        <Link
                          className="link mono s12"
                          to="/apps/$app/messages/$msg"
                          params={{ app: schedule.message.application, msg: entry.messageId }}
                        >
                          {shortId(entry.messageId)}
                        </Link>
                      )}
                    </span>
                  </li>
                );
              })}
            </ul>
          </section>
        </>
      )}
      <Confirm
        open={dialog}
        onClose={() => setDialog(false)}
        danger
        title={`Delete schedule ${name}`}
        verb="Delete schedule"
        run={() => remove.mutateAsync(undefined)}
      >
        It does not run any more. Jobs that it started stay.
      </Confirm>
    </Panel>
  );
}

/** A run time in the zone of its schedule. */
function Zoned({ at, zone }: { at: string; zone: string }) {
  const time = new Date(at);
  const part = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat('en-GB', { ...options, timeZone: zone, hourCycle: 'h23' }).format(time);
  return (
    <>
      <span className="t2">{part({ weekday: 'short', day: 'numeric', month: 'short' })}</span>
      <b>{part({ hour: '2-digit', minute: '2-digit', second: time.getUTCSeconds() ? '2-digit' : undefined })}</b>
      <span className="t3 s12">{zone}</span>
    </>
  );
}
