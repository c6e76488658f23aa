// Queues with their backlog.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Layers } from 'lucide-react';
import { usePoll } from '../api/queries';
import type { Queue } from '../api/types';
import { count, curl } from '../lib/text';
import { duration } from '../lib/time';
import { Glyph, StateText } from '../ui/atoms';
import { LiveButton, Page } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { useUrl } from '../url';
import { queuesQuery, queueState } from './parts/queue-data';

const dash = <span className="t3">–</span>;

const columns: Column<Queue>[] = [
  {
    id: 'name',
    header: 'Queue',
    narrow: 'a',
    className: 'two',
    cell: (queue) => (
      <>
        <b>
          <Link to="/queues/$name" params={{ name: queue.name }}>
            {queue.name}
          </Link>
        </b>
        <small>
          {queue.warnings.length > 0 ? (
            <span className="st-retrying row warn">
              <Glyph look="retrying" />
              {queue.warnings[0]}
            </span>
          ) : queue.targetUrl ? (
            'pushed to a URL'
          ) : (
            'taken by workers'
          )}
        </small>
      </>
    ),
  },
  { id: 'state', header: 'State', width: 140, narrow: 'b', cell: (queue) => <StateText {...queueState(queue)} /> },
  {
    id: 'due',
    header: 'Due',
    width: 90,
    num: true,
    narrow: 'drop',
    cell: (queue) => (queue.stats ? count(queue.stats.due) : dash),
  },
  {
    id: 'oldest',
    header: 'Oldest due',
    width: 110,
    num: true,
    narrow: 'drop',
    cell: (queue) => (queue.stats?.oldestDueSeconds ? duration(queue.stats.oldestDueSeconds * 1000) : dash),
  },
  {
    id: 'pending',
    header: 'Pending',
    width: 90,
    num: true,
    narrow: 'c',
    unit: 'pending',
    cell: (queue) => (queue.stats ? count(queue.stats.pending) : dash),
  },
  {
    id: 'leased',
    header: 'Leased',
    width: 110,
    num: true,
    narrow: 'drop',
    cell: (queue) =>
      queue.stats ? `${count(queue.stats.running)}${queue.limit ? ` of ${count(queue.limit)}` : ''}` : dash,
  },
  {
    id: 'ended',
    header: 'Ended',
    width: 100,
    num: true,
    narrow: 'drop',
    cell: (queue) => (queue.stats ? `${count(queue.stats.endedLastMinute)} /min` : dash),
  },
  {
    id: 'dead',
    header: 'Dead',
    width: 90,
    num: true,
    narrow: 'd',
    unit: 'dead',
    cell: (queue) =>
      queue.stats?.dead ? (
        <Link className="dead-n" to="/jobs" search={{ queue: queue.name, state: 'dead' }}>
          {count(queue.stats.dead)}
        </Link>
      ) : queue.stats ? (
        '0'
      ) : (
        dash
      ),
  },
];

export default function Queues() {
  const [url, setUrl] = useUrl();
  const query = useQuery({ ...queuesQuery(url.cursor), refetchInterval: usePoll() });
  const rows = query.data?.data;
  return (
    <Page title="Queues" tools={<LiveButton />}>
      <div className="col grow">
        <div className="body listbody">
          {query.isError && !rows && (
            <Failure error={query.error} what="The list of queues" retry={() => void query.refetch()} />
          )}
          {!rows && !query.isError && <Skeleton rows={10} />}
          {rows?.length === 0 && (
            <Empty
              icon={Layers}
              title="No queues yet"
              command={curl({
                method: 'POST',
                url: `${location.origin}/api/v1/job`,
                body: '{"queue":"emails","kind":"receipt.send","payload":{}}',
              })}
            >
              A queue exists as soon as a job is enqueued on it.
            </Empty>
          )}
          {rows && rows.length > 0 && (
            <DataTable label="Queues" columns={columns} rows={rows} rowId={(queue) => queue.name} />
          )}
        </div>
        <Pager
          note={rows && query.data?.done ? `${count(rows.length)} queues` : 'By name'}
          page={query.data}
          cursor={url.cursor}
          go={(cursor) => setUrl({ cursor })}
        />
      </div>
    </Page>
  );
}
