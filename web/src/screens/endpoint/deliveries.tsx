// The deliveries of an endpoint, by state.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { RotateCw } from 'lucide-react';
import { deliveriesQuery, usePoll } from '../../api/queries';
import type { Delivery, Endpoint } from '../../api/types';
import { attemptLabel, deliveryState } from '../../lib/state';
import { useMay } from '../../session';
import { Code, Id, StateText } from '../../ui/atoms';
import { Button, Seg } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Empty, Failure, Skeleton } from '../../ui/status';
import { DataTable, Pager, type Column } from '../../ui/table';
import { In, ListTime } from '../../ui/time';
import { toastError } from '../../ui/toast';
import { useUrl } from '../../url';
import { useDeliveryCommands } from '../parts/deliveries';

const states = [
  ['', 'All'],
  ['pending', 'Waiting'],
  ['held', 'Held'],
  ['succeeded', 'Delivered'],
  ['dead', 'Dead'],
  ['cancelled', 'Cancelled'],
] as const;

const columns: Column<Delivery>[] = [
  { id: 'time', header: 'Accepted', width: 128, narrow: 'b', cell: (row) => <ListTime at={row.timestamp} exact /> },
  {
    id: 'type',
    header: 'Type',
    narrow: 'a',
    cell: (row) => (
      <Link
        className="med"
        to="/apps/$app/messages/$msg/endpoints/$ep"
        params={{ app: row.appId, msg: row.msgId, ep: row.endpointId }}
      >
        {row.eventType}
      </Link>
    ),
  },
  { id: 'state', header: 'State', width: 140, narrow: 'd', cell: (row) => <StateText {...deliveryState(row)} /> },
  {
    id: 'last',
    header: 'Last attempt',
    width: 130,
    narrow: 'drop',
    cell: (row) =>
      row.lastAttempt ? (
        <Code bad={row.lastAttempt.class !== 'success'}>{attemptLabel(row.lastAttempt, row.lastAttempt.status)}</Code>
      ) : (
        <span className="t3">none</span>
      ),
  },
  {
    id: 'next',
    header: 'Next',
    width: 130,
    narrow: 'drop',
    cell: (row) => (row.nextAttempt ? <In at={row.nextAttempt} /> : <span className="t3">–</span>),
  },
  { id: 'id', header: 'Message', width: 150, narrow: 'c', cell: (row) => <Id id={row.msgId} /> },
  {
    id: 'act',
    header: <span className="sr">Action</span>,
    width: 110,
    num: true,
    narrow: 'drop',
    cell: (row) => <Act row={row} />,
  },
];

function Act({ row }: { row: Delivery }) {
  const may = useMay('POST /api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend');
  const commands = useDeliveryCommands({ app: row.appId, msg: row.msgId, ep: row.endpointId });
  if (!may) return null;
  const [label, command] =
    row.state === 'dead'
      ? (['Redrive', commands.redrive] as const)
      : row.state === 'pending'
        ? (['Retry now', commands.retry] as const)
        : row.state === 'succeeded'
          ? (['Resend', commands.resend] as const)
          : ['', null];
  if (!command) return null;
  return (
    <Button
      size="sm"
      kind="ghost"
      icon={RotateCw}
      busy={command.isPending}
      onClick={() =>
        (command as typeof commands.retry).mutate(undefined, {
          onError: (error) => toastError(`${label} failed`, error),
        })
      }
    >
      {label}
    </Button>
  );
}

export function EndpointDeliveries({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const [url, setUrl] = useUrl();
  const state = url.state ?? '';
  const poll = usePoll();
  const query = useQuery({
    ...deliveriesQuery(app, { endpoint: endpoint.id, state: state || undefined, cursor: url.cursor }),
    refetchInterval: url.cursor ? false : poll,
  });
  return (
    <Card
      title="Deliveries"
      className="clip"
      tools={
        <Seg
          small
          label="State"
          value={state as (typeof states)[number][0]}
          options={states}
          onChange={(next) => setUrl({ state: next, cursor: undefined }, { replace: true })}
        />
      }
    >
      {query.isError && !query.data && (
        <Failure error={query.error} what="Deliveries" retry={() => void query.refetch()} />
      )}
      {!query.data && !query.isError && <Skeleton rows={8} />}
      {query.data?.data.length === 0 && (
        <Empty title="No deliveries">
          {state ? 'No delivery of this endpoint is in this state.' : 'No message has matched this endpoint yet.'}
        </Empty>
      )}
      {query.data && query.data.data.length > 0 && (
        <DataTable card label="Deliveries" columns={columns} rows={query.data.data} rowId={(row) => row.msgId} />
      )}
      <Pager note="Newest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
    </Card>
  );
}
