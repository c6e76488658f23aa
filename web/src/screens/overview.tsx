// Is it healthy, and where not?

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ChevronRight } from 'lucide-react';
import { useEffect, useMemo } from 'react';
import { appsQuery, overviewQuery, usePoll } from '../api/queries';
import { ApiFailure } from '../api/client';
import type { Overview } from '../api/types';
import { classColor, classLabel, type Look } from '../lib/state';
import { count, percent, plural, rate } from '../lib/text';
import { duration, isRange, type Range } from '../lib/time';
import { Glyph, Url } from '../ui/atoms';
import { Card, Kpi, LazyChart, Legend, Meter, Spark } from '../ui/figures';
import { Body, LiveButton, Page, RangePicker, ZoneButton } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { Ago } from '../ui/time';
import { useUrl } from '../url';
import { FirstStart } from './first-start';
import { EndpointCell } from './parts/endpoint-cells';
import { PausedAbove } from './parts/pause';

export default function OverviewScreen() {
  const [url, setUrl] = useUrl();
  const range: Range = isRange(url.range) ? url.range : '1h';
  const poll = usePoll();
  const query = useQuery({ ...overviewQuery(range), refetchInterval: poll });
  const apps = useQuery({ ...appsQuery({ limit: 1 }), refetchInterval: poll });
  const isEmpty = apps.data?.data.length === 0;
  // The first start goes on after its first step created an application; it ends by itself with the first message.
  const isNew = isEmpty || url.start === '1';
  useEffect(() => {
    if (isEmpty && url.start !== '1') setUrl({ start: '1' }, { replace: true });
    // Only the first look at an empty environment starts it.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isEmpty, url.start]);
  const tools = isNew ? (
    <ZoneButton />
  ) : (
    <>
      <RangePicker range={range} />
      <ZoneButton />
      <LiveButton />
    </>
  );
  return (
    <Page title="Overview" tools={tools}>
      {isNew ? <FirstStart /> : <Content query={query} range={range} />}
    </Page>
  );
}

function Content({
  query,
  range,
}: {
  query: { data?: Overview; error: unknown; refetch: () => unknown };
  range: Range;
}) {
  if (!query.data) {
    if (!query.error) return <Skeleton />;
    const missing = query.error instanceof ApiFailure && query.error.status === 404;
    return (
      <Body>
        {missing ? (
          <Empty title="This server does not offer an overview">Its API has no route for it.</Empty>
        ) : (
          <Failure error={query.error} what="The overview" retry={() => query.refetch()} />
        )}
      </Body>
    );
  }
  const data = query.data;
  return (
    <Body>
      {query.error ? <Failure error={query.error} what="The overview" retry={() => query.refetch()} /> : null}
      <PausedAbove />
      <Attention data={data} />
      <Figures data={data} range={range} />
      <div className="grid stretch cols ov-charts">
        <Throughput data={data} />
        <Latency data={data} />
      </div>
      <div className={`grid stretch cols ov-lists ${data.nodes.length === 0 ? 'no-nodes' : ''}`}>
        <Failures data={data} range={range} />
        <Failing data={data} range={range} />
        {data.nodes.length > 0 && <Nodes data={data} />}
      </div>
    </Body>
  );
}

type Notice = {
  look: Look;
  title: string;
  text: string;
  to: string;
  params?: Record<string, string>;
  search?: Record<string, string>;
  link: string;
};

/** What someone should look at, worst first, at most five. */
export function notices(data: Overview): Notice[] {
  const list: Notice[] = [];
  const age = data.totals.oldestDueSeconds ?? 0;
  if (age > 60) {
    list.push({
      look: 'retrying',
      title: `${plural(data.totals.due, 'delivery or job is', 'deliveries and jobs are')} overdue.`,
      text: `The oldest was due ${duration(age * 1000)} ago.`,
      to: '/messages',
      search: { status: 'pending' },
      link: 'Messages',
    });
  }
  for (const queue of data.queues) {
    if (queue.paused && queue.pending > 0) {
      list.push({
        look: 'paused',
        title: `Queue ${queue.name} is paused.`,
        text: `${plural(queue.pending, 'job waits', 'jobs wait')}.`,
        to: '/queues/$name',
        params: { name: queue.name },
        link: 'Queue',
      });
    } else if (queue.limit && queue.leased >= queue.limit && queue.pending > 0) {
      list.push({
        look: 'limited',
        title: `Queue ${queue.name} is at its limit.`,
        text: `${count(queue.leased)} jobs run, ${count(queue.pending)} wait.`,
        to: '/queues/$name',
        params: { name: queue.name },
        link: 'Queue',
      });
    }
  }
  const { dead, deadJobs } = data.totals;
  if (deadJobs > 0)
    list.push({
      look: 'dead',
      title: `${plural(deadJobs, 'job is', 'jobs are')} dead.`,
      text: 'No attempts are left: redrive or cancel.',
      to: '/jobs',
      search: { state: 'dead' },
      link: 'Jobs',
    });
  if (dead > deadJobs) {
    list.push({
      look: 'dead',
      title: `${plural(dead - deadJobs, 'delivery is', 'deliveries are')} dead.`,
      text: 'No attempts are left: redrive or dismiss.',
      to: '/dead',
      link: 'Dead letters',
    });
  }
  return list.slice(0, 5);
}

function Attention({ data }: { data: Overview }) {
  const list = notices(data);
  if (list.length === 0) return null;
  return (
    <ul className="attn" aria-label="Needs attention">
      {list.map((notice) => (
        <li key={notice.title}>
          <Glyph look={notice.look} />
          <span className="grow cut">
            <b>{notice.title}</b> <span className="t2">{notice.text}</span>
          </span>
          <Link className="link" to={notice.to} params={notice.params ?? {}} search={notice.search ?? {}}>
            {notice.link}
          </Link>
          <ChevronRight className="i s" aria-hidden="true" />
        </li>
      ))}
    </ul>
  );
}

/** A count that may have stopped at its limit. */
const capped = (value: number, max: number | undefined): string =>
  `${count(value)}${max !== undefined && value >= max ? '+' : ''}`;

const last = (values: (number | null)[]): number | null => values.findLast((value) => value !== null) ?? null;
const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);

function Figures({ data, range }: { data: Overview; range: Range }) {
  const { series, totals, stepSeconds } = data;
  // The last step is still being counted.
  const complete = (values: number[]) => (values.at(-2) ?? values.at(-1) ?? 0) / stepSeconds;
  const [p50, p95, p99] = [last(series.p50), last(series.p95), last(series.p99)];
  const success = totals.successRate;
  const failed = sum(series.failed);
  const ms = (value: number | null) => (value === null ? '–' : duration(value));
  const oldest = totals.oldestDueSeconds;
  return (
    <div className="kpis">
      <Kpi
        label="Accepted"
        value={rate(complete(series.accepted))}
        unit="/s"
        note={`${count(sum(series.accepted))} in ${range}`}
        spark={<Spark values={series.accepted} color="var(--chart-2)" fill={false} />}
      />
      <Kpi
        label="Delivered"
        value={rate(complete(series.delivered))}
        unit="/s"
        note={`${count(sum(series.delivered))} in ${range}`}
        spark={<Spark values={series.delivered} color="var(--chart-1)" />}
      />
      <Kpi
        label="Success rate"
        value={success === null ? '–' : percent(success)}
        unit={success === null ? '' : '%'}
        note={`${plural(failed, 'failed attempt')}`}
        bad={success !== null && success < 0.95}
        spark={<Spark values={series.failed.map((value) => -value)} color="var(--delivered)" />}
      />
      <Kpi
        label="End to end, p95"
        value={ms(p95)}
        note={`p50 ${ms(p50)} · p99 ${ms(p99)}`}
        spark={<Spark values={series.p95} color="var(--chart-1)" />}
      />
      <Kpi
        label="Due now"
        value={capped(totals.due, totals.countedMax)}
        note={`${count(totals.retrying)} retrying · ${count(totals.leased)} leased`}
      />
      <Kpi
        label="Oldest due"
        value={oldest === null ? '–' : duration(oldest * 1000)}
        note={oldest === null ? 'nothing is due' : `${capped(totals.pending, totals.countedMax)} pending`}
        bad={oldest !== null && oldest > 60}
      />
    </div>
  );
}

const perSecond = (value: number) => `${rate(value)}`;
const latency = (value: number) => duration(value);

function Throughput({ data }: { data: Overview }) {
  const { series, stepSeconds } = data;
  const lines = useMemo(
    () => [
      {
        label: 'Delivered',
        color: 'var(--chart-1)',
        fill: 0.12,
        values: series.delivered.map((value) => value / stepSeconds),
      },
      { label: 'Accepted', color: 'var(--chart-2)', values: series.accepted.map((value) => value / stepSeconds) },
      { label: 'Failed', color: 'var(--dead)', values: series.failed.map((value) => value / stepSeconds) },
    ],
    [series, stepSeconds],
  );
  return (
    <Card title="Throughput" sub="per second" tools={<Legend series={lines} />}>
      <div className="in">
        <LazyChart
          times={series.t}
          series={lines}
          height={200}
          format={perSecond}
          label={`Throughput per second: delivered ${rate(lines[0]?.values.at(-1) ?? 0)}, accepted ${rate(lines[1]?.values.at(-1) ?? 0)}`}
        />
      </div>
    </Card>
  );
}

function Latency({ data }: { data: Overview }) {
  const { series } = data;
  const lines = useMemo(
    () => [
      { label: 'p50', color: 'var(--chart-2)', values: series.p50 },
      { label: 'p95', color: 'var(--chart-1)', values: series.p95 },
      { label: 'p99', color: 'var(--chart-3)', values: series.p99 },
    ],
    [series],
  );
  return (
    <Card title="End-to-end latency" sub="accepted to delivered" tools={<Legend series={lines} line />}>
      <div className="in">
        <LazyChart
          times={series.t}
          series={lines}
          height={200}
          log
          format={latency}
          label={`End-to-end latency: p95 ${last(series.p95) === null ? 'unknown' : duration(last(series.p95) ?? 0)}`}
        />
      </div>
    </Card>
  );
}

function Failures({ data, range }: { data: Overview; range: Range }) {
  const total = sum(data.failures.map((row) => row.count));
  const most = Math.max(1, ...data.failures.map((row) => row.count));
  return (
    <Card title="Failed attempts" sub={`${count(total)} in ${range}`}>
      <div className="in">
        {data.failures.length === 0 ? (
          <p className="t3 quiet">No attempt failed.</p>
        ) : (
          <div className="hbars">
            {data.failures.flatMap((row) => [
              <span key={`${row.class}-l`} className="t2">
                {classLabel(row.class)}
              </span>,
              <span
                key={`${row.class}-b`}
                className="b"
                style={{ ['--w' as string]: `${(row.count / most) * 100}%`, ['--c' as string]: classColor(row.class) }}
              />,
              <span key={`${row.class}-v`} className="v">
                {count(row.count)}
              </span>,
            ])}
          </div>
        )}
      </div>
    </Card>
  );
}

function Failing({ data, range }: { data: Overview; range: Range }) {
  return (
    <Card
      title="Failing endpoints"
      sub={`last ${range}`}
      className="clip"
      tools={
        <Link className="link" to="/endpoints">
          All endpoints
        </Link>
      }
    >
      {data.topEndpoints.length === 0 ? (
        <p className="t3 quiet in">No endpoint failed.</p>
      ) : (
        <table className="tbl card-tbl ov-failing">
          <thead>
            <tr>
              <th scope="col">Endpoint</th>
              <th scope="col" className="num">
                Failures
              </th>
              <th scope="col" className="num of-w">
                Success, 24 h
              </th>
              <th scope="col" className="of-w">
                Latest attempts
              </th>
              <th scope="col" className="num of-w">
                Waiting
              </th>
              <th scope="col" className="num">
                Last
              </th>
            </tr>
          </thead>
          <tbody>
            {data.topEndpoints.map((row) => (
              <tr key={`${row.appId}/${row.endpointId}`}>
                <td className="two">
                  <b>
                    <Link
                      to="/apps/$app/endpoints/$ep/$tab"
                      params={{ app: row.appId, ep: row.endpointId, tab: 'health' }}
                    >
                      <Url url={row.url || row.endpointId} />
                    </Link>
                  </b>
                  <small>
                    {row.appName ?? row.appId} · {classLabel(row.class)}
                  </small>
                </td>
                <td className="num">{count(row.failures)}</td>
                {(['success', 'recent', 'waiting'] as const).map((part) => (
                  <td key={part} className={`of-w ${part === 'recent' ? '' : 'num'}`}>
                    <EndpointCell app={row.appId} endpoint={{ id: row.endpointId }} part={part} />
                  </td>
                ))}
                <td className="num t3">
                  <Ago at={row.lastFailureAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Nodes({ data }: { data: Overview }) {
  const most = Math.max(1, ...data.nodes.map((node) => node.leases));
  return (
    <Card
      title="Nodes"
      sub={String(data.nodes.length)}
      tools={
        <Link className="link" to="/nodes">
          All
        </Link>
      }
    >
      <div className="in nodes">
        {data.nodes.map((node) => (
          <div key={node.id} className="node">
            <div className="row">
              <span className="okdot" />
              <b className="cut">{node.name ?? node.id}</b>
              <span className="t3 s12">v{node.version}</span>
              <span className="push s12 t3">
                <Ago at={node.lastSeenAt} />
              </span>
            </div>
            <Meter share={node.leases / most} label={plural(node.leases, 'lease')} />
            <span className="s12 t2">{plural(node.leases, 'lease')} held</span>
          </div>
        ))}
      </div>
    </Card>
  );
}
