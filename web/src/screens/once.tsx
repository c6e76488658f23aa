// Once-slots: keys under which one message per phase is accepted.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Fingerprint, RotateCcw } from 'lucide-react';
import { useMemo, useState } from 'react';
import { api, ok } from '../api/client';
import { PAGE_ROWS, useChange, usePoll } from '../api/queries';
import type { Once, Page as ApiPage } from '../api/types';
import { count, curl, shortId } from '../lib/text';
import { useMay } from '../session';
import { StateText } from '../ui/atoms';
import { Button } from '../ui/controls';
import { AppPicker, FilterBar, SearchBox } from '../ui/filters';
import { Confirm } from '../ui/overlay';
import { LiveButton, Page } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { ListTime } from '../ui/time';
import { toast } from '../ui/toast';
import { useApp } from '../ui/use-app';
import { useUrl } from '../url';

const onceQuery = (app: string, key: string | undefined, iterator?: string) =>
  queryOptions({
    queryKey: ['once', app, key, iterator],
    queryFn: async (): Promise<ApiPage<Once>> => {
      if (!key)
        return (await ok(
          api.GET('/api/v1/app/{app_id}/once', {
            params: { path: { app_id: app }, query: { limit: PAGE_ROWS, iterator } },
          }),
        )) as ApiPage<Once>;
      const { data, error, response } = await api.GET('/api/v1/app/{app_id}/once/{key}', {
        params: { path: { app_id: app, key } },
      });
      if (response.status === 404) return { data: [], iterator: null, done: true };
      return { data: [await ok(Promise.resolve({ data, error, response }))], iterator: null, done: true };
    },
    enabled: app !== '',
  });

export default function OnceSlots() {
  const [url, setUrl] = useUrl();
  const app = useApp();
  const may = useMay('DELETE /api/v1/app/{app_id}/once/{key}');
  const [reset, setReset] = useState<string | null>(null);
  const query = useQuery({ ...onceQuery(app ?? '', url.key, url.cursor), refetchInterval: usePoll(10_000) });
  const rows = query.data?.data;
  const clear = useChange(
    (key: string) =>
      ok(api.DELETE('/api/v1/app/{app_id}/once/{key}', { params: { path: { app_id: app ?? '', key } } })),
    ['once'],
    () => toast('Once-slot reset'),
  );
  const columns = useMemo(
    (): Column<Once>[] => [
      { id: 'key', header: 'Key', narrow: 'a', cell: (row) => <span className="mono med">{row.key}</span> },
      {
        id: 'state',
        header: 'State',
        width: 130,
        narrow: 'd',
        cell: (row) =>
          row.open ? <StateText look="pending" word="Open" /> : <StateText look="delivered" word="Claimed" />,
      },
      { id: 'phase', header: 'Phase', width: 90, num: true, narrow: 'drop', cell: (row) => count(row.phase) },
      {
        id: 'winner',
        header: 'Accepted message',
        width: 170,
        narrow: 'c',
        cell: (row) => (
          <Link className="link mono s12" to="/apps/$app/messages/$msg" params={{ app: app ?? '', msg: row.winner }}>
            {shortId(row.winner)}
          </Link>
        ),
      },
      {
        id: 'suppressed',
        header: 'Suppressed',
        width: 110,
        num: true,
        narrow: 'drop',
        cell: (row) => count(row.suppressedCount),
      },
      { id: 'updated', header: 'Last claim', width: 140, narrow: 'b', cell: (row) => <ListTime at={row.updatedAt} /> },
      {
        id: 'act',
        header: <span className="sr">Action</span>,
        width: 100,
        num: true,
        narrow: 'drop',
        cell: (row) =>
          may && (
            <Button size="sm" kind="ghost" icon={RotateCcw} onClick={() => setReset(row.key)}>
              Reset
            </Button>
          ),
      },
    ],
    [app, may],
  );
  return (
    <Page
      title="Once-slots"
      heading={
        app ? (
          <AppPicker app={app} onChange={(next) => setUrl({ app: next, cursor: undefined, key: undefined })} />
        ) : null
      }
      tools={<LiveButton />}
    >
      <div className="col grow">
        <FilterBar>
          <SearchBox
            value={url.key ?? ''}
            placeholder="Exact key"
            onChange={(key) => setUrl({ key, cursor: undefined }, { replace: true })}
          />
        </FilterBar>
        <div className="body listbody">
          {query.isError && !rows && (
            <Failure error={query.error} what="The list of once-slots" retry={() => void query.refetch()} />
          )}
          {app === null && <Empty title="No application yet" />}
          {!rows && !query.isError && app !== null && <Skeleton rows={8} />}
          {rows?.length === 0 && (
            <Empty
              icon={Fingerprint}
              title={url.key ? `No once-slot has the key ${url.key}` : 'No once-slots yet'}
              command={
                url.key
                  ? undefined
                  : curl({
                      method: 'POST',
                      url: `${location.origin}/api/v1/app/${app}/msg`,
                      body: '{"eventType":"invoice.paid","payload":{},"once":{"key":"invoice-42"}}',
                    })
              }
            >
              {url.key
                ? undefined
                : 'A message with a once-key is accepted once; later ones with the same key are suppressed.'}
            </Empty>
          )}
          {rows && rows.length > 0 && (
            <DataTable label="Once-slots" columns={columns} rows={rows} rowId={(row) => row.key} />
          )}
        </div>
        <Pager note="By key" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
      </div>
      <Confirm
        open={reset !== null}
        onClose={() => setReset(null)}
        danger
        title="Reset this once-slot"
        verb="Reset once-slot"
        run={() => clear.mutateAsync(reset ?? '')}
      >
        The next message with the key <span className="mono">{reset}</span> is accepted again, in a new phase. Receivers
        may get the notification twice.
      </Confirm>
    </Page>
  );
}
