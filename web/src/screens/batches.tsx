// Batches of jobs, with their progress.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Boxes } from 'lucide-react';
import { usePoll } from '../api/queries';
import type { Batch } from '../api/types';
import { count, curl } from '../lib/text';
import { StateText } from '../ui/atoms';
import { LiveButton, Page } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { ListTime } from '../ui/time';
import { useUrl } from '../url';
import { BatchBar, batchesQuery, batchState, totalOf } from './parts/batch-data';

const columns: Column<Batch>[] = [
  {
    id: 'name',
    header: 'Batch',
    className: 'two',
    narrow: 'a',
    cell: (row) => (
      <>
        <b>
          <Link to="/batches/$id" params={{ id: row.id }}>
            {row.name}
          </Link>
        </b>
        <small>announces {row.prefix}.completed</small>
      </>
    ),
  },
  { id: 'state', header: 'State', width: 130, narrow: 'b', cell: (row) => <StateText {...batchState(row)} /> },
  { id: 'bar', header: 'Jobs', width: 260, narrow: 'c', cell: (row) => <BatchBar batch={row} /> },
  {
    id: 'done',
    header: 'Succeeded',
    width: 130,
    num: true,
    narrow: 'd',
    unit: 'succeeded',
    cell: (row) => `${count(row.counts.succeeded)} of ${count(totalOf(row))}`,
  },
  { id: 'dead', header: 'Dead', width: 80, num: true, narrow: 'drop', cell: (row) => count(row.counts.dead) },
  { id: 'phase', header: 'Phase', width: 80, num: true, narrow: 'drop', cell: (row) => row.phase },
  { id: 'created', header: 'Created', width: 130, narrow: 'drop', cell: (row) => <ListTime at={row.createdAt} /> },
];

export default function Batches() {
  const [url, setUrl] = useUrl();
  const query = useQuery({ ...batchesQuery(url.cursor), refetchInterval: usePoll() });
  const rows = query.data?.data;
  return (
    <Page title="Batches" tools={<LiveButton />}>
      <div className="col grow">
        <div className="body listbody">
          {query.isError && !rows && (
            <Failure error={query.error} what="The list of batches" retry={() => void query.refetch()} />
          )}
          {!rows && !query.isError && <Skeleton rows={8} />}
          {rows?.length === 0 && (
            <Empty
              icon={Boxes}
              title="No batches yet"
              command={curl({
                method: 'POST',
                url: `${location.origin}/api/v1/batch`,
                body: '{"application":"acme","name":"October statements","prefix":"statements"}',
              })}
            >
              A batch is a set of jobs that announces its end once.
            </Empty>
          )}
          {rows && rows.length > 0 && (
            <DataTable label="Batches" columns={columns} rows={rows} rowId={(row) => row.id} />
          )}
        </div>
        <Pager note="Newest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
      </div>
    </Page>
  );
}
