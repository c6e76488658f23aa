// Outboxes: tables that the relay turns into messages, and the rows that it set aside.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { Database, RotateCw, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../api/client';
import { useChange, usePoll } from '../api/queries';
import type { AsideRow, Outbox, Page as ApiPage } from '../api/types';
import { clip, count, plural } from '../lib/text';
import { duration } from '../lib/time';
import { useMay } from '../session';
import { StateText } from '../ui/atoms';
import { AreaField, Button, TextField } from '../ui/controls';
import { Confirm } from '../ui/overlay';
import { LiveButton, Page } from '../ui/page';
import { Panel, Split, stepper } from '../ui/panel';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { FullTime, ListTime } from '../ui/time';
import { toast, toastError } from '../ui/toast';
import { useUrl } from '../url';

const outboxesQuery = () =>
  queryOptions({ queryKey: ['outboxes'], queryFn: async () => (await ok(api.GET('/api/v1/outbox'))).data as Outbox[] });

const asideQuery = (outbox: string, iterator?: string) =>
  queryOptions({
    queryKey: ['outboxes', 'aside', outbox, iterator],
    queryFn: () =>
      ok(
        api.GET('/api/v1/outbox/{outbox}/aside', { params: { path: { outbox }, query: { limit: 50, iterator } } }),
      ) as Promise<ApiPage<AsideRow>>,
  });

const columns: Column<Outbox>[] = [
  {
    id: 'name',
    header: 'Outbox',
    narrow: 'a',
    cell: (row) => (
      <Link className="med" to="/outboxes/$name" params={{ name: row.name }}>
        {row.name}
      </Link>
    ),
  },
  {
    id: 'state',
    header: 'State',
    width: 160,
    narrow: 'b',
    cell: (row) =>
      !row.reachable ? (
        <StateText look="dead" word="Unreachable" />
      ) : row.setAside ? (
        <StateText look="retrying" word="Rows set aside" />
      ) : (
        <StateText look="delivered" word="Relaying" />
      ),
  },
  {
    id: 'depth',
    header: 'Waiting',
    width: 130,
    num: true,
    narrow: 'c',
    unit: 'waiting',
    cell: (row) =>
      row.depth === null || row.depth === undefined ? '–' : `${count(row.depth)}${row.depthIsCapped ? '+' : ''}`,
  },
  {
    id: 'age',
    header: 'Oldest',
    width: 130,
    num: true,
    narrow: 'drop',
    cell: (row) => (row.oldestAgeSeconds ? duration(row.oldestAgeSeconds * 1000) : <span className="t3">–</span>),
  },
  {
    id: 'aside',
    header: 'Set aside',
    width: 130,
    num: true,
    narrow: 'd',
    unit: 'set aside',
    cell: (row) => (row.setAside ? <span className="dead-n">{count(row.setAside)}</span> : '0'),
  },
];

export default function Outboxes() {
  const { name } = useParams({ strict: false });
  return name ? <Aside outbox={name} /> : <List />;
}

function List() {
  const query = useQuery({ ...outboxesQuery(), refetchInterval: usePoll() });
  return (
    <Page title="Outboxes" tools={<LiveButton />}>
      <div className="body listbody">
        {query.isError && !query.data && (
          <Failure error={query.error} what="The list of outboxes" retry={() => void query.refetch()} />
        )}
        {!query.data && !query.isError && <Skeleton rows={4} />}
        {query.data?.length === 0 && (
          <Empty icon={Database} title="No outboxes" command="everhook outbox install --help">
            An outbox is a table in your own database. A row that your transaction writes becomes a message, in order
            and once.
          </Empty>
        )}
        {query.data && query.data.length > 0 && (
          <DataTable label="Outboxes" columns={columns} rows={query.data} rowId={(row) => row.name} />
        )}
      </div>
    </Page>
  );
}

const rowColumns: Column<AsideRow>[] = [
  { id: 'time', header: 'Set aside', width: 130, narrow: 'b', cell: (row) => <ListTime at={row.setAsideAt} /> },
  {
    id: 'type',
    header: 'Event type',
    width: 200,
    narrow: 'a',
    cell: (row) => <span className="med">{row.eventType}</span>,
  },
  { id: 'error', header: 'Error', narrow: 'c', cell: (row) => <span className="t2">{clip(row.error, 160)}</span> },
  {
    id: 'app',
    header: 'Application',
    width: 160,
    wide: true,
    narrow: 'drop',
    cell: (row) => <span className="mono t2">{row.application}</span>,
  },
  { id: 'row', header: 'Row', width: 100, num: true, narrow: 'd', cell: (row) => row.id },
];

const idOf = (row: AsideRow) => String(row.id);

function Aside({ outbox }: { outbox: string }) {
  const [url, setUrl] = useUrl();
  const may = useMay('PATCH /api/v1/outbox/{outbox}/aside/{row_id}');
  const query = useQuery({ ...asideQuery(outbox, url.cursor), refetchInterval: usePoll() });
  const rows = query.data?.data;
  const open = (row: AsideRow) => setUrl({ open: idOf(row) }, { replace: url.open !== undefined });
  const chosen = rows?.find((row) => idOf(row) === url.open);
  const all = useChange(
    () => ok(api.POST('/api/v1/outbox/{outbox}/aside/retry', { params: { path: { outbox } } })),
    ['outboxes'],
    (result) =>
      toast(`Retried ${plural(result.retried, 'row')}`, {
        text: result.done ? undefined : 'More rows wait: retry again.',
      }),
  );
  const list = (
    <>
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what={`Outbox ${outbox}`} retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={6} />}
        {rows?.length === 0 && (
          <Empty icon={Database} title="No rows set aside">
            Rows that cannot be relayed wait here until they are fixed or discarded. The rows behind them go on.
          </Empty>
        )}
        {rows && rows.length > 0 && (
          <DataTable
            label="Rows set aside"
            keyboard
            columns={rowColumns}
            rows={rows}
            rowId={idOf}
            openId={url.open}
            onOpen={open}
          />
        )}
      </div>
      <Pager note="Rows set aside" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
    </>
  );
  return (
    <Page
      title={outbox}
      crumbs={[{ to: '/outboxes', label: 'Outboxes' }]}
      tools={
        may &&
        rows &&
        rows.length > 0 && (
          <Button
            icon={RotateCw}
            busy={all.isPending}
            onClick={() => all.mutate(undefined, { onError: (error) => toastError('Retry failed', error) })}
          >
            Retry all
          </Button>
        )
      }
    >
      <Split
        list={list}
        panel={
          chosen && (
            <RowPanel
              key={chosen.id}
              outbox={outbox}
              row={chosen}
              may={may}
              onClose={() => setUrl({ open: undefined })}
              onStep={stepper(rows ?? [], idOf, url.open, open)}
            />
          )
        }
      />
    </Page>
  );
}

function RowPanel({
  outbox,
  row,
  may,
  onClose,
  onStep,
}: {
  outbox: string;
  row: AsideRow;
  may: boolean;
  onClose: () => void;
  onStep: (step: 1 | -1) => void;
}) {
  const [form, setForm] = useState({
    application: row.application,
    eventType: row.eventType,
    eventId: row.eventId ?? '',
    payload: row.payload,
  });
  const [dialog, setDialog] = useState(false);
  const path = { outbox, row_id: row.id };
  const changed =
    form.application !== row.application ||
    form.eventType !== row.eventType ||
    form.eventId !== (row.eventId ?? '') ||
    form.payload !== row.payload;
  const retry = useChange(
    async () => {
      if (changed) {
        const body = {
          application: form.application,
          eventType: form.eventType,
          payload: form.payload,
          ...(form.eventId ? { eventId: form.eventId } : {}),
        };
        await ok(api.PATCH('/api/v1/outbox/{outbox}/aside/{row_id}', { params: { path }, body }));
      }
      return ok(api.POST('/api/v1/outbox/{outbox}/aside/{row_id}/retry', { params: { path } }));
    },
    ['outboxes'],
    () => {
      toast('Row retried');
      onClose();
    },
  );
  const discard = useChange(
    () => ok(api.DELETE('/api/v1/outbox/{outbox}/aside/{row_id}', { params: { path } })),
    ['outboxes'],
    () => {
      toast('Row discarded');
      onClose();
    },
  );
  const fields =
    retry.error instanceof ApiFailure
      ? Object.fromEntries(retry.error.fields.map(({ field, message }) => [field, message]))
      : {};
  return (
    <Panel
      title={`Row ${row.id}`}
      label="Row set aside"
      onClose={onClose}
      onStep={onStep}
      sub={
        <span>
          Set aside <FullTime at={row.setAsideAt} />
        </span>
      }
      footer={
        may && (
          <>
            <Button kind="primary" icon={RotateCw} busy={retry.isPending} onClick={() => retry.mutate(undefined)}>
              {changed ? 'Fix and retry' : 'Retry'}
            </Button>
            <Button kind="danger" icon={Trash2} className="push" onClick={() => setDialog(true)}>
              Discard
            </Button>
          </>
        )
      }
    >
      <section className="stack">
        <Callout look="dead" title={row.error} />
        {retry.isError && <Callout look="dead" title={messageOf(retry.error)} />}
        <TextField
          label="Application"
          value={form.application}
          onChange={(application) => setForm({ ...form, application })}
          mono
          error={fields.application}
          readOnly={!may}
        />
        <TextField
          label="Event type"
          value={form.eventType}
          onChange={(eventType) => setForm({ ...form, eventType })}
          mono
          error={fields.eventType}
          readOnly={!may}
        />
        <TextField
          label="Event id"
          optional
          value={form.eventId}
          onChange={(eventId) => setForm({ ...form, eventId })}
          mono
          error={fields.eventId}
          readOnly={!may}
        />
        <AreaField
          label="Payload"
          value={form.payload}
          onChange={(payload) => setForm({ ...form, payload })}
          rows={12}
          error={fields.payload}
          readOnly={!may}
        />
      </section>
      <Confirm
        open={dialog}
        onClose={() => setDialog(false)}
        danger
        title="Discard this row"
        verb="Discard row"
        run={() => discard.mutateAsync(undefined)}
      >
        The row never becomes a message. It cannot be undone.
      </Confirm>
    </Panel>
  );
}
