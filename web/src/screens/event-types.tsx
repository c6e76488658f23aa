// Event types: what endpoints can subscribe to.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Archive, Plus, Tag, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../api/client';
import { eventTypesQuery, useChange } from '../api/queries';
import type { EventType } from '../api/types';
import { count, curl } from '../lib/text';
import { useMay } from '../session';
import { StateText } from '../ui/atoms';
import { AreaField, Button, TextField } from '../ui/controls';
import { FilterBar, SearchBox } from '../ui/filters';
import { Payload } from '../ui/json-view';
import { Confirm, Dialog } from '../ui/overlay';
import { Page, Tabs } from '../ui/page';
import { Panel, Split, stepper } from '../ui/panel';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, type Column } from '../ui/table';
import { ListTime } from '../ui/time';
import { toast, toastError } from '../ui/toast';
import { useUrl, type Search } from '../url';
import { exampleOf } from './parts/example';

const columns: Column<EventType>[] = [
  {
    id: 'name',
    header: 'Event type',
    narrow: 'a',
    cell: (row) => (
      <Link className="mono med" to="/event-types" search={(now: Search) => ({ ...now, open: row.name })}>
        {row.name}
      </Link>
    ),
  },
  {
    id: 'description',
    header: 'Description',
    narrow: 'c',
    cell: (row) => <span className="t2">{row.description}</span>,
  },
  {
    id: 'group',
    header: 'Group',
    width: 130,
    wide: true,
    narrow: 'drop',
    cell: (row) => <span className="t2">{row.groupName ?? ''}</span>,
  },
  {
    id: 'schema',
    header: 'Schema',
    width: 110,
    narrow: 'd',
    cell: (row) => (row.schemas ? `version ${versions(row)[0] ?? ''}` : <span className="t3">none</span>),
  },
  { id: 'state', header: 'State', width: 130, narrow: 'b', cell: (row) => <StateText {...stateOf(row)} /> },
  {
    id: 'updated',
    header: 'Changed',
    width: 130,
    wide: true,
    narrow: 'drop',
    cell: (row) => <ListTime at={row.updatedAt} />,
  },
];

const stateOf = (row: EventType) =>
  row.archived
    ? ({ look: 'cancelled', word: 'Archived' } as const)
    : row.deprecated
      ? ({ look: 'retrying', word: 'Deprecated' } as const)
      : ({ look: 'delivered', word: 'Active' } as const);
const versions = (row: EventType) =>
  Object.keys((row.schemas ?? {}) as Record<string, unknown>).sort((a, b) => Number(b) - Number(a));
const nameOf = (row: EventType) => row.name;

export default function EventTypes() {
  const [url, setUrl] = useUrl();
  const may = useMay('PUT /api/v1/event-type/{event_type_name}');
  const archived = url.archived === '1';
  const [edit, setEdit] = useState<EventType | 'new' | null>(null);
  const query = useQuery(eventTypesQuery(archived));
  const text = url.q?.toLowerCase();
  const rows = query.data?.data.filter(
    (row) => (!archived || row.archived) && (!text || `${row.name} ${row.description}`.toLowerCase().includes(text)),
  );
  const open = (row: EventType) => setUrl({ open: row.name }, { replace: url.open !== undefined });
  const chosen = query.data?.data.find((row) => row.name === url.open);
  const list = (
    <>
      <Tabs
        label="Event types"
        tabs={[
          { to: '/event-types', label: 'Active', active: !archived },
          { to: '/event-types', search: { archived: '1' }, label: 'Archived', active: archived },
        ]}
      />
      <FilterBar>
        <SearchBox
          value={url.q ?? ''}
          placeholder="Name or description"
          onChange={(q) => setUrl({ q }, { replace: true })}
        />
      </FilterBar>
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what="The list of event types" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={10} />}
        {rows?.length === 0 && (
          <Empty
            icon={Tag}
            title={text || archived ? 'No event types match' : 'No event types yet'}
            command={
              text || archived
                ? undefined
                : curl({
                    method: 'POST',
                    url: `${location.origin}/api/v1/event-type`,
                    body: '{"name":"invoice.paid","description":"Sent when an invoice was paid"}',
                  })
            }
          >
            {text || archived
              ? undefined
              : 'Event types describe what you send. Messages of types that are not listed are accepted, too.'}
          </Empty>
        )}
        {rows && rows.length > 0 && (
          <DataTable
            label="Event types"
            keyboard
            columns={columns}
            rows={rows}
            rowId={nameOf}
            openId={url.open}
            onOpen={open}
          />
        )}
      </div>
      <footer className="foot">
        {rows && `${count(rows.length)} event types${query.data?.done ? '' : ', the first 250'}`}
      </footer>
    </>
  );
  return (
    <Page
      title="Event types"
      tools={
        may && (
          <Button kind="primary" icon={Plus} onClick={() => setEdit('new')}>
            New event type
          </Button>
        )
      }
    >
      <Split
        list={list}
        panel={
          chosen && (
            <TypePanel
              key={chosen.name}
              type={chosen}
              may={may}
              onEdit={() => setEdit(chosen)}
              onClose={() => setUrl({ open: undefined })}
              onStep={stepper(rows ?? [], nameOf, url.open, open)}
            />
          )
        }
      />
      {edit && <TypeDialog type={edit === 'new' ? null : edit} onClose={() => setEdit(null)} />}
    </Page>
  );
}

function TypePanel({
  type,
  may,
  onEdit,
  onClose,
  onStep,
}: {
  type: EventType;
  may: boolean;
  onEdit: () => void;
  onClose: () => void;
  onStep: (step: 1 | -1) => void;
}) {
  const [dialog, setDialog] = useState(false);
  const path = { event_type_name: type.name };
  const archive = useChange(
    (value: boolean) =>
      ok(api.PATCH('/api/v1/event-type/{event_type_name}', { params: { path }, body: { archived: value } })),
    ['eventTypes'],
    (_, value) => toast(value ? 'Archived' : 'Restored'),
  );
  const remove = useChange(
    () => ok(api.DELETE('/api/v1/event-type/{event_type_name}', { params: { path, query: { expunge: true } } })),
    ['eventTypes'],
    () => {
      toast('Event type deleted');
      onClose();
    },
  );
  const schemas = (type.schemas ?? {}) as Record<string, unknown>;
  const example = exampleOf(type);
  return (
    <Panel
      title={<span className="mono">{type.name}</span>}
      label="Event type"
      onClose={onClose}
      onStep={onStep}
      sub={<span>{type.description || 'Without description'}</span>}
      footer={
        may && (
          <>
            <Button kind="primary" onClick={onEdit}>
              Edit
            </Button>
            <Button
              icon={Archive}
              busy={archive.isPending}
              onClick={() =>
                archive.mutate(!type.archived, { onError: (error) => toastError('The change failed', error) })
              }
            >
              {type.archived ? 'Restore' : 'Archive'}
            </Button>
            <Button kind="danger" icon={Trash2} className="push" onClick={() => setDialog(true)}>
              Delete
            </Button>
          </>
        )
      }
    >
      <section className="stack">
        {example && <Payload title="Example" value={example} />}
        {versions(type).map((version) => (
          <Payload key={version} title={`Schema, version ${version}`} value={schemas[version]} />
        ))}
        {!type.schemas && <p className="t3">No schema. With one, the portal shows it, and tests have an example.</p>}
      </section>
      <Confirm
        open={dialog}
        onClose={() => setDialog(false)}
        danger
        title={`Delete ${type.name}`}
        verb="Delete event type"
        typed={type.name}
        run={() => remove.mutateAsync(undefined)}
      >
        The description and the schema are deleted for good. Messages and endpoints stay.
      </Confirm>
    </Panel>
  );
}

function TypeDialog({ type, onClose }: { type: EventType | null; onClose: () => void }) {
  const newest = type ? versions(type)[0] : undefined;
  const [form, setForm] = useState({
    name: type?.name ?? '',
    description: type?.description ?? '',
    group: type?.groupName ?? '',
    schema: newest ? JSON.stringify((type?.schemas as Record<string, unknown>)[newest], null, 2) : '',
  });
  const set = (patch: Partial<typeof form>) => setForm({ ...form, ...patch });
  let schema: Record<string, unknown> | null | undefined = null;
  try {
    schema = form.schema.trim() ? (JSON.parse(form.schema) as Record<string, unknown>) : null;
  } catch {
    schema = undefined;
  }
  const save = useChange(
    () => {
      const before = (type?.schemas ?? {}) as Record<string, unknown>;
      const schemas = schema ? { ...before, [newest ?? '1']: schema } : null;
      const body = { description: form.description.trim(), groupName: form.group.trim() || null, schemas };
      return type
        ? ok(
            api.PATCH('/api/v1/event-type/{event_type_name}', {
              params: { path: { event_type_name: type.name } },
              body,
            }),
          )
        : ok(api.POST('/api/v1/event-type', { body: { ...body, name: form.name.trim() } }));
    },
    ['eventTypes'],
    () => {
      toast(type ? 'Event type saved' : 'Event type created');
      onClose();
    },
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field.split('.')[0] ?? '', message]))
      : {};
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={type ? `Edit ${type.name}` : 'New event type'}
      onSubmit={() => save.mutate(undefined)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={save.isPending} disabled={!form.name.trim() || schema === undefined}>
            {type ? 'Save event type' : 'Create event type'}
          </Button>
        </>
      }
    >
      {!type && (
        <TextField
          label="Name"
          value={form.name}
          onChange={(name) => set({ name })}
          mono
          placeholder="invoice.paid"
          error={fields.name}
          autoFocus
        />
      )}
      <TextField
        label="Description"
        value={form.description}
        onChange={(description) => set({ description })}
        error={fields.description}
      />
      <TextField
        label="Group"
        optional
        value={form.group}
        onChange={(group) => set({ group })}
        error={fields.groupName}
      />
      <AreaField
        label={`JSON Schema${newest ? `, version ${newest}` : ''}`}
        optional
        value={form.schema}
        onChange={(text) => set({ schema: text })}
        rows={9}
        error={schema === undefined ? 'The schema is not valid JSON' : fields.schemas}
        hint="Draft 7"
      />
      {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}
