// One batch: progress, dead jobs, seal.

import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { Lock, RotateCw, SkipForward } from 'lucide-react';
import { useState } from 'react';
import { api, ok } from '../api/client';
import { useAppName, useChange, usePoll } from '../api/queries';
import type { Batch } from '../api/types';
import { jobState } from '../lib/state';
import { clip, count, plural } from '../lib/text';
import { useMay } from '../session';
import { Badge, Id, StateText } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Card, Kpi, Strip } from '../ui/figures';
import { Confirm } from '../ui/overlay';
import { Body, LiveButton, ObjectHead, Page } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { Ago, FullTime } from '../ui/time';
import { toast } from '../ui/toast';
import { jobsQuery } from './jobs';
import { BatchBar, batchQuery, batchState, totalOf } from './parts/batch-data';

export default function BatchScreen() {
  const { id = '' } = useParams({ strict: false });
  const query = useQuery({ ...batchQuery(id), refetchInterval: usePoll(3000) });
  return (
    <Page title={query.data?.name ?? 'Batch'} crumbs={[{ to: '/batches', label: 'Batches' }]} tools={<LiveButton />}>
      {query.data ? (
        <Content batch={query.data} />
      ) : (
        <Body>
          {query.isError ? (
            <Failure error={query.error} what={`Batch ${id}`} retry={() => void query.refetch()} />
          ) : (
            <Skeleton />
          )}
        </Body>
      )}
    </Page>
  );
}

function Content({ batch }: { batch: Batch }) {
  const may = useMay('POST /api/v1/batch/{batch_id}/retry');
  const app = useAppName(batch.application);
  const [dialog, setDialog] = useState<'seal' | 'retry' | 'skip' | null>(null);
  const dead =
    useQuery({ ...jobsQuery({ batch: batch.id, state: 'dead' }), refetchInterval: usePoll() }).data?.data ?? [];
  const latest = useQuery({ ...jobsQuery({ batch: batch.id }), refetchInterval: usePoll() }).data?.data ?? [];
  const path = { batch_id: batch.id };
  const jobs = dead.map(({ id }) => id);
  const nouns = ['batches', 'jobs'];
  const seal = useChange(
    () => ok(api.POST('/api/v1/batch/{batch_id}/seal', { params: { path } })),
    nouns,
    () => toast('Batch sealed'),
  );
  const retry = useChange(
    () => ok(api.POST('/api/v1/batch/{batch_id}/retry', { params: { path }, body: { jobs } })),
    nouns,
    () => toast(`Retried ${plural(jobs.length, 'job')}`),
  );
  const skip = useChange(
    () => ok(api.POST('/api/v1/batch/{batch_id}/skip', { params: { path }, body: { jobs } })),
    nouns,
    () => toast(`Skipped ${plural(jobs.length, 'job')}`),
  );
  return (
    <Body
      head={
        <ObjectHead
          title={batch.name}
          badges={<Badge {...batchState(batch)} />}
          sub={<Id id={batch.id} whole />}
          tools={
            may && (
              <>
                {batch.state === 'open' && (
                  <Button icon={Lock} onClick={() => setDialog('seal')}>
                    Seal
                  </Button>
                )}
                {dead.length > 0 && (
                  <>
                    <Button icon={SkipForward} onClick={() => setDialog('skip')}>
                      Skip dead
                    </Button>
                    <Button kind="primary" icon={RotateCw} onClick={() => setDialog('retry')}>
                      Retry dead
                    </Button>
                  </>
                )}
              </>
            )
          }
        />
      }
    >
      <Strip
        items={[
          [
            'Application',
            <Link key="a" className="link" to="/apps/$app" params={{ app: batch.application }}>
              {app}
            </Link>,
          ],
          [
            'Announces',
            <span key="p" className="mono">
              {batch.prefix}.completed, {batch.prefix}.failed
            </span>,
          ],
          ['Phase', String(batch.phase)],
          ['Announced', batch.announced ?? 'not yet'],
          ['Created', <FullTime key="c" at={batch.createdAt} />],
        ]}
      />
      <div className="kpis k5">
        <Kpi label="Succeeded" value={count(batch.counts.succeeded)} unit={`of ${count(totalOf(batch))}`} />
        <Kpi label="Pending" value={count(batch.counts.pending)} />
        <Kpi label="Dead" value={count(batch.counts.dead)} />
        <Kpi label="Skipped" value={count(batch.counts.skipped)} />
        <Kpi label="Cancelled" value={count(batch.counts.cancelled)} />
      </div>
      <BatchBar batch={batch} />
      <Card
        title="Jobs"
        className="clip"
        tools={
          <Link className="link" to="/jobs" search={{ batch: batch.id }}>
            All jobs
          </Link>
        }
      >
        {latest.length === 0 && <Empty title="No jobs in this batch yet" />}
        <table className="tbl card-tbl jobrows">
          <tbody>
            {[...dead, ...latest.filter((job) => job.state !== 'dead')].slice(0, 20).map((job) => (
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
                <td className="t2 hide-narrow">{job.error ? clip(job.error, 160) : ''}</td>
                <td className="num t2">
                  <Ago at={job.createdAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
      <Confirm
        open={dialog === 'seal'}
        onClose={() => setDialog(null)}
        title="Seal this batch"
        verb="Seal batch"
        run={() => seal.mutateAsync(undefined)}
      >
        No more jobs can be added. The batch announces its end when all jobs have ended. It cannot be undone.
      </Confirm>
      <Confirm
        open={dialog === 'retry'}
        onClose={() => setDialog(null)}
        title="Retry dead jobs"
        verb={`Retry ${jobs.length}`}
        run={() => retry.mutateAsync(undefined)}
      >
        {plural(jobs.length, 'dead job')} become pending again, and a new phase begins.
      </Confirm>
      <Confirm
        open={dialog === 'skip'}
        onClose={() => setDialog(null)}
        danger
        title="Skip dead jobs"
        verb={`Skip ${jobs.length}`}
        run={() => skip.mutateAsync(undefined)}
      >
        {plural(jobs.length, 'dead job')} end as skipped, and the batch can complete without them.
      </Confirm>
    </Body>
  );
}
