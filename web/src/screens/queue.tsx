// One queue: backlog, limits, workers and its jobs.

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { Ellipsis, Pause, Play, Plus, SlidersHorizontal, Trash2 } from 'lucide-react';
import { useEffect, useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../api/client';
import { useChange, usePoll } from '../api/queries';
import type { Queue } from '../api/types';
import { jobState } from '../lib/state';
import { count, plural } from '../lib/text';
import { duration } from '../lib/time';
import { useMay } from '../session';
import { Badge, StateText, Tags } from '../ui/atoms';
import { Button, IconButton, TextField } from '../ui/controls';
import { Card, Kpi, LazyChart } from '../ui/figures';
import { Confirm, Dialog, Menu } from '../ui/overlay';
import { Body, LiveButton, ObjectHead, Page } from '../ui/page';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { Ago } from '../ui/time';
import { toast, toastError } from '../ui/toast';
import { jobsQuery } from './jobs';
import { EnqueueDialog } from './parts/enqueue';
import { queueQuery, queueState, workersQuery } from './parts/queue-data';

export default function QueueScreen() {
  const { name = '' } = useParams({ strict: false });
  const query = useQuery({ ...queueQuery(name), refetchInterval: usePoll(3000) });
  return (
    <Page title={name} crumbs={[{ to: '/queues', label: 'Queues' }]} tools={<LiveButton />}>
      {query.data ? (
        <Content queue={query.data} />
      ) : (
        <Body>
          {query.isError ? (
            <Failure error={query.error} what={`Queue ${name}`} retry={() => void query.refetch()} />
          ) : (
            <Skeleton />
          )}
        </Body>
      )}
    </Page>
  );
}

function Content({ queue }: { queue: Queue }) {
  const may = useMay('PATCH /api/v1/queue/{queue}');
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<'limits' | 'enqueue' | 'delete' | null>(null);
  const params = { params: { path: { queue: queue.name } } };
  const pause = useChange(
    () => ok(api.POST('/api/v1/queue/{queue}/pause', params)),
    ['queues'],
    () => toast(`Queue ${queue.name} is paused`, { action: { label: 'Undo', run: () => resume.mutate(undefined) } }),
  );
  const resume = useChange(
    () => ok(api.POST('/api/v1/queue/{queue}/resume', params)),
    ['queues'],
    () => toast(`Queue ${queue.name} is open`),
  );
  const remove = useChange(
    () => ok(api.DELETE('/api/v1/queue/{queue}', params)),
    ['queues'],
    () => {
      toast(`Queue ${queue.name} deleted`);
      void navigate({ to: '/queues' });
    },
  );
  const stats = queue.stats;
  const open = queue.state === 'open';
  const flip = open ? pause : resume;
  return (
    <Body
      head={
        <ObjectHead
          title={queue.name}
          badges={<Badge {...queueState(queue)} />}
          sub={
            <>
              <span>{queue.limit ? `Limit ${count(queue.limit)} at once` : 'No limit'}</span>
              {queue.keyLimit && <span>{count(queue.keyLimit)} per concurrency key</span>}
              {queue.ratePerSecond && <span>{queue.ratePerSecond} per second</span>}
              <span className="wrap-any">{queue.targetUrl ? `Pushed to ${queue.targetUrl}` : 'Taken by workers'}</span>
            </>
          }
          tools={
            may && (
              <>
                <Button icon={SlidersHorizontal} onClick={() => setDialog('limits')}>
                  Edit limits
                </Button>
                <Button
                  icon={open ? Pause : Play}
                  busy={flip.isPending}
                  onClick={() => flip.mutate(undefined, { onError: (error) => toastError('The change failed', error) })}
                >
                  {open ? 'Pause' : 'Resume'}
                </Button>
                <Button kind="primary" icon={Plus} onClick={() => setDialog('enqueue')}>
                  Enqueue job
                </Button>
                <Menu
                  trigger={<IconButton icon={Ellipsis} label="More" kind={undefined} />}
                  items={[{ label: 'Delete queue', icon: Trash2, danger: true, run: () => setDialog('delete') }]}
                />
              </>
            )
          }
        />
      }
    >
      {queue.state === 'stopped' && (
        <Callout look="dead" title="The queue is stopped: its target answered 410 Gone.">
          Resume it after the target works again.
        </Callout>
      )}
      {queue.warnings.map((warning) => (
        <Callout key={warning} look="retrying" title={warning} />
      ))}
      <div className="kpis k5">
        <Kpi
          label="Due"
          value={stats ? count(stats.due) : '–'}
          note={stats?.oldestDueSeconds ? `oldest ${duration(stats.oldestDueSeconds * 1000)}` : 'nothing waits'}
        />
        <Kpi
          label="Leased"
          value={stats ? count(stats.running) : '–'}
          unit={queue.limit ? `of ${count(queue.limit)}` : undefined}
          note={queue.limit && stats && stats.running >= queue.limit ? 'at its limit' : undefined}
        />
        <Kpi
          label="Ended"
          value={stats ? count(stats.endedLastMinute) : '–'}
          unit="/min"
          note="in the last full minute"
        />
        <Kpi label="Scheduled later" value={stats ? count(Math.max(0, stats.pending - stats.due)) : '–'} />
        <Kpi
          label="Dead"
          value={stats ? count(stats.dead) : '–'}
          bad={Boolean(stats?.dead)}
          note={stats?.dead ? 'wait for a decision' : undefined}
        />
      </div>
      <Trend queue={queue} />
      <div className="grid cols two-cards">
        <LatestJobs queue={queue} />
        <Workers queue={queue} />
      </div>
      {dialog === 'limits' && <Limits queue={queue} onClose={() => setDialog(null)} />}
      {dialog === 'enqueue' && <EnqueueDialog queue={queue.name} onClose={() => setDialog(null)} />}
      <Confirm
        open={dialog === 'delete'}
        onClose={() => setDialog(null)}
        danger
        title={`Delete queue ${queue.name}`}
        verb="Delete queue"
        typed={queue.name}
        run={() => remove.mutateAsync(undefined)}
      >
        Its limits and its target are deleted. The server refuses if jobs are still on it.
      </Confirm>
    </Body>
  );
}

const KEPT = 120;

/** The backlog since this page is open: the API has no history of queues. */
function Trend({ queue }: { queue: Queue }) {
  const [points, setPoints] = useState<{ t: number; due: number; leased: number }[]>([]);
  const { stats } = queue;
  useEffect(() => {
    if (!stats) return;
    const t = Math.floor(Date.now() / 1000);
    setPoints((before) =>
      before.at(-1)?.t === t ? before : [...before.slice(1 - KEPT), { t, due: stats.due, leased: stats.running }],
    );
  }, [stats]);
  if (points.length < 3) return null;
  const series = [
    { label: 'Due', color: 'var(--chart-3)', fill: 0.12, values: points.map(({ due }) => due) },
    { label: 'Leased', color: 'var(--leased)', values: points.map(({ leased }) => leased) },
  ];
  return (
    <Card title="Due and leased" sub="since this page was opened">
      <div className="in">
        <LazyChart
          times={points.map(({ t }) => t)}
          series={series}
          height={150}
          format={whole}
          label={`Due ${stats?.due ?? 0}, leased ${stats?.running ?? 0}`}
        />
      </div>
    </Card>
  );
}

const whole = (value: number) => count(Math.round(value));

function LatestJobs({ queue }: { queue: Queue }) {
  const query = useQuery({ ...jobsQuery({ queue: queue.name }), refetchInterval: usePoll() });
  return (
    <Card
      title="Latest jobs"
      className="clip"
      tools={
        <Link className="link" to="/jobs" search={{ queue: queue.name }}>
          All jobs
        </Link>
      }
    >
      {query.data?.data.length === 0 && <Empty title="No jobs on this queue" />}
      <table className="tbl card-tbl jobrows">
        <tbody>
          {query.data?.data.slice(0, 10).map((job) => (
            <tr key={job.id}>
              <td>
                <Link className="med" to="/jobs/$job" params={{ job: job.id }}>
                  {job.kind}
                </Link>{' '}
                <span className="t3 s12">{job.name}</span>
              </td>
              <td>
                <StateText {...jobState(job)} />
              </td>
              <td className="num t2">
                <Ago at={job.createdAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Workers({ queue }: { queue: Queue }) {
  const query = useQuery({ ...workersQuery(), refetchInterval: usePoll() });
  const rows = (query.data ?? []).filter((worker) => worker.queues.includes(queue.name));
  return (
    <Card title="Workers" sub={query.data && plural(rows.length, 'worker')} className="clip">
      {queue.targetUrl ? (
        <p className="in t2">Jobs are pushed to the target, without workers.</p>
      ) : rows.length === 0 ? (
        <Empty title="No worker takes from this queue">Start one: its jobs wait until then.</Empty>
      ) : (
        <table className="tbl card-tbl">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Kinds</th>
              <th scope="col" className="num">
                Held
              </th>
              <th scope="col" className="num">
                Heartbeat
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((worker) => (
              <tr key={worker.id}>
                <td>
                  <span className="row">
                    <span className={worker.state === 'open' ? 'okdot' : 'okdot off'} />
                    <span className="cut">{worker.name}</span>
                    {worker.state !== 'open' && <span className="t3">expired</span>}
                  </span>
                </td>
                <td>{worker.kinds.length ? <Tags names={worker.kinds} /> : <span className="t3">all</span>}</td>
                <td className="num">{count(worker.held)}</td>
                <td className="num t2">
                  <Ago at={worker.heartbeatAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Limits({ queue, onClose }: { queue: Queue; onClose: () => void }) {
  const text = (value: number | null | undefined) => (value ? String(value) : '');
  const [form, setForm] = useState({
    limit: text(queue.limit),
    keyLimit: text(queue.keyLimit),
    rate: text(queue.ratePerSecond),
    target: queue.targetUrl ?? '',
  });
  const number = (value: string) => (value.trim() === '' ? null : Number(value));
  const save = useChange(
    () =>
      ok(
        api.PATCH('/api/v1/queue/{queue}', {
          params: { path: { queue: queue.name } },
          body: {
            limit: number(form.limit),
            keyLimit: number(form.keyLimit),
            ratePerSecond: number(form.rate),
            targetUrl: form.target.trim() || null,
          },
        }),
      ),
    ['queues'],
    () => {
      toast('Limits saved');
      onClose();
    },
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field, message]))
      : {};
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Limits of ${queue.name}`}
      onSubmit={() => save.mutate(undefined)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={save.isPending}>
            Save limits
          </Button>
        </>
      }
    >
      <TextField
        label="At once"
        optional
        value={form.limit}
        onChange={(limit) => setForm({ ...form, limit })}
        unit="jobs"
        inputMode="numeric"
        hint="Over all workers. Empty: no limit"
        error={fields.limit}
      />
      <TextField
        label="For each concurrency key"
        optional
        value={form.keyLimit}
        onChange={(keyLimit) => setForm({ ...form, keyLimit })}
        unit="jobs"
        inputMode="numeric"
        error={fields.keyLimit}
      />
      <TextField
        label="Rate"
        optional
        value={form.rate}
        onChange={(rate) => setForm({ ...form, rate })}
        unit="per second"
        inputMode="decimal"
        hint="0.1 is one in 10 seconds"
        error={fields.ratePerSecond}
      />
      <TextField
        label="Push target"
        optional
        value={form.target}
        onChange={(target) => setForm({ ...form, target })}
        mono
        hint="Jobs are posted to this URL, signed. Empty: workers take them"
        error={fields.targetUrl}
      />
      {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}
