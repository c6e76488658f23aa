// Deliveries of the customer, and one of them in detail.

import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { api, ok } from '../api/client';
import { attemptsQuery, deliveriesQuery, messageQuery, useChange } from '../api/queries';
import type { Delivery } from '../api/types';
import { deliveryState, failureText } from '../lib/state';
import { duration } from '../lib/time';
import { StateText } from '../ui/atoms';
import { Button, Seg } from '../ui/controls';
import { Payload } from '../ui/json-view';
import { Dialog } from '../ui/overlay';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { In, ListTime } from '../ui/time';
import { toast, toastError } from '../ui/toast';
import { useUrl } from '../url';
import { AttemptDetail } from '../screens/parts/attempts';
import { EndpointUrl } from '../screens/parts/names';
import { allows, type Access } from './access';

const states = [
  ['', 'All'],
  ['succeeded', 'Delivered'],
  ['pending', 'Waiting'],
  ['dead', 'Failed'],
] as const;

export function Logs({ app, access }: { app: string; access: Access }) {
  const [url, setUrl] = useUrl();
  const state = (url.state ?? '') as (typeof states)[number][0];
  const query = useQuery({
    ...deliveriesQuery(app, { cursor: url.cursor, state: state || undefined }),
    refetchInterval: url.cursor ? false : 5000,
  });
  return (
    <>
      <div className="p-head">
        <h1>Logs</h1>
        <Seg
          label="State"
          value={state}
          options={states}
          onChange={(next) => setUrl({ state: next, cursor: undefined }, { replace: true })}
        />
      </div>
      <section className="card clip">
        {query.isError && !query.data && <Failure error={query.error} what="The logs" />}
        {!query.data && !query.isError && <Skeleton rows={8} />}
        {query.data?.data.length === 0 && (
          <Empty title="No deliveries">Events that are sent to your endpoints appear here.</Empty>
        )}
        {query.data && query.data.data.length > 0 && (
          <DeliveryTable app={app} rows={query.data.data} send={allows(access, 'CreateAttempts')} withEndpoint />
        )}
        <Pager note="Newest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
      </section>
    </>
  );
}

function result(row: Delivery) {
  const last = row.lastAttempt;
  if (row.state === 'succeeded' && last) return `${last.status} in ${duration(last.durationMs)}`;
  if (!last) return '–';
  const text = last.status > 0 ? String(last.status) : failureText(last.class, 0);
  return row.nextAttempt ? (
    <>
      {text}, again <In at={row.nextAttempt} />
    </>
  ) : (
    text
  );
}

/** The customer's word for dead is failed. */
function stateFor(row: Delivery) {
  const state = deliveryState(row);
  return state.look === 'dead' ? { ...state, word: 'Failed' } : state;
}

export function DeliveryTable({
  app,
  rows,
  send,
  withEndpoint,
}: {
  app: string;
  rows: Delivery[];
  send: boolean;
  withEndpoint?: boolean;
}) {
  const [open, setOpen] = useState<Delivery | null>(null);
  const columns = useMemo((): Column<Delivery>[] => {
    const list: Column<Delivery>[] = [
      { id: 'state', header: 'State', width: 120, narrow: 'd', cell: (row) => <StateText {...stateFor(row)} /> },
      {
        id: 'type',
        header: 'Event',
        narrow: 'a',
        cell: (row) => (
          <button type="button" className="med p-open" onClick={() => setOpen(row)}>
            {row.eventType}
          </button>
        ),
      },
    ];
    if (withEndpoint)
      list.push({
        id: 'endpoint',
        header: 'Endpoint',
        narrow: 'drop',
        cell: (row) => <EndpointUrl app={app} ep={row.endpointId} />,
      });
    list.push(
      { id: 'time', header: 'Sent', width: 110, narrow: 'b', cell: (row) => <ListTime at={row.timestamp} /> },
      {
        id: 'result',
        header: 'Result',
        width: 160,
        narrow: 'c',
        cell: (row) => <span className="t2 s12">{result(row)}</span>,
      },
    );
    if (send)
      list.push({
        id: 'act',
        header: <span className="sr">Action</span>,
        width: 96,
        num: true,
        narrow: 'drop',
        cell: (row) => <Resend app={app} row={row} />,
      });
    return list;
  }, [app, send, withEndpoint]);
  return (
    <>
      <DataTable
        card
        label="Deliveries"
        columns={columns}
        rows={rows}
        rowId={(row) => `${row.msgId}/${row.endpointId}`}
        onOpen={setOpen}
      />
      {open && <Detail app={app} row={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function Resend({ app, row }: { app: string; row: Delivery }) {
  const resend = useChange(
    () =>
      ok(
        api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend', {
          params: { path: { app_id: app, msg_id: row.msgId, endpoint_id: row.endpointId } },
        }),
      ),
    ['deliveries', 'attempts'],
    () => toast('Sent again'),
  );
  return (
    <Button
      size="sm"
      kind={row.state === 'dead' ? undefined : 'ghost'}
      busy={resend.isPending}
      onClick={() => resend.mutate(undefined, { onError: (error) => toastError('Resend failed', error) })}
    >
      Resend
    </Button>
  );
}

function Detail({ app, row, onClose }: { app: string; row: Delivery; onClose: () => void }) {
  const attempts = useQuery({ ...attemptsQuery(app, row.msgId, row.endpointId), refetchInterval: 3000 });
  const message = useQuery(messageQuery(app, row.msgId));
  const list = attempts.data?.data ?? [];
  const [chosen, setChosen] = useState(0);
  const attempt = list[chosen];
  return (
    <Dialog open wide onClose={onClose} title={row.eventType} footer={<Button onClick={onClose}>Close</Button>}>
      {attempts.isError && <Failure error={attempts.error} what="Attempts" />}
      {!attempts.data && !attempts.isError && <Skeleton rows={3} />}
      {list.length > 1 && (
        <Seg
          label="Attempt"
          value={String(chosen)}
          options={list.slice(0, 12).map((_, index) => [String(index), `Attempt ${list.length - index}`] as const)}
          onChange={(index) => setChosen(Number(index))}
        />
      )}
      {attempt ? (
        <AttemptDetail app={app} attempt={attempt} number={list.length - chosen} payload={message.data?.payload} />
      ) : (
        attempts.data && message.data && <Payload value={message.data.payload} />
      )}
    </Dialog>
  );
}
