// Applications: the customers of the user.

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Building2, Plus } from 'lucide-react';
import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../api/client';
import { appsQuery, useChange } from '../api/queries';
import type { Application } from '../api/types';
import { count, curl } from '../lib/text';
import { useMay } from '../session';
import { Id } from '../ui/atoms';
import { Button, TextField } from '../ui/controls';
import { FilterBar, SearchBox } from '../ui/filters';
import { Dialog } from '../ui/overlay';
import { Page } from '../ui/page';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { ListTime } from '../ui/time';
import { toast } from '../ui/toast';
import { useUrl } from '../url';

const columns: Column<Application>[] = [
  {
    id: 'name',
    header: 'Application',
    narrow: 'a',
    cell: (row) => (
      <Link className="med" to="/apps/$app" params={{ app: row.id }}>
        {row.name}
      </Link>
    ),
  },
  {
    id: 'uid',
    header: 'Your id',
    width: 240,
    narrow: 'c',
    cell: (row) => (row.uid ? <span className="mono t2">{row.uid}</span> : <span className="t3">–</span>),
  },
  { id: 'id', header: 'Id', width: 180, narrow: 'drop', cell: (row) => <Id id={row.id} /> },
  {
    id: 'go',
    header: 'Open',
    width: 210,
    narrow: 'd',
    cell: (row) => (
      <span className="row">
        <Link className="link" to="/messages" search={{ app: row.id }}>
          Messages
        </Link>
        <Link className="link" to="/endpoints" search={{ app: row.id }}>
          Endpoints
        </Link>
      </span>
    ),
  },
  { id: 'created', header: 'Created', width: 140, narrow: 'b', cell: (row) => <ListTime at={row.createdAt} /> },
];

export default function Apps() {
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/app');
  const [creating, setCreating] = useState(false);
  const query = useQuery(appsQuery({ limit: 50, iterator: url.cursor }));
  const text = url.q?.toLowerCase();
  const rows = query.data?.data.filter(
    (row) => !text || `${row.name} ${row.uid ?? ''} ${row.id}`.toLowerCase().includes(text),
  );
  return (
    <Page
      title="Applications"
      tools={
        may && (
          <Button kind="primary" icon={Plus} onClick={() => setCreating(true)}>
            New application
          </Button>
        )
      }
    >
      <div className="col grow">
        <FilterBar>
          <SearchBox
            value={url.q ?? ''}
            placeholder="Find on this page"
            onChange={(q) => setUrl({ q }, { replace: true })}
          />
        </FilterBar>
        <div className="body listbody">
          {query.isError && !rows && (
            <Failure error={query.error} what="The list of applications" retry={() => void query.refetch()} />
          )}
          {!rows && !query.isError && <Skeleton rows={10} />}
          {rows?.length === 0 && (
            <Empty
              icon={Building2}
              title={text ? 'No applications match' : 'No applications yet'}
              command={
                text
                  ? undefined
                  : curl({ method: 'POST', url: `${location.origin}/api/v1/app`, body: '{"name":"Acme","uid":"acme"}' })
              }
            >
              {text ? undefined : 'An application is a customer of yours. It owns endpoints and messages.'}
            </Empty>
          )}
          {rows && rows.length > 0 && (
            <DataTable label="Applications" columns={columns} rows={rows} rowId={(row) => row.id} />
          )}
        </div>
        <Pager
          note={query.data?.done && !url.cursor ? `${count(query.data.data.length)} applications` : 'Oldest first'}
          page={query.data}
          cursor={url.cursor}
          go={(cursor) => setUrl({ cursor })}
        />
      </div>
      {creating && <AppDialog onClose={() => setCreating(false)} />}
    </Page>
  );
}

function AppDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [uid, setUid] = useState('');
  const navigate = useNavigate();
  const create = useChange(
    () => ok(api.POST('/api/v1/app', { body: { name: name.trim(), ...(uid.trim() ? { uid: uid.trim() } : {}) } })),
    ['apps'],
    (app) => {
      toast('Application created');
      onClose();
      void navigate({ to: '/apps/$app', params: { app: app.id } });
    },
  );
  const fields =
    create.error instanceof ApiFailure
      ? Object.fromEntries(create.error.fields.map(({ field, message }) => [field, message]))
      : {};
  return (
    <Dialog
      open
      onClose={onClose}
      title="New application"
      onSubmit={() => create.mutate(undefined)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={create.isPending} disabled={!name.trim()}>
            Create application
          </Button>
        </>
      }
    >
      <TextField label="Name" value={name} onChange={setName} placeholder="Acme" error={fields.name} autoFocus />
      <TextField
        label="Your id"
        optional
        value={uid}
        onChange={setUid}
        mono
        placeholder="acme"
        hint="Usable in every path instead of the id"
        error={fields.uid}
      />
      {create.isError && <Callout look="dead" title={messageOf(create.error)} />}
    </Dialog>
  );
}
