// One job on its own page.

import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { usePoll } from '../api/queries';
import { jobState } from '../lib/state';
import { Badge, Id } from '../ui/atoms';
import { Card } from '../ui/figures';
import { Body, LiveButton, ObjectHead, Page } from '../ui/page';
import { Failure, Skeleton } from '../ui/status';
import { FullTime } from '../ui/time';
import { JobActions, JobAttempts, JobBodies, JobFacts, JobProgress, jobQuery } from './parts/job-view';

export default function JobScreen() {
  const { job: id = '' } = useParams({ strict: false });
  const navigate = useNavigate();
  const query = useQuery({ ...jobQuery(id), refetchInterval: usePoll(2000) });
  const data = query.data;
  const title = data?.job.kind ?? 'Job';
  return (
    <Page title={title} crumbs={[{ to: '/jobs', label: 'Jobs' }]} tools={<LiveButton />}>
      {!data ? (
        <Body>
          {query.isError ? (
            <Failure error={query.error} what={`Job ${id}`} retry={() => void query.refetch()} />
          ) : (
            <Skeleton />
          )}
        </Body>
      ) : (
        <Body
          head={
            <ObjectHead
              title={
                <>
                  {title} {data.job.name && <span className="t3 reg">{data.job.name}</span>}
                </>
              }
              badges={<Badge {...jobState(data.job)} />}
              sub={
                <>
                  <Id id={id} whole />
                  <span>
                    Enqueued <FullTime at={data.job.createdAt} />
                  </span>
                </>
              }
              tools={<JobActions job={data.job} onGone={() => void navigate({ to: '/jobs' })} />}
            />
          }
        >
          <div className="grid cols two-cards">
            <div className="stack">
              <Card title="Job">
                <div className="in stack">
                  <JobFacts job={data.job} />
                  <JobProgress job={data.job} />
                </div>
              </Card>
              <Card title="Attempts" sub={String(data.job.attempts?.length ?? 0)}>
                <div className="in">
                  <JobAttempts job={data.job} />
                </div>
              </Card>
            </div>
            <div className="stack">
              <JobBodies data={data} />
            </div>
          </div>
        </Body>
      )}
    </Page>
  );
}
