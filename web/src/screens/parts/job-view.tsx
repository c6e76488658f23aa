// A job: what it is, its attempts with their logs, its payload and result.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Ban, Clock, RotateCw, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api, failure, messageOf, ok } from '../../api/client';
import { useChange, usePoll } from '../../api/queries';
import type { Job } from '../../api/types';
import { useKeys } from '../../keys';
import { parseLossless } from '../../lib/json';
import { phasesOf } from '../../lib/phases';
import { delayLabel } from '../../lib/retry';
import { classLabel, jobState } from '../../lib/state';
import { bytes, clip, plural, shortId } from '../../lib/text';
import { duration } from '../../lib/time';
import { useMay } from '../../session';
import { Badge, Glyph, Id, Tags } from '../../ui/atoms';
import { Button, TextField } from '../../ui/controls';
import { Meter, Props } from '../../ui/figures';
import { Payload } from '../../ui/json-view';
import { Confirm, Dialog } from '../../ui/overlay';
import { OpenIcon, Panel } from '../../ui/panel';
import { Snippet } from '../../ui/snippet';
import { Callout, Failure, Skeleton } from '../../ui/status';
import { FullTime, In, ListTime } from '../../ui/time';
import { toast, toastError } from '../../ui/toast';
import { Headers, Steps } from './attempts';

export type LoadedJob = { job: Job; payload: unknown; result: unknown };

/** A job with payload and result whose numbers keep their digits. */
export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: ['jobs', 'one', id],
    queryFn: async (): Promise<LoadedJob> => {
      const { data, error, response } = await api.GET('/api/v1/job/{job_id}', {
        params: { path: { job_id: id } },
        parseAs: 'text',
      });
      if (!response.ok) throw failure(response, error);
      const text = String(data);
      const exact = (parseLossless(text) ?? {}) as { payload?: unknown; result?: unknown };
      return { job: JSON.parse(text) as Job, payload: exact.payload, result: exact.result };
    },
    placeholderData: undefined,
  });

export function JobActions({ job, onGone }: { job: Job; onGone?: () => void }) {
  const may = useMay('POST /api/v1/job/{job_id}/retry');
  const [dialog, setDialog] = useState<'cancel' | 'delete' | 'reschedule' | null>(null);
  const [seconds, setSeconds] = useState('60');
  const params = { params: { path: { job_id: job.id } } };
  const nouns = ['jobs', 'queues', 'batches'];
  const retry = useChange(
    () => ok(api.POST('/api/v1/job/{job_id}/retry', params)),
    nouns,
    () => toast('Job is due now'),
  );
  const cancel = useChange(
    () => ok(api.POST('/api/v1/job/{job_id}/cancel', params)),
    nouns,
    () => toast('Cancelled'),
  );
  const remove = useChange(
    () => ok(api.DELETE('/api/v1/job/{job_id}', params)),
    nouns,
    () => {
      toast('Job deleted');
      onGone?.();
    },
  );
  const reschedule = useChange(
    () => ok(api.PATCH('/api/v1/job/{job_id}', { ...params, body: { delaySeconds: Number(seconds) } })),
    nouns,
    () => {
      toast('Rescheduled');
      setDialog(null);
    },
  );
  const open = job.state === 'pending' || job.state === 'leased';
  const canRetry = may && (job.state === 'dead' || job.state === 'pending' || job.state === 'cancelled');
  const run = () => canRetry && retry.mutate(undefined, { onError: (error) => toastError('Retry failed', error) });
  useKeys({ r: run });
  if (!may) return null;
  return (
    <>
      {canRetry && (
        <Button kind="primary" icon={RotateCw} hint="R" busy={retry.isPending} onClick={run}>
          {job.state === 'pending' ? 'Run now' : 'Retry'}
        </Button>
      )}
      {job.state === 'pending' && (
        <Button icon={Clock} onClick={() => setDialog('reschedule')}>
          Reschedule
        </Button>
      )}
      {open && (
        <Button
          kind="danger"
          icon={Ban}
          className="push"
          disabled={job.cancelRequested}
          onClick={() => setDialog('cancel')}
        >
          {job.cancelRequested ? 'Cancel requested' : 'Cancel job'}
        </Button>
      )}
      {!open && (
        <Button kind="danger" icon={Trash2} className="push" onClick={() => setDialog('delete')}>
          Delete
        </Button>
      )}
      <Confirm
        open={dialog === 'cancel'}
        onClose={() => setDialog(null)}
        danger
        title="Cancel this job"
        verb="Cancel job"
        run={() => cancel.mutateAsync(undefined)}
      >
        {job.state === 'leased'
          ? 'The worker is asked to stop. The job ends when it reports, or when its lease ends.'
          : 'The job ends as cancelled.'}
      </Confirm>
      <Confirm
        open={dialog === 'delete'}
        onClose={() => setDialog(null)}
        danger
        title="Delete this job"
        verb="Delete job"
        run={() => remove.mutateAsync(undefined)}
      >
        The record, its attempts and its result are deleted for good.
      </Confirm>
      <Dialog
        open={dialog === 'reschedule'}
        onClose={() => setDialog(null)}
        title="Reschedule"
        onSubmit={() => reschedule.mutate(undefined)}
        footer={
          <>
            <Button onClick={() => setDialog(null)}>Keep</Button>
            <Button
              kind="primary"
              submit
              busy={reschedule.isPending}
              disabled={!Number.isFinite(Number(seconds)) || Number(seconds) < 0}
            >
              Reschedule job
            </Button>
          </>
        }
      >
        <TextField label="Run in" value={seconds} onChange={setSeconds} unit="seconds" inputMode="decimal" />
        {reschedule.isError && <Callout look="dead" title={messageOf(reschedule.error)} />}
      </Dialog>
    </>
  );
}

export function JobFacts({ job }: { job: Job }) {
  return (
    <Props
      items={
        [
          [
            'Queue',
            <Link key="q" className="link" to="/queues/$name" params={{ name: job.queue }}>
              {job.queue}
            </Link>,
          ],
          job.state === 'pending' &&
            job.runAt && [
              'Next attempt',
              <>
                <In at={job.runAt} />, <ListTime at={job.runAt} />
              </>,
            ],
          ['Attempts', `${job.tries ?? 0} of ${job.maxAttempts}`],
          job.heldBy && [
            'Held by',
            <span key="h" className="mono">
              {holder(job)}
            </span>,
          ],
          ['Priority', String(job.priority)],
          job.concurrencyKey && [
            'Concurrency key',
            <span key="c" className="mono">
              {job.concurrencyKey}
            </span>,
          ],
          job.uniqueKey && [
            'Unique key',
            <span key="u" className="mono">
              {job.uniqueKey}
            </span>,
          ],
          ['Timeout', delayLabel(job.timeoutSeconds)],
          job.batchId && [
            'Batch',
            <Link key="b" className="link mono" to="/batches/$id" params={{ id: job.batchId }}>
              {shortId(job.batchId)}
            </Link>,
          ],
          job.scheduleId && [
            'Schedule',
            <span key="s" className="mono">
              {shortId(job.scheduleId)}
            </span>,
          ],
          job.tags.length > 0 && [
            'Tags',
            <span key="t" className="row">
              <Tags names={job.tags} />
            </span>,
          ],
          job.endedAt && ['Ended', <FullTime key="e" at={job.endedAt} />],
        ].map((item) => item || null) as (readonly [React.ReactNode, React.ReactNode] | null)[]
      }
    />
  );
}

function holder(job: Job): string {
  const held = job.heldBy as { name?: string; workerId?: string; id?: string } | null | undefined;
  return held?.name ?? held?.workerId ?? held?.id ?? '';
}

export function JobAttempts({ job }: { job: Job }) {
  const attempts = job.attempts ?? [];
  // The log of the newest attempt is open, until the person chooses another.
  const [chosen, setOpen] = useState<string | null | undefined>(undefined);
  const open = chosen === undefined ? attempts[0]?.id : chosen;
  if (attempts.length === 0) return <p className="t3 quiet">No attempt yet.</p>;
  return attempts.map((attempt, index) => {
    const good = attempt.class === 'success' || attempt.state === 'succeeded';
    return (
      <div key={attempt.id} className="stack g8 jobtry">
        <div className={`dlv st-${good ? 'delivered' : 'dead'} ${good ? '' : 'bad'}`}>
          <Glyph look={good ? 'delivered' : 'dead'} />
          <span className="host">
            Attempt {attempts.length - index}{' '}
            <span className="t3">
              {duration(attempt.durationMs)} on {shortId(attempt.workerId)}
            </span>
          </span>
          <span className="meta wrap-any">
            <b>{classLabel(attempt.class)}.</b> {attempt.error && clip(attempt.error, 300)}
          </span>
          <span className="act">
            <ListTime at={attempt.startedAt} />
            {(attempt.log.length > 0 || attempt.phases) && (
              <Button
                size="sm"
                kind="ghost"
                aria-expanded={open === attempt.id}
                onClick={() => setOpen(open === attempt.id ? null : attempt.id)}
              >
                {attempt.phases ? 'Request' : 'Log'}
              </Button>
            )}
          </span>
        </div>
        {open === attempt.id && attempt.phases && (
          <div className="stack g8 push-steps">
            <Steps
              phases={phasesOf(attempt.phases, attempt.durationMs, attempt.responseStatusCode ? 'reply' : 'no reply')}
              reused={attempt.phases.reused}
            />
            <Headers headers={attempt.responseHeaders ?? []} hidden="not stored" />
          </div>
        )}
        {open === attempt.id && attempt.log.length > 0 && <Snippet text={attempt.log.join('\n')} label="Log" />}
      </div>
    );
  });
}

export function JobProgress({ job }: { job: Job }) {
  if (!job.progress) return null;
  return (
    <div className="stack g8">
      <Meter share={job.progress.percent / 100} color="var(--leased)" label={`${job.progress.percent} %`} />
      <span className="s12 t2">
        {job.progress.percent} % {job.progress.text}
      </span>
    </div>
  );
}

export function JobBodies({ data }: { data: LoadedJob }) {
  return (
    <>
      <Payload value={data.payload ?? null} />
      {data.result !== undefined && data.result !== null && <Payload title="Result" value={data.result} />}
      {data.job.resultTooLargeBytes ? (
        <Callout
          look="retrying"
          title={`The result of ${bytes(data.job.resultTooLargeBytes)} was too large to keep.`}
        />
      ) : null}
    </>
  );
}

export function JobPanel({ id, onClose, onStep }: { id: string; onClose: () => void; onStep: (step: 1 | -1) => void }) {
  const query = useQuery({ ...jobQuery(id), refetchInterval: usePoll(2000) });
  const job = query.data?.job;
  return (
    <Panel
      title={
        <span className="row">
          {job?.kind ?? 'Job'} {job && <Badge {...jobState(job)} />}
        </span>
      }
      label="Job"
      onClose={onClose}
      onStep={onStep}
      full={
        <Link className="btn ghost sm" to="/jobs/$job" params={{ job: id }}>
          <OpenIcon className="i" aria-hidden="true" />
          Open
        </Link>
      }
      footer={job && <JobActions job={job} onGone={onClose} />}
      sub={
        <>
          <Id id={id} />
          {job?.name && <span>{job.name}</span>}
          {job && (
            <span>
              Enqueued <FullTime at={job.createdAt} />
            </span>
          )}
        </>
      }
    >
      {query.isError && <Failure error={query.error} what="The job" retry={() => void query.refetch()} />}
      {!query.data && !query.isError && <Skeleton rows={6} />}
      {query.data && job && (
        <>
          <section>
            <JobFacts job={job} />
            <JobProgress job={job} />
          </section>
          <section>
            <h3>{plural(job.attempts?.length ?? 0, 'attempt')}</h3>
            <JobAttempts job={job} />
          </section>
          <section className="stack">
            <JobBodies data={query.data} />
          </section>
        </>
      )}
    </Panel>
  );
}
