// The health of an endpoint, from its attempts.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { api, ok } from '../../api/client';
import { endpointStatsQuery, usePoll } from '../../api/queries';
import type { Attempt, Endpoint, Page } from '../../api/types';
import { bucketize } from '../../lib/buckets';
import { percentile } from '../../lib/retry';
import { ATTEMPTS_MIN, classColor, classLabel } from '../../lib/state';
import { count, percent } from '../../lib/text';
import { duration, ranges, type Range } from '../../lib/time';
import { Card, Kpi, LazyChart, Legend } from '../../ui/figures';
import { Empty, Failure, Skeleton } from '../../ui/status';
import { Ago } from '../../ui/time';

const PAGES_MAX = 4;
const STEPS = 60;

/** The attempts of a range, newest first, up to 1,000. */
const samplesQuery = (app: string, ep: string, range: Range) =>
  queryOptions({
    queryKey: ['attempts', 'samples', app, ep, range],
    queryFn: async () => {
      const now = Date.now();
      const rows: Attempt[] = [];
      let iterator: string | undefined;
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const query = {
          limit: 250,
          iterator,
          with_content: false,
          expanded_statuses: true,
          after: new Date(now - ranges[range]).toISOString(),
        };
        const found = (await ok(
          api.GET('/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id}', {
            params: { path: { app_id: app, endpoint_id: ep }, query },
          }),
        )) as Page<Attempt>;
        rows.push(...found.data);
        if (found.done || !found.iterator) return { rows, now, complete: true };
        iterator = found.iterator;
      }
      return { rows, now, complete: false };
    },
  });

const whole = (value: number) => String(Math.round(value));

export function Health({ app, endpoint, range }: { app: string; endpoint: Endpoint; range: Range }) {
  const poll = usePoll();
  const samples = useQuery({ ...samplesQuery(app, endpoint.id, range), refetchInterval: poll });
  const stats = useQuery({ ...endpointStatsQuery(app, endpoint.id, ranges[range]), refetchInterval: poll }).data;
  const data = samples.data;
  const buckets = useMemo(() => {
    if (!data) return null;
    // An incomplete list covers less than the range: the chart begins where the list does.
    const oldest = data.rows.at(-1);
    const from = data.complete || !oldest ? data.now - ranges[range] : Date.parse(oldest.timestamp);
    return bucketize(data.rows, from, data.now, STEPS);
  }, [data, range]);
  const series = useMemo(() => {
    if (!buckets) return [];
    const failures = [...buckets.failures].map(([name, values]) => ({
      label: classLabel(name),
      color: classColor(name),
      fill: 0.85,
      width: 1,
      values,
    }));
    return [{ label: '2xx', color: 'var(--delivered)', fill: 0.26, values: buckets.success }, ...failures];
  }, [buckets]);
  const latencies = useMemo(
    () =>
      buckets
        ? [
            { label: 'p50', color: 'var(--chart-2)', values: buckets.p50 },
            { label: 'p95', color: 'var(--chart-1)', values: buckets.p95 },
            { label: 'p99', color: 'var(--chart-3)', values: buckets.p99 },
          ]
        : [],
    [buckets],
  );
  if (samples.isError && !data)
    return <Failure error={samples.error} what="Health" retry={() => void samples.refetch()} />;
  if (!data || !buckets) return <Skeleton rows={6} />;
  const attempts = stats ? stats.success + stats.fail : 0;
  const p95 = percentile(
    data.rows.map((row) => row.responseDurationMs),
    0.95,
  );
  const lastSuccess = data.rows.find((row) => row.status === 0);
  const lastFailure = data.rows.find((row) => row.status !== 0);
  const total = (values: number[]) => count(values.reduce((sum, value) => sum + value, 0));
  return (
    <>
      <div className="kpis">
        <Kpi
          label={`Success, ${range}`}
          value={
            !stats || attempts === 0
              ? '–'
              : attempts < ATTEMPTS_MIN
                ? `${stats.success} of ${attempts}`
                : percent(stats.success / attempts)
          }
          unit={attempts >= ATTEMPTS_MIN ? '%' : undefined}
          note={stats ? `${count(stats.fail)} failed${stats.capped ? ', counted up to 100,000' : ''}` : undefined}
          bad={stats !== undefined && attempts > 0 && stats.success / attempts < 0.95}
        />
        <Kpi label="Attempts" value={stats ? count(attempts) : '–'} note={`in ${range}`} />
        <Kpi
          label="Attempt, p95"
          value={p95 === null ? '–' : duration(p95)}
          note={data.complete ? `in ${range}` : 'of the newest 1,000'}
        />
        <Kpi
          label="Waiting"
          value={stats ? count(stats.pending) : '–'}
          note={stats ? `${count(stats.sending)} being sent` : undefined}
        />
        <Kpi
          label="Last success"
          value={lastSuccess ? <Ago at={lastSuccess.timestamp} /> : '–'}
          note={lastSuccess ? undefined : `none in ${range}`}
        />
        <Kpi
          label="Last failure"
          value={lastFailure ? <Ago at={lastFailure.timestamp} /> : '–'}
          note={lastFailure ? classLabel(lastFailure.class) : `none in ${range}`}
        />
      </div>
      {data.rows.length === 0 ? (
        <Card title="Attempts by outcome">
          <Empty title={`No attempts in ${range}`}>Choose a longer range, or send a test.</Empty>
        </Card>
      ) : (
        <>
          <Card
            title="Attempts by outcome"
            sub={data.complete ? `in ${range}` : 'the newest 1,000'}
            tools={<Legend series={series.map((one) => ({ ...one, value: total(one.values) }))} />}
          >
            <div className="in">
              <LazyChart
                times={buckets.times}
                series={series}
                stacked
                height={190}
                format={whole}
                label={`Attempts by outcome: ${series.map((one) => `${one.label} ${total(one.values)}`).join(', ')}`}
              />
            </div>
          </Card>
          <Card title="Attempt latency" tools={<Legend series={latencies} line />}>
            <div className="in">
              <LazyChart
                times={buckets.times}
                series={latencies}
                log
                height={170}
                format={duration}
                label={`Attempt latency: p95 ${p95 === null ? 'unknown' : duration(p95)}`}
              />
            </div>
          </Card>
        </>
      )}
    </>
  );
}
