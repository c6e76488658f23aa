// The endpoints of the customer.

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Plus, Webhook } from 'lucide-react';
import { useState } from 'react';
import { api, messageOf, ok } from '../api/client';
import { endpointAttemptsQuery, endpointsQuery, useChange } from '../api/queries';
import type { Endpoint } from '../api/types';
import { endpointState } from '../lib/state';
import { StateText, Tags, Url } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Dialog } from '../ui/overlay';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { ListTime } from '../ui/time';
import { toast } from '../ui/toast';
import { useUrl } from '../url';
import { bodyOf, checkUrl, emptyForm, EndpointFields } from '../screens/parts/endpoint-form';
import { Ticks } from '../screens/parts/endpoint-cells';
import { allows, type Access } from './access';

export function PortalEndpoints({ app, access }: { app: string; access: Access }) {
  const [url, setUrl] = useUrl();
  const [creating, setCreating] = useState(false);
  const may = allows(access, 'ManageEndpoint');
  const query = useQuery({ ...endpointsQuery(app, url.cursor), refetchInterval: 15_000 });
  const rows = query.data?.data;
  const columns: Column<Endpoint>[] = [
    {
      id: 'url',
      header: 'Endpoint',
      className: 'two',
      narrow: 'a',
      cell: (row) => (
        <>
          <b>
            <Link to="/portal/$app/$" params={{ app, _splat: `endpoints/${row.id}` }}>
              <Url url={row.url} />
            </Link>
          </b>
          <small>{row.description || '\u00a0'}</small>
        </>
      ),
    },
    {
      id: 'state',
      header: 'State',
      width: 140,
      narrow: 'b',
      cell: (row) => <Recent app={app} endpoint={row} part="state" />,
    },
    {
      id: 'recent',
      header: 'Latest attempts',
      width: 170,
      narrow: 'd',
      cell: (row) => <Recent app={app} endpoint={row} part="ticks" />,
    },
    {
      id: 'types',
      header: 'Events',
      width: 230,
      narrow: 'c',
      cell: (row) =>
        row.eventTypes?.length ? <Tags names={row.eventTypes.slice(0, 2)} /> : <span className="t3">all</span>,
    },
    { id: 'created', header: 'Added', width: 120, narrow: 'drop', cell: (row) => <ListTime at={row.createdAt} /> },
  ];
  return (
    <>
      <div className="p-head">
        <h1>Endpoints</h1>
        {may && (
          <Button kind="primary" icon={Plus} onClick={() => setCreating(true)}>
            Add endpoint
          </Button>
        )}
      </div>
      <section className="card clip">
        {query.isError && !rows && <Failure error={query.error} what="The list of endpoints" />}
        {!rows && !query.isError && <Skeleton rows={4} />}
        {rows?.length === 0 && (
          <Empty icon={Webhook} title="No endpoints yet">
            An endpoint is a URL of yours. It gets a signed request for each event that you choose.
          </Empty>
        )}
        {rows && rows.length > 0 && (
          <DataTable card label="Endpoints" columns={columns} rows={rows} rowId={(row) => row.id} />
        )}
        {query.data && (!query.data.done || url.cursor) && (
          <Pager note="Oldest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
        )}
      </section>
      {creating && <AddDialog app={app} onClose={() => setCreating(false)} />}
    </>
  );
}

function Recent({ app, endpoint, part }: { app: string; endpoint: Endpoint; part: 'state' | 'ticks' }) {
  const recent = useQuery({
    ...endpointAttemptsQuery(app, endpoint.id, { limit: 24, with_content: false }),
    staleTime: 15_000,
  }).data?.data;
  if (part === 'ticks') return recent?.length ? <Ticks attempts={recent} /> : <span className="t3">–</span>;
  return (
    <StateText
      {...endpointState(
        endpoint,
        recent && { attempts: recent.length, failures: recent.filter((row) => row.status !== 0).length },
      )}
    />
  );
}

function AddDialog({ app, onClose }: { app: string; onClose: () => void }) {
  const [form, setForm] = useState(emptyForm);
  const [touched, setTouched] = useState(false);
  const navigate = useNavigate();
  const create = useChange(
    () => {
      const { url, description, eventTypes, channels } = bodyOf(form);
      return ok(
        api.POST('/api/v1/app/{app_id}/endpoint', {
          params: { path: { app_id: app } },
          body: { url, description, ...(eventTypes ? { eventTypes } : {}), ...(channels ? { channels } : {}) },
        }),
      );
    },
    ['endpoints'],
    (endpoint) => {
      toast('Endpoint added');
      onClose();
      void navigate({ to: '/portal/$app/$', params: { app, _splat: `endpoints/${endpoint.id}` } });
    },
  );
  const submit = () => {
    setTouched(true);
    if (!checkUrl(form.url)) create.mutate(undefined);
  };
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title="Add endpoint"
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={create.isPending}>
            Add endpoint
          </Button>
        </>
      }
    >
      <EndpointFields
        form={form}
        set={(patch) => setForm({ ...form, ...patch })}
        error={create.error}
        touched={touched}
        simple
      />
      {create.isError && <Callout look="dead" title={messageOf(create.error)} />}
    </Dialog>
  );
}
