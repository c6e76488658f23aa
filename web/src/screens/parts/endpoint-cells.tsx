// The health of an endpoint in lists: state, success, latest attempts, latency and backlog.

import { useQuery } from '@tanstack/react-query';
import { endpointAttemptsQuery, endpointStatsQuery, usePoll } from '../../api/queries';
import type { Attempt, Endpoint } from '../../api/types';
import { percentile } from '../../lib/retry';
import { ATTEMPTS_MIN, endpointState, failureText } from '../../lib/state';
import { count, percent } from '../../lib/text';
import { duration } from '../../lib/time';
import { StateText } from '../../ui/atoms';
import { ListTime } from '../../ui/time';

const DAY = 86_400_000;
const RECENT = 24;

/** The cells of a row share their two reads through the cache. */
export function EndpointCell({
  app,
  endpoint,
  part,
}: {
  app: string;
  endpoint: Pick<Endpoint, 'id'> & Partial<Pick<Endpoint, 'disabled' | 'policy'>>;
  part: 'state' | 'success' | 'recent' | 'p95' | 'waiting' | 'last';
}) {
  const poll = usePoll(30_000);
  const stats = useQuery({ ...endpointStatsQuery(app, endpoint.id, DAY), refetchInterval: poll }).data;
  const recent = useQuery({
    ...endpointAttemptsQuery(app, endpoint.id, { limit: RECENT, with_content: false }),
    refetchInterval: poll,
    staleTime: 15_000,
  }).data?.data;
  const dash = <span className="t3">–</span>;
  const attempts = stats ? stats.success + stats.fail : 0;
  switch (part) {
    case 'state': {
      const latest = recent?.[0];
      const state = endpointState(
        endpoint,
        recent && { attempts: recent.length, failures: recent.filter((row) => row.status !== 0).length },
      );
      const failed = latest && latest.status !== 0 ? failureText(latest.class, latest.responseStatusCode) : undefined;
      const reason = endpoint.disabled
        ? latest?.class === 'gone'
          ? 'answered 410 Gone'
          : 'nothing is sent'
        : endpoint.policy?.paused
          ? 'deliveries wait'
          : failed;
      return (
        <>
          <StateText {...state} />
          {reason && <small>{reason}</small>}
        </>
      );
    }
    case 'success':
      if (!stats || attempts === 0) return dash;
      return attempts < ATTEMPTS_MIN ? `${stats.success} of ${attempts}` : `${percent(stats.success / attempts)} %`;
    case 'recent':
      return recent?.length ? <Ticks attempts={recent} /> : dash;
    case 'p95': {
      const p95 = percentile(
        (recent ?? []).map((row) => row.responseDurationMs),
        0.95,
      );
      return p95 === null ? dash : duration(p95);
    }
    case 'waiting':
      return stats ? count(stats.pending + stats.sending) : dash;
    case 'last': {
      const last = recent?.find((row) => row.status === 0);
      return last ? <ListTime at={last.timestamp} /> : dash;
    }
  }
}

/** The latest attempts, oldest first: low and green for success, high and red for failure. */
export function Ticks({ attempts }: { attempts: Attempt[] }) {
  const failed = attempts.filter((row) => row.status !== 0).length;
  return (
    <span className="ticks runs" role="img" aria-label={`${failed} of the latest ${attempts.length} attempts failed`}>
      {attempts.toReversed().map((row) => (
        <i key={row.id} className={row.status === 0 ? 'st-delivered' : 'st-dead'} />
      ))}
    </span>
  );
}
