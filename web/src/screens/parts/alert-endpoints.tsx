// Alert endpoints: where operational events and pages of alerts go.

import { queryOptions, useMutation, useQuery } from '@tanstack/react-query';
import { Bell, Eye, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../../api/client';
import { useChange } from '../../api/queries';
import type { AlertEndpoint, Page as ApiPage } from '../../api/types';
import { isChat, kindText } from '../../lib/chat';
import { curl } from '../../lib/text';
import { useMay } from '../../session';
import { CopyButton, StateText, Tags, Url } from '../../ui/atoms';
import { AreaField, Button, CheckRow, TextField } from '../../ui/controls';
import { Confirm, Dialog } from '../../ui/overlay';
import { Callout, Empty, Failure, Skeleton } from '../../ui/status';
import { DataTable, Pager, type Column } from '../../ui/table';
import { ListTime } from '../../ui/time';
import { toast } from '../../ui/toast';
import { useUrl } from '../../url';
import { checkUrl, words } from './endpoint-form';

export const alertEndpointsQuery = (iterator?: string) =>
  queryOptions({
    queryKey: ['alertEndpoints', iterator],
    queryFn: () =>
      ok(api.GET('/api/v1/operational-webhook/endpoint', { params: { query: { limit: 50, iterator } } })) as Promise<
        ApiPage<AlertEndpoint>
      >,
  });

/** The list below the tabs of the screen. `adding` opens the dialog of a new endpoint. */
export function AlertEndpoints({ adding, onAdded }: { adding: boolean; onAdded: () => void }) {
  const [url, setUrl] = useUrl();
  const may = useMay('PUT /api/v1/operational-webhook/endpoint/{endpoint_id}');
  const mayReveal = useMay('GET /api/v1/operational-webhook/endpoint/{endpoint_id}/secret');
  const mayDelete = useMay('DELETE /api/v1/operational-webhook/endpoint/{endpoint_id}');
  const [dialog, setDialog] = useState<AlertEndpoint | null>(null);
  const [removing, setRemoving] = useState<AlertEndpoint | null>(null);
  const query = useQuery(alertEndpointsQuery(url.cursor));
  const rows = query.data?.data;
  const remove = useChange(
    (id: string) =>
      ok(api.DELETE('/api/v1/operational-webhook/endpoint/{endpoint_id}', { params: { path: { endpoint_id: id } } })),
    ['alertEndpoints'],
    () => toast('Alert endpoint deleted'),
  );
  const columns: Column<AlertEndpoint>[] = [
    {
      id: 'url',
      header: 'Endpoint',
      className: 'two',
      narrow: 'a',
      cell: (row) => (
        <>
          <b>
            <button type="button" onClick={() => may && setDialog(row)}>
              <Url url={row.url} />
            </button>
          </b>
          <small>
            {[isChat(row.kind) && kindText(row.kind), row.description].filter(Boolean).join(' · ') || row.id}
          </small>
        </>
      ),
    },
    {
      id: 'state',
      header: 'State',
      width: 130,
      narrow: 'b',
      cell: (row) =>
        row.disabled ? <StateText look="disabled" word="Disabled" /> : <StateText look="delivered" word="Enabled" />,
    },
    {
      id: 'types',
      header: 'Events',
      width: 300,
      narrow: 'c',
      cell: (row) =>
        row.eventTypes?.length ? <Tags names={row.eventTypes.slice(0, 3)} /> : <span className="t3">all</span>,
    },
    { id: 'created', header: 'Created', width: 130, narrow: 'drop', cell: (row) => <ListTime at={row.createdAt} /> },
    {
      id: 'secret',
      header: 'Secret',
      width: 230,
      narrow: 'drop',
      cell: (row) => (isChat(row.kind) ? <span className="t3">none</span> : mayReveal && <Secret id={row.id} />),
    },
    {
      id: 'act',
      header: <span className="sr">Action</span>,
      width: 120,
      num: true,
      narrow: 'd',
      cell: (row) =>
        mayDelete && (
          <Button size="sm" kind="ghost" icon={Trash2} onClick={() => setRemoving(row)}>
            Delete
          </Button>
        ),
    },
  ];
  return (
    <>
      <div className="col grow">
        <div className="body listbody">
          {query.isError && !rows && (
            <Failure error={query.error} what="The list of alert endpoints" retry={() => void query.refetch()} />
          )}
          {!rows && !query.isError && <Skeleton rows={4} />}
          {rows?.length === 0 && (
            <Empty
              icon={Bell}
              title="No alert endpoints yet"
              command={curl({
                method: 'POST',
                url: `${location.origin}/api/v1/operational-webhook/endpoint`,
                body: '{"url":"https://example.com/alerts"}',
              })}
            >
              Everhook posts a signed event to this endpoint when an endpoint is disabled, a delivery dies or an alert
              is triggered.
            </Empty>
          )}
          {rows && rows.length > 0 && (
            <DataTable label="Alert endpoints" columns={columns} rows={rows} rowId={(row) => row.id} />
          )}
        </div>
        <Pager
          note="Endpoints of operational events"
          page={query.data}
          cursor={url.cursor}
          go={(cursor) => setUrl({ cursor })}
        />
      </div>
      {adding && <EndpointDialog endpoint={null} onClose={onAdded} />}
      {dialog && <EndpointDialog endpoint={dialog} onClose={() => setDialog(null)} />}
      <Confirm
        open={removing !== null}
        onClose={() => setRemoving(null)}
        danger
        title="Delete this alert endpoint"
        verb="Delete endpoint"
        run={() => remove.mutateAsync(removing?.id ?? '')}
      >
        Operational events are not sent to it any more.
      </Confirm>
    </>
  );
}

function Secret({ id }: { id: string }) {
  const reveal = useMutation({
    mutationFn: () =>
      ok(
        api.GET('/api/v1/operational-webhook/endpoint/{endpoint_id}/secret', { params: { path: { endpoint_id: id } } }),
      ),
  });
  if (!reveal.data) {
    return (
      <Button size="sm" kind="ghost" icon={Eye} busy={reveal.isPending} onClick={() => reveal.mutate()}>
        Reveal
      </Button>
    );
  }
  return (
    <span className="row">
      <span className="mono cut">{reveal.data.key}</span>
      <CopyButton text={reveal.data.key} label="Copy the secret" />
    </span>
  );
}

function EndpointDialog({ endpoint, onClose }: { endpoint: AlertEndpoint | null; onClose: () => void }) {
  const [form, setForm] = useState({
    url: endpoint?.url ?? '',
    description: endpoint?.description ?? '',
    types: (endpoint?.eventTypes ?? []).join('\n'),
    disabled: endpoint?.disabled ?? false,
  });
  const [touched, setTouched] = useState(false);
  const save = useChange(
    () => {
      const types = words(form.types);
      const body = {
        url: form.url.trim(),
        description: form.description.trim(),
        disabled: form.disabled,
        ...(types.length ? { eventTypes: types } : {}),
      };
      return endpoint
        ? ok(
            api.PUT('/api/v1/operational-webhook/endpoint/{endpoint_id}', {
              params: { path: { endpoint_id: endpoint.id } },
              body: { ...body, uid: endpoint.uid, metadata: endpoint.metadata },
            }),
          )
        : ok(api.POST('/api/v1/operational-webhook/endpoint', { body }));
    },
    ['alertEndpoints'],
    () => {
      toast(endpoint ? 'Alert endpoint saved' : 'Alert endpoint created');
      onClose();
    },
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field.split('.')[0] ?? '', message]))
      : {};
  const submit = () => {
    setTouched(true);
    if (!checkUrl(form.url)) save.mutate(undefined);
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={endpoint ? 'Edit alert endpoint' : 'New alert endpoint'}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={save.isPending}>
            {endpoint ? 'Save endpoint' : 'Create endpoint'}
          </Button>
        </>
      }
    >
      <TextField
        label="URL"
        value={form.url}
        onChange={(url) => setForm({ ...form, url })}
        mono
        placeholder="https://example.com/alerts"
        error={(touched ? checkUrl(form.url) : null) ?? fields.url}
        autoFocus
      />
      <TextField
        label="Description"
        optional
        value={form.description}
        onChange={(description) => setForm({ ...form, description })}
        error={fields.description}
      />
      <AreaField
        label="Events"
        optional
        rows={3}
        value={form.types}
        onChange={(types) => setForm({ ...form, types })}
        hint="One on each line, such as endpoint.disabled. Empty: all"
        error={fields.eventTypes}
      />
      {endpoint && (
        <CheckRow label="Disabled" checked={form.disabled} onChange={(disabled) => setForm({ ...form, disabled })} />
      )}
      {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}
