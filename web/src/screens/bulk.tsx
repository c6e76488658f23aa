// Bulk tasks: replays, recoveries and counts that go on after their request.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Ban, ListChecks } from 'lucide-react';
import { useState } from 'react';
import { api, ok } from '../api/client';
import { PAGE_ROWS, useChange, usePoll } from '../api/queries';
import type { BackgroundTask, Page as ApiPage } from '../api/types';
import { useMay } from '../session';
import { Id, StateText } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Confirm } from '../ui/overlay';
import { LiveButton, Page, Tabs } from '../ui/page';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { ListTime } from '../ui/time';
import { toast } from '../ui/toast';
import { useUrl } from '../url';
import { taskState, taskText } from './parts/task-progress';

const tasksQuery = (status?: string, iterator?: string) =>
  queryOptions({
    queryKey: ['bulk', 'list', status, iterator],
    queryFn: () =>
      ok(api.GET('/api/v1/background-task', { params: { query: { limit: PAGE_ROWS, status, iterator } } })) as Promise<
        ApiPage<BackgroundTask>
      >,
  });

const states = [
  ['', 'All'],
  ['running', 'Running'],
  ['finished', 'Finished'],
  ['failed', 'Failed'],
] as const;

export default function BulkTasks() {
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/background-task/{task_id}/cancel');
  const [cancelling, setCancelling] = useState<string | null>(null);
  const query = useQuery({ ...tasksQuery(url.status, url.cursor), refetchInterval: usePoll(2000) });
  const rows = query.data?.data;
  const cancel = useChange(
    (id: string) => ok(api.POST('/api/v1/background-task/{task_id}/cancel', { params: { path: { task_id: id } } })),
    ['bulk'],
    () => toast('Cancel requested'),
  );
  const columns: Column<BackgroundTask>[] = [
    { id: 'task', header: 'Task', width: 220, narrow: 'a', cell: (row) => <span className="med">{row.task}</span> },
    { id: 'state', header: 'State', width: 130, narrow: 'd', cell: (row) => <StateText {...taskState(row)} /> },
    { id: 'data', header: 'Progress', narrow: 'c', cell: (row) => <span className="t2">{taskText(row.data)}</span> },
    { id: 'updated', header: 'Last change', width: 140, narrow: 'b', cell: (row) => <ListTime at={row.updatedAt} /> },
    { id: 'id', header: 'Id', width: 160, narrow: 'drop', cell: (row) => <Id id={row.id} /> },
    {
      id: 'act',
      header: <span className="sr">Action</span>,
      width: 110,
      num: true,
      narrow: 'drop',
      cell: (row) =>
        may &&
        row.status === 'running' && (
          <Button size="sm" kind="ghost" icon={Ban} onClick={() => setCancelling(row.id)}>
            Cancel task
          </Button>
        ),
    },
  ];
  return (
    <Page title="Bulk tasks" tools={<LiveButton />}>
      <div className="col grow">
        <Tabs
          label="States"
          tabs={states.map(([key, label]) => ({
            to: '/bulk',
            search: key ? { status: key } : {},
            label,
            active: (url.status ?? '') === key,
          }))}
        />
        <div className="body listbody">
          {query.isError && !rows && (
            <Failure error={query.error} what="The list of bulk tasks" retry={() => void query.refetch()} />
          )}
          {!rows && !query.isError && <Skeleton rows={6} />}
          {rows?.length === 0 && (
            <Empty icon={ListChecks} title="No bulk tasks">
              Replays and recoveries of an endpoint appear here with their progress, for 7 days after their end.
            </Empty>
          )}
          {rows && rows.length > 0 && (
            <DataTable label="Bulk tasks" columns={columns} rows={rows} rowId={(row) => row.id} />
          )}
        </div>
        <Pager note="Newest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
      </div>
      <Confirm
        open={cancelling !== null}
        onClose={() => setCancelling(null)}
        danger
        title="Cancel this bulk task"
        verb="Cancel task"
        run={() => cancel.mutateAsync(cancelling ?? '')}
      >
        What was done stays done. The task ends as failed.
      </Confirm>
    </Page>
  );
}
