// Endpoints of an application, with their health.

import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plus, Webhook } from 'lucide-react';
import { useMemo, useState } from 'react';
import { allEndpointsQuery, endpointAttemptsQuery, endpointsQuery, endpointStatsQuery, usePoll } from '../api/queries';
import type { Attempt, Endpoint, Page } from '../api/types';
import { offers } from '../capabilities';
import { percentile } from '../lib/retry';
import { ATTEMPTS_MIN, endpointState, failureText } from '../lib/state';
import { count, curl, percent } from '../lib/text';
import { duration } from '../lib/time';
import { useMay } from '../session';
import { StateText, Tags, Url } from '../ui/atoms';
import { Button } from '../ui/controls';
import { AppPicker, Filter, FilterBar, SearchBox } from '../ui/filters';
import { LiveButton, Page as Frame } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { ListTime } from '../ui/time';
import { useApp } from '../ui/use-app';
import { useUrl } from '../url';
import { EndpointDialog } from './parts/endpoint-form';

const DAY = 86_400_000;
const RECENT = 24;

export default function Endpoints() {
  const [url] = useUrl();
  return offers.endpointsOfAllApps && !url.app ? <EveryApp /> : <OneApp />;
}

/** Without an application in the URL, the endpoints of all applications. */
function EveryApp() {
  const [url] = useUrl();
  const query = useQuery({ ...allEndpointsQuery(url.cursor), refetchInterval: usePoll(10_000) });
  return <List app={undefined} query={query} />;
}

function OneApp() {
  const [url] = useUrl();
  const app = useApp();
  const query = useQuery({ ...endpointsQuery(app ?? '', url.cursor), refetchInterval: usePoll(10_000) });
  return <List app={app} query={query} />;
}

type Row = Endpoint & { appId?: string; appName?: string };

function List({ app, query }: { app: string | null | undefined; query: UseQueryResult<Page<Row>> }) {
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/app/{app_id}/endpoint');
  const [creating, setCreating] = useState(false);
  const rows = useMemo(() => filter(query.data?.data, url), [query.data, url]);
  const columns = useMemo(() => columnsFor(app ?? ''), [app]);
  return (
    <Frame
      title="Endpoints"
      heading={app !== null ? <AppPicker app={app ?? ''} all={offers.endpointsOfAllApps} onChange={(next) => setUrl({ app: next, cursor: undefined })} /> : null}
      tools={
        <>
          <LiveButton />
          {may && app !== null && (
            <Button kind="primary" icon={Plus} onClick={() => setCreating(true)}>
              New endpoint
            </Button>
          )}
        </>
      }
    >
      <div className="col grow">
        <FilterBar>
          <SearchBox value={url.q ?? ''} placeholder="URL, description or id" onChange={(q) => setUrl({ q }, { replace: true })} />
          <Filter name="State" value={url.state} onChange={(state) => setUrl({ state })} options={[['enabled', 'Enabled'], ['paused', 'Paused'], ['disabled', 'Disabled']]} />
          <Filter name="Event type" value={url.type} onChange={(type) => setUrl({ type })} />
        </FilterBar>
        <div className="body listbody">
          {query.isError && !query.data && <Failure error={query.error} what="The list of endpoints" retry={() => void query.refetch()} />}
          {!rows && !query.isError && app !== null && <Skeleton rows={10} />}
          {app === null && <Empty title="No application yet">Endpoints belong to an application. Create one first.</Empty>}
          {rows?.length === 0 && (query.data?.data.length ? <Empty title="No endpoints match" action={<Button onClick={() => setUrl({ q: undefined, state: undefined, type: undefined })}>Clear filters</Button>} /> : <NoEndpoints app={app ?? 'acme'} onCreate={may ? () => setCreating(true) : undefined} />)}
          {rows && rows.length > 0 && <DataTable label="Endpoints" columns={columns} rows={rows} rowId={(row) => row.id} />}
        </div>
        <Pager note={query.data?.done && !url.cursor ? `${count(query.data.data.length)} endpoints` : 'Oldest first'} page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
      </div>
      {creating && <EndpointDialog app={app ?? undefined} onClose={() => setCreating(false)} />}
    </Frame>
  );
}

function NoEndpoints({ app, onCreate }: { app: string; onCreate?: () => void }) {
  const command = curl({ method: 'POST', url: `${location.origin}/api/v1/app/${app}/endpoint`, body: '{"url":"https://example.com/hook"}' });
  return (
    <Empty icon={Webhook} title="No endpoints yet" command={command} action={onCreate && <Button icon={Plus} onClick={onCreate}>New endpoint</Button>}>
      An endpoint is a URL that receives the messages of the application.
    </Empty>
  );
}

const settingState = (row: Row) => (row.disabled ? 'disabled' : row.policy?.paused ? 'paused' : 'enabled');

function filter(rows: Row[] | undefined, { q, state, type }: Record<string, string | undefined>): Row[] | undefined {
  const text = q?.toLowerCase();
  return rows?.filter(
    (row) =>
      (!text || `${row.url} ${row.description} ${row.id} ${row.uid ?? ''} ${row.appName ?? ''}`.toLowerCase().includes(text)) &&
      (!state || state === settingState(row)) &&
      (!type || !row.eventTypes?.length || row.eventTypes.includes(type)),
  );
}

function columnsFor(one: string): Column<Row>[] {
  const of = (row: Row) => row.appId ?? one;
  return [
    {
      id: 'url',
      header: 'Endpoint',
      className: 'two',
      narrow: 'a',
      cell: (row) => (
        <>
          <b>
            <Link to="/apps/$app/endpoints/$ep/$tab" params={{ app: of(row), ep: row.id, tab: 'health' }}>
              <Url url={row.url} />
            </Link>
          </b>
          <small>{[row.appName, row.description].filter(Boolean).join(' · ') || (row.uid ?? row.id)}</small>
        </>
      ),
    },
    { id: 'state', header: 'State', width: 170, className: 'two', narrow: 'd', cell: (row) => <Health app={of(row)} endpoint={row} part="state" /> },
    { id: 'success', header: 'Success, 24 h', width: 104, num: true, narrow: 'b', cell: (row) => <Health app={of(row)} endpoint={row} part="success" /> },
    { id: 'recent', header: 'Latest attempts', width: 164, narrow: 'drop', cell: (row) => <Health app={of(row)} endpoint={row} part="recent" /> },
    { id: 'p95', header: 'p95', width: 76, num: true, narrow: 'drop', cell: (row) => <Health app={of(row)} endpoint={row} part="p95" /> },
    { id: 'waiting', header: 'Waiting', width: 76, num: true, narrow: 'drop', cell: (row) => <Health app={of(row)} endpoint={row} part="waiting" /> },
    { id: 'last', header: 'Last success', width: 104, narrow: 'drop', cell: (row) => <Health app={of(row)} endpoint={row} part="last" /> },
    { id: 'types', header: 'Event types', width: 160, narrow: 'c', cell: (row) => (row.eventTypes?.length ? <Tags names={row.eventTypes.slice(0, 2)} /> : <span className="t3">all</span>) },
  ];
}

/** The cells of a row share their two reads through the cache. */
function Health({ app, endpoint, part }: { app: string; endpoint: Endpoint; part: 'state' | 'success' | 'recent' | 'p95' | 'waiting' | 'last' }) {
  const poll = usePoll(30_000);
  const stats = useQuery({ ...endpointStatsQuery(app, endpoint.id, DAY), refetchInterval: poll }).data;
  const recent = useQuery({ ...endpointAttemptsQuery(app, endpoint.id, { limit: RECENT, with_content: false }), refetchInterval: poll, staleTime: 15_000 }).data?.data;
  const dash = <span className="t3">–</span>;
  const attempts = stats ? stats.success + stats.fail : 0;
  switch (part) {
    case 'state': {
      const latest = recent?.[0];
      const state = endpointState(endpoint, recent && { attempts: recent.length, failures: recent.filter((row) => row.status !== 0).length });
      const failed = latest && latest.status !== 0;
      return (
        <>
          <StateText {...state} />
          <small>{endpoint.disabled || endpoint.policy?.paused ? 'deliveries wait' : failed ? failureText(latest.class, latest.responseStatusCode) : '\u00a0'}</small>
        </>
      );
    }
    case 'success':
      if (!stats || attempts === 0) return dash;
      return attempts < ATTEMPTS_MIN ? `${stats.success} of ${attempts}` : `${percent(stats.success / attempts)} %`;
    case 'recent':
      return recent?.length ? <Ticks attempts={recent} /> : dash;
    case 'p95': {
      const p95 = percentile((recent ?? []).map((row) => row.responseDurationMs), 0.95);
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
