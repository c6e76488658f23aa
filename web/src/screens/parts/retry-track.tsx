// The attempts of a delivery on a fourth-root time axis: those that were made, the next one, and those that are planned.

import { useQuery } from '@tanstack/react-query';
import { raw } from '../../api/client';
import type { Attempt, Delivery } from '../../api/types';
import { offers } from '../../capabilities';
import { planned, type Planned } from '../../lib/plan';
import type { Setting } from '../../lib/policy';
import { delayLabel, position } from '../../lib/retry';
import { duration } from '../../lib/time';
import { Glyph } from '../../ui/atoms';
import { Card } from '../../ui/figures';
import { ListTime, useNow } from '../../ui/time';
import type { Effective } from './policy-form';

/** Labels that are closer than this share of the axis are left out. */
const LABEL_GAP = 0.055;

export function RetryTrack({ delivery, attempts }: { delivery: Delivery; attempts: Attempt[] }) {
  const { appId: app, endpointId: ep, eventType: type } = delivery;
  const waits = delivery.state === 'pending' && delivery.nextAttempt;
  const policy = useQuery({
    queryKey: ['endpoints', 'policy', app, ep, type],
    queryFn: () =>
      raw<Effective>('GET', `/api/v1/app/${encodeURIComponent(app)}/endpoint/${ep}/policy`, {
        query: { event_type: type },
      }),
    enabled: offers.policy && Boolean(waits),
    retry: false,
  }).data;
  const now = useNow();
  const start = Date.parse(delivery.timestamp);
  const next = waits ? Date.parse(delivery.nextAttempt ?? '') : null;
  const plan = next === null ? [] : planOf(policy, delivery.tries ?? 0, next);
  const done = attempts.toReversed();
  const lastDone = done.at(-1);
  const last = plan.at(-1);
  const end = Math.max(last?.at ?? 0, ...done.map((row) => Date.parse(row.timestamp)));
  const total = Math.max(1000, end - start);
  const place = (at: number) => position(Math.max(0, at - start), total);
  const x = (at: number) => ({ ['--x' as string]: `${(place(at) * 100).toFixed(1)}%` });
  const label = (at: number) =>
    at - start < 500
      ? '0'
      : `+${at - start < 10_000 ? duration(at - start) : delayLabel(Math.round((at - start) / 1000))}`;
  const shown = labelled([...done.map((row) => Date.parse(row.timestamp)), ...plan.map(({ at }) => at)], place, next);
  const text = (at: number) => (shown.has(at) ? label(at) : '');
  return (
    <Card
      title={policy && plan.length > 0 ? 'Retry schedule' : 'Attempts over time'}
      sub={policy && plan.length > 0 ? scheduleText(policy) : 'since the message was accepted'}
      tools={
        policy &&
        last && (
          <span className="s12 t2">
            Dead <ListTime at={new Date(last.at).toISOString()} /> if all attempts fail
          </span>
        )
      }
    >
      <div className="in hscroll" tabIndex={0} role="group" aria-label="Attempts over time">
        <div
          className={`track ${last ? 'planned' : ''}`}
          role="img"
          aria-label={sentence(attempts.length, plan, label)}
        >
          {lastDone && (
            <span
              className="done"
              style={{ ['--w' as string]: `${(place(Date.parse(lastDone.timestamp)) * 100).toFixed(1)}%` }}
            />
          )}
          {next !== null && now < next && <span className="now" style={x(now)} />}
          {done.map((row) => (
            <span
              key={row.id}
              className={`pt ${row.status === 0 ? 'ok' : 'fail'}`}
              style={x(Date.parse(row.timestamp))}
            >
              <i />
              {text(Date.parse(row.timestamp))}
            </span>
          ))}
          {plan.map(({ attempt, at }, index) => (
            <span
              key={attempt}
              className={`pt ${index === 0 ? 'next' : ''}`}
              style={x(at)}
              title={`Attempt ${attempt}`}
            >
              <i />
              {text(at)}
            </span>
          ))}
          {policy && last && (
            <span className="end">
              <Glyph look="dead" />
            </span>
          )}
        </div>
      </div>
    </Card>
  );
}

function planOf(policy: Effective | undefined, tries: number, next: number): Planned[] {
  if (!policy) return [{ attempt: tries + 1, at: next }];
  const budget = (policy.retryBudget as Setting<number | string | null> | undefined)?.value;
  return planned(
    { backoff: policy.backoff.value, maxAttempts: policy.maxAttempts.value, retryBudget: budget },
    tries,
    next,
  );
}

function scheduleText(policy: Effective): string {
  const { maxAttempts, jitterPercent, backoff } = policy;
  const origin =
    {
      server: 'default',
      endpoint: 'of the endpoint',
      application: 'of the application',
      environment: 'of the environment',
    }[backoff.from] ?? backoff.from;
  return `${origin}, ${maxAttempts.value} attempts${jitterPercent.value > 0 ? `, each delay ± ${jitterPercent.value} %` : ''}`;
}

/** The times whose labels fit. The next attempt always has one. */
function labelled(times: number[], place: (at: number) => number, next: number | null): Set<number> {
  const kept = new Set<number>(next === null ? [] : [next]);
  for (const at of times) {
    if ([...kept].every((other) => Math.abs(place(other) - place(at)) > LABEL_GAP)) kept.add(at);
  }
  return kept;
}

function sentence(made: number, plan: Planned[], label: (at: number) => string): string {
  const [next] = plan;
  if (!next) return `${made} attempts`;
  return `${made} attempts, the next ${label(next.at)} after acceptance${plan.length > 1 ? `, and ${plan.length - 1} more planned` : ''}`;
}
