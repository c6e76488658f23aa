// Jobs: which wait, run, failed, and why.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plus, RotateCw } from 'lucide-react';
import { useMemo, useState } from 'react';
import { api, ok } from '../api/client';
import { useDead } from '../api/dead';
import { PAGE_ROWS, useChange, useHeld, usePoll } from '../api/queries';
import type { Job, Page as ApiPage } from '../api/types';
import { jobState } from '../lib/state';
import { clip, curl, plural } from '../lib/text';
import { useMay } from '../session';
import { StateText } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Meter } from '../ui/figures';
import { Filter, FilterBar, SearchBox } from '../ui/filters';
import { Confirm } from '../ui/overlay';
import { LiveButton, Page, Tabs } from '../ui/page';
import { Split, stepper } from '../ui/panel';
import { Empty, Failure, Skeleton } from '../ui/status';
import { BulkBar, DataTable, Pager, useSelection, type Column } from '../ui/table';
import { Ago, In } from '../ui/time';
import { toast } from '../ui/toast';
import { Views } from '../ui/views';
import { useUrl, type Search } from '../url';
import { EnqueueDialog } from './parts/enqueue';
import { JobPanel } from './parts/job-view';

const viewNames = ['state', 'error', 'queue', 'kind', 'tag', 'batch'] as const;

const states = [
  ['', 'All'],
  ['pending', 'Pending'],
  ['leased', 'Leased'],
  ['dead', 'Dead'],
  ['succeeded', 'Succeeded'],
  ['cancelled', 'Cancelled'],
] as const;
const filterNames = ['queue', 'kind', 'tag', 'batch', 'error', 'after', 'before'] as const;

export const jobsQuery = (url: Search) =>
  queryOptions({
    queryKey: ['jobs', 'list', ...['cursor', 'state', ...filterNames].map((name) => url[name])],
    queryFn: () =>
      ok(
        api.GET('/api/v1/job', {
          params: {
            query: {
              limit: PAGE_ROWS,
              iterator: url.cursor,
              state: url.state,
              queue: url.queue,
              kind: url.kind,
              tag: url.tag,
              batch: url.batch,
              error: url.error,
              after: url.after,
              before: url.before,
            },
          },
        }),
      ) as Promise<ApiPage<Job>>,
  });

const jobId = (job: Job) => job.id;

function Detail({ job }: { job: Job }) {
  if (job.state === 'leased' && job.progress) {
    return (
      <span className="row">
        <span className="jobbar">
          <Meter share={job.progress.percent / 100} color="var(--leased)" label={`${job.progress.percent} %`} />
        </span>
        {job.progress.percent} %
      </span>
    );
  }
  if (job.error && job.state !== 'succeeded') return <span className="t2">{clip(job.error, 200)}</span>;
  if (job.state === 'pending' && job.runAt) return <In at={job.runAt} />;
  if (job.cancelRequested) return <span className="t2">cancel requested</span>;
  return <span className="t3">–</span>;
}

const columns: Column<Job>[] = [
  {
    id: 'job',
    header: 'Job',
    narrow: 'a',
    cell: (job) => (
      <>
        <Link className="med" to="/jobs/$job" params={{ job: job.id }}>
          {job.kind}
        </Link>{' '}
        <span className="t3 s12">{job.name}</span>
      </>
    ),
  },
  {
    id: 'queue',
    header: 'Queue',
    width: 160,
    tight: 106,
    narrow: 'c',
    cell: (job) => <span className="t2">{job.queue}</span>,
  },
  {
    id: 'state',
    header: 'State',
    width: 130,
    tight: 112,
    narrow: 'd',
    cell: (job) => <StateText {...jobState(job)} />,
  },
  { id: 'detail', header: 'Detail', tight: 136, narrow: 'drop', cell: (job) => <Detail job={job} /> },
  {
    id: 'tries',
    header: 'Tries',
    width: 90,
    num: true,
    wide: true,
    narrow: 'drop',
    cell: (job) => (
      <span className="t2">
        {job.tries ?? 0} of {job.maxAttempts}
      </span>
    ),
  },
  {
    id: 'age',
    header: 'Created',
    width: 116,
    tight: 112,
    num: true,
    narrow: 'b',
    cell: (job) => (
      <span className="t2">
        <Ago at={job.createdAt} />
      </span>
    ),
  },
];

export default function Jobs() {
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/job/{job_id}/retry');
  const mayEnqueue = useMay('POST /api/v1/job');
  const [dialog, setDialog] = useState<'enqueue' | 'redrive' | null>(null);
  const selection = useSelection();
  const query = useQuery({ ...jobsQuery(url), refetchInterval: usePoll(url.cursor ? 15_000 : 5000) });
  const { rows, waiting, release } = useHeld(
    query.data?.data,
    jobId,
    url.open !== undefined || selection.list.length > 0,
  );
  const set = (name: string) => (value: string | undefined) =>
    setUrl({ [name]: value, cursor: undefined, open: undefined });
  const open = (job: Job) => setUrl({ open: job.id }, { replace: url.open !== undefined });
  const keep = useMemo(() => Object.fromEntries(filterNames.map((name) => [name, url[name]])), [url]);
  const filtered = filterNames.some((name) => url[name]);
  const redrive = useChange(
    () =>
      ok(
        api.POST('/api/v1/job/redrive', {
          body: {
            queue: url.queue ?? null,
            kind: url.kind ?? null,
            tag: url.tag ?? null,
            batch: url.batch ?? null,
            error: url.error ?? null,
            after: url.after ?? null,
            before: url.before ?? null,
          },
        }),
      ),
    ['jobs', 'queues'],
    (result) =>
      toast(`Redriven ${plural(result.redriven, 'job')}`, {
        text: result.done ? undefined : 'More match: redrive again to continue.',
      }),
  );
  const each = useChange(
    async (verb: 'retry' | 'cancel') => {
      for (const id of selection.list) {
        const params = { params: { path: { job_id: id } } };
        await (verb === 'retry'
          ? ok(api.POST('/api/v1/job/{job_id}/retry', params))
          : ok(api.POST('/api/v1/job/{job_id}/cancel', params)));
      }
      return selection.list.length;
    },
    ['jobs', 'queues'],
    (number, verb) => {
      toast(`${verb === 'retry' ? 'Retried' : 'Cancelled'} ${plural(number, 'job')}`);
      selection.clear();
    },
  );
  const [bulk, setBulk] = useState<'retry' | 'cancel' | null>(null);
  const dead = useDead();
  const list = (
    <>
      <Tabs
        label="States"
        tabs={states.map(([key, label]) => ({
          to: '/jobs',
          search: { ...keep, state: key || undefined },
          label,
          active: key === (url.state ?? ''),
          number: key === 'dead' ? dead.jobs : undefined,
        }))}
      />
      <FilterBar
        end={
          <>
            {url.state === 'dead' && may && rows && rows.length > 0 && (
              <Button size="sm" icon={RotateCw} onClick={() => setDialog('redrive')}>
                Redrive all that match
              </Button>
            )}
            <Views screen="jobs" names={viewNames} />
          </>
        }
      >
        <SearchBox value={url.error ?? ''} placeholder="Text in the error" onChange={set('error')} />
        <Filter name="Queue" value={url.queue} onChange={set('queue')} />
        <Filter name="Kind" value={url.kind} onChange={set('kind')} />
        <Filter name="Tag" value={url.tag} onChange={set('tag')} />
        <Filter name="Batch" value={url.batch} onChange={set('batch')} />
      </FilterBar>
      {waiting > 0 && (
        <button type="button" className="newbar" onClick={release}>
          {plural(waiting, 'new job')}
        </button>
      )}
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what="The list of jobs" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={14} />}
        {rows?.length === 0 &&
          (filtered || url.state ? (
            <Empty
              title="No jobs match"
              action={
                <Button
                  onClick={() =>
                    setUrl({ ...Object.fromEntries(filterNames.map((name) => [name, undefined])), state: undefined })
                  }
                >
                  Clear filters
                </Button>
              }
            />
          ) : (
            <Empty
              title="No jobs yet"
              command={curl({
                method: 'POST',
                url: `${location.origin}/api/v1/job`,
                body: '{"queue":"emails","kind":"receipt.send","payload":{"to":"a@example.com"}}',
              })}
              action={
                may && (
                  <Button icon={Plus} onClick={() => setDialog('enqueue')}>
                    Enqueue job
                  </Button>
                )
              }
            >
              A job is a unit of work on a queue. A worker takes it, or it is pushed to a URL.
            </Empty>
          ))}
        {rows && rows.length > 0 && (
          <DataTable
            label="Jobs"
            keyboard
            columns={columns}
            rows={rows}
            rowId={jobId}
            selection={may ? selection : undefined}
            openId={url.open}
            onOpen={open}
          />
        )}
        <BulkBar
          count={selection.list.length}
          noun={selection.list.length === 1 ? 'job' : 'jobs'}
          onClear={selection.clear}
        >
          <Button kind="primary" size="sm" icon={RotateCw} onClick={() => setBulk('retry')}>
            Retry
          </Button>
          <Button kind="ghost" size="sm" onClick={() => setBulk('cancel')}>
            Cancel jobs
          </Button>
        </BulkBar>
      </div>
      <Pager
        note="Newest first"
        page={query.data}
        cursor={url.cursor}
        go={(cursor) => setUrl({ cursor, open: undefined })}
        keys={[
          ['J K', 'move'],
          ['O', 'open'],
          ['R', 'retry'],
        ]}
      />
    </>
  );
  return (
    <Page
      title="Jobs"
      tools={
        <>
          <LiveButton />
          {mayEnqueue && (
            <Button kind="primary" icon={Plus} onClick={() => setDialog('enqueue')}>
              Enqueue job
            </Button>
          )}
        </>
      }
    >
      <Split
        list={list}
        panel={
          url.open && (
            <JobPanel
              key={url.open}
              id={url.open}
              onClose={() => setUrl({ open: undefined })}
              onStep={stepper(rows ?? [], jobId, url.open, open)}
            />
          )
        }
      />
      {dialog === 'enqueue' && <EnqueueDialog queue={url.queue} onClose={() => setDialog(null)} />}
      <Confirm
        open={dialog === 'redrive'}
        onClose={() => setDialog(null)}
        title="Redrive dead jobs"
        verb="Redrive jobs"
        run={() => redrive.mutateAsync(undefined)}
      >
        Every dead job that meets the filters of this list becomes pending again, with fresh attempts.
      </Confirm>
      <Confirm
        open={bulk !== null}
        onClose={() => setBulk(null)}
        danger={bulk === 'cancel'}
        title={`${bulk === 'retry' ? 'Retry' : 'Cancel'} ${plural(selection.list.length, 'job')}`}
        verb={bulk === 'retry' ? `Retry ${selection.list.length}` : `Cancel ${selection.list.length}`}
        run={() => each.mutateAsync(bulk ?? 'retry')}
      >
        {bulk === 'retry'
          ? 'They become due now. Jobs that succeeded run once more only if the server allows it; it names the reason otherwise.'
          : 'Jobs that wait end as cancelled. A running job is asked to stop.'}
      </Confirm>
    </Page>
  );
}
