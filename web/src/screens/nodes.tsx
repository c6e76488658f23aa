// Nodes of the cluster, with their leases.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { api, ok } from '../api/client';
import { usePoll } from '../api/queries';
import type { Node } from '../api/types';
import { count } from '../lib/text';
import type { Shown } from '../lib/state';
import { Id, StateText } from '../ui/atoms';
import { LiveButton, Page } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, type Column } from '../ui/table';
import { Ago, FullTime } from '../ui/time';

const nodesQuery = () =>
  queryOptions({
    queryKey: ['nodes'],
    queryFn: async () => (await ok(api.GET('/api/v1/node'))).data as Node[],
    retry: false,
  });

function stateOf(node: Node): Shown {
  if (node.state === 'open') return { look: 'delivered', word: 'Open' };
  return node.closedAt
    ? { look: 'cancelled', word: 'Closed' }
    : { look: 'dead', word: node.state === 'expired' ? 'Expired' : node.state };
}

const columns: Column<Node>[] = [
  { id: 'node', header: 'Node', narrow: 'a', cell: (row) => <span className="med">{row.node}</span> },
  { id: 'state', header: 'State', width: 120, narrow: 'b', cell: (row) => <StateText {...stateOf(row)} /> },
  { id: 'role', header: 'Role', width: 100, narrow: 'drop', cell: (row) => <span className="t2">{row.role}</span> },
  {
    id: 'version',
    header: 'Version',
    width: 100,
    narrow: 'drop',
    cell: (row) => <span className="t2">v{row.version}</span>,
  },
  { id: 'held', header: 'Leases', width: 100, num: true, narrow: 'd', unit: 'leases', cell: (row) => count(row.held) },
  { id: 'beat', header: 'Heartbeat', width: 120, num: true, narrow: 'c', cell: (row) => <Ago at={row.heartbeatAt} /> },
  {
    id: 'since',
    header: 'Since',
    width: 230,
    narrow: 'drop',
    cell: (row) => (
      <span className="t2">
        <FullTime at={row.since} />
      </span>
    ),
  },
  { id: 'id', header: 'Session', width: 160, narrow: 'drop', cell: (row) => <Id id={row.id} /> },
];

export default function Nodes() {
  const query = useQuery({ ...nodesQuery(), refetchInterval: usePoll(3000) });
  return (
    <Page title="Nodes" tools={<LiveButton />}>
      <div className="body listbody">
        {query.isError && !query.data && (
          <Failure error={query.error} what="The list of nodes" retry={() => void query.refetch()} />
        )}
        {!query.data && !query.isError && <Skeleton rows={4} />}
        {query.data?.length === 0 && <Empty title="No nodes" />}
        {query.data && query.data.length > 0 && (
          <DataTable label="Nodes" columns={columns} rows={query.data} rowId={(row) => row.id} />
        )}
      </div>
    </Page>
  );
}
