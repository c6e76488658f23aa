// Endpoints of an application, with their health.

import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plus, Webhook } from 'lucide-react';
import { useMemo, useState } from 'react';
import { allEndpointsQuery, endpointsQuery, usePoll } from '../api/queries';
import type { Endpoint, Page } from '../api/types';
import { offers } from '../capabilities';
import { count, curl } from '../lib/text';
import { useMay } from '../session';
import { Tags, Url } from '../ui/atoms';
import { Button } from '../ui/controls';
import { AppPicker, Filter, FilterBar, SearchBox } from '../ui/filters';
import { LiveButton, Page as Frame } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { useApp } from '../ui/use-app';
import { useUrl } from '../url';
import { EndpointCell } from './parts/endpoint-cells';
import { EndpointDialog } from './parts/endpoint-form';

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
      heading={
        app !== null ? (
          <AppPicker
            app={app ?? ''}
            all={offers.endpointsOfAllApps}
            onChange={(next) => setUrl({ app: next, cursor: undefined })}
          />
        ) : null
      }
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
          <SearchBox
            value={url.q ?? ''}
            placeholder="URL, description or id"
            onChange={(q) => setUrl({ q }, { replace: true })}
          />
          <Filter
            name="State"
            value={url.state}
            onChange={(state) => setUrl({ state })}
            options={[
              ['enabled', 'Enabled'],
              ['paused', 'Paused'],
              ['disabled', 'Disabled'],
            ]}
          />
          <Filter name="Event type" value={url.type} onChange={(type) => setUrl({ type })} />
        </FilterBar>
        <div className="body listbody">
          {query.isError && !query.data && (
            <Failure error={query.error} what="The list of endpoints" retry={() => void query.refetch()} />
          )}
          {!rows && !query.isError && app !== null && <Skeleton rows={10} />}
          {app === null && (
            <Empty title="No application yet">Endpoints belong to an application. Create one first.</Empty>
          )}
          {rows?.length === 0 &&
            (query.data?.data.length ? (
              <Empty
                title="No endpoints match"
                action={
                  <Button onClick={() => setUrl({ q: undefined, state: undefined, type: undefined })}>
                    Clear filters
                  </Button>
                }
              />
            ) : (
              <NoEndpoints app={app ?? 'acme'} onCreate={may ? () => setCreating(true) : undefined} />
            ))}
          {rows && rows.length > 0 && (
            <DataTable label="Endpoints" columns={columns} rows={rows} rowId={(row) => row.id} />
          )}
        </div>
        <Pager
          note={query.data?.done && !url.cursor ? `${count(query.data.data.length)} endpoints` : 'Oldest first'}
          page={query.data}
          cursor={url.cursor}
          go={(cursor) => setUrl({ cursor })}
        />
      </div>
      {creating && <EndpointDialog app={app ?? undefined} onClose={() => setCreating(false)} />}
    </Frame>
  );
}

function NoEndpoints({ app, onCreate }: { app: string; onCreate?: () => void }) {
  const command = curl({
    method: 'POST',
    url: `${location.origin}/api/v1/app/${app}/endpoint`,
    body: '{"url":"https://example.com/hook"}',
  });
  return (
    <Empty
      icon={Webhook}
      title="No endpoints yet"
      command={command}
      action={
        onCreate && (
          <Button icon={Plus} onClick={onCreate}>
            New endpoint
          </Button>
        )
      }
    >
      An endpoint is a URL that receives the messages of the application.
    </Empty>
  );
}

const settingState = (row: Row) => (row.disabled ? 'disabled' : row.policy?.paused ? 'paused' : 'enabled');

function filter(rows: Row[] | undefined, { q, state, type }: Record<string, string | undefined>): Row[] | undefined {
  const text = q?.toLowerCase();
  return rows?.filter(
    (row) =>
      (!text ||
        `${row.url} ${row.description} ${row.id} ${row.uid ?? ''} ${row.appName ?? ''}`.toLowerCase().includes(text)) &&
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
    {
      id: 'state',
      header: 'State',
      width: 170,
      tight: 150,
      className: 'two',
      narrow: 'd',
      cell: (row) => <EndpointCell app={of(row)} endpoint={row} part="state" />,
    },
    {
      id: 'success',
      header: 'Success, 24 h',
      width: 104,
      num: true,
      narrow: 'b',
      cell: (row) => <EndpointCell app={of(row)} endpoint={row} part="success" />,
    },
    {
      id: 'recent',
      header: 'Latest attempts',
      width: 164,
      narrow: 'drop',
      cell: (row) => <EndpointCell app={of(row)} endpoint={row} part="recent" />,
    },
    {
      id: 'p95',
      header: 'p95',
      width: 76,
      num: true,
      wide: true,
      narrow: 'drop',
      cell: (row) => <EndpointCell app={of(row)} endpoint={row} part="p95" />,
    },
    {
      id: 'waiting',
      header: 'Waiting',
      width: 76,
      num: true,
      narrow: 'drop',
      cell: (row) => <EndpointCell app={of(row)} endpoint={row} part="waiting" />,
    },
    {
      id: 'last',
      header: 'Last success',
      width: 104,
      wide: true,
      narrow: 'drop',
      cell: (row) => <EndpointCell app={of(row)} endpoint={row} part="last" />,
    },
    {
      id: 'types',
      header: 'Event types',
      width: 190,
      wide: true,
      narrow: 'c',
      cell: (row) => <Types names={row.eventTypes ?? []} />,
    },
  ];
}

/** The first event type, and how many more there are. */
function Types({ names }: { names: string[] }) {
  if (names.length === 0) return <span className="t3">all types</span>;
  return (
    <span className="types" title={names.join(', ')}>
      <Tags names={names.slice(0, 1)} />
      {names.length > 1 && <span className="t3 s12">+{names.length - 1}</span>}
    </span>
  );
}
