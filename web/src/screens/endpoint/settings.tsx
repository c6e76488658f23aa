// URL, filters and headers of an endpoint. Changes collect in a bar that lists them.

import { useQuery } from '@tanstack/react-query';
import { Plus, X } from 'lucide-react';
import { useEffect, useState } from 'react';
import { api, messageOf, ok } from '../../api/client';
import { useChange } from '../../api/queries';
import type { Endpoint } from '../../api/types';
import { offers } from '../../capabilities';
import { useMay } from '../../session';
import { Button, IconButton, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Callout, Loaded } from '../../ui/status';
import { toast } from '../../ui/toast';
import { AuthCard } from './auth';
import { bodyOf, checkUrl, EndpointFields, formOf, type EndpointForm } from '../parts/endpoint-form';

const labels: Record<keyof EndpointForm, string> = {
  url: 'URL',
  description: 'Description',
  eventTypes: 'Event types',
  channels: 'Channels',
  uid: 'Your id',
  throttleRate: 'Rate limit',
};

export function EndpointSettings({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  // Creating an endpoint needs the same right as changing its URL.
  const mayMove = useMay('POST /api/v1/app/{app_id}/endpoint');
  const may = useMay('PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id}');
  const [start, setStart] = useState(() => formOf(endpoint));
  const [form, setForm] = useState(start);
  const changed = (Object.keys(labels) as (keyof EndpointForm)[]).filter((name) => form[name] !== start[name]);
  const latest = JSON.stringify(formOf(endpoint));
  const isOld = latest !== JSON.stringify(start);
  const reset = () => {
    setStart(JSON.parse(latest) as EndpointForm);
    setForm(JSON.parse(latest) as EndpointForm);
  };
  useEffect(() => {
    // Stored values replace the form, unless someone is typing.
    if (isOld && changed.length === 0) {
      setStart(JSON.parse(latest) as EndpointForm);
      setForm(JSON.parse(latest) as EndpointForm);
    }
  }, [isOld, latest, changed.length]);
  const save = useChange(
    () => {
      const all = bodyOf(form);
      const body = Object.fromEntries(changed.map((name) => [name, all[name]]));
      return ok(
        api.PATCH('/api/v1/app/{app_id}/endpoint/{endpoint_id}', {
          params: { path: { app_id: app, endpoint_id: endpoint.id } },
          body,
        }),
      );
    },
    ['endpoints'],
    (saved) => {
      toast('Endpoint saved');
      setStart(formOf(saved as Endpoint));
      setForm(formOf(saved as Endpoint));
    },
  );
  return (
    <>
      {isOld && changed.length > 0 && (
        <Callout
          look="retrying"
          title="The endpoint was changed elsewhere meanwhile."
          action={
            <Button size="sm" onClick={reset}>
              Load the new values
            </Button>
          }
        >
          Saving overwrites only the fields that you changed here.
        </Callout>
      )}
      <div className="grid cols two-cards wide-left">
        <Card title="Settings">
          <div className="in stack">
            <EndpointFields
              form={form}
              set={(patch) => setForm({ ...form, ...patch })}
              error={save.error}
              touched
              readOnly={!may}
              fixedUrl={!mayMove}
            />
            {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
          </div>
        </Card>
        <div className="stack">
          <Headers app={app} endpoint={endpoint} />
          {offers.endpointAuth && <AuthCard app={app} ep={endpoint.id} />}
        </div>
      </div>
      {changed.length > 0 && (
        <div className="savebar" role="region" aria-label="Unsaved changes">
          <span className="grow">
            <b>
              {changed.length} {changed.length === 1 ? 'change' : 'changes'}
            </b>{' '}
            <span className="t2">{changed.map((name) => labels[name]).join(' · ')}</span>
          </span>
          <Button kind="ghost" onClick={reset}>
            Discard
          </Button>
          <Button
            kind="primary"
            busy={save.isPending}
            disabled={checkUrl(form.url) !== null}
            onClick={() => save.mutate(undefined)}
          >
            Save endpoint
          </Button>
        </div>
      )}
    </>
  );
}

function Headers({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const may = useMay('PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id}/headers');
  const path = { app_id: app, endpoint_id: endpoint.id };
  const query = useQuery({
    queryKey: ['endpoints', 'headers', app, endpoint.id],
    queryFn: () => ok(api.GET('/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers', { params: { path } })),
  });
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const patch = useChange(
    (body: { headers?: Record<string, string>; deleteHeaders?: string[] }) =>
      ok(api.PATCH('/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers', { params: { path }, body })),
    ['endpoints'],
    () => {
      setName('');
      setValue('');
      toast('Headers saved');
    },
  );
  return (
    <Card title="Headers" sub="sent with every delivery">
      <div className="in stack g12">
        <Loaded query={query} what="Headers" rows={2}>
          {(data) => {
            const list = [...Object.entries(data.headers), ...data.sensitive.map((one) => [one, '••••••••'] as const)];
            if (list.length === 0) return <p className="t3">No extra headers.</p>;
            return (
              <dl className="hdrs edit">
                {list.map(([key, text]) => (
                  <div key={key} className="prop">
                    <dt>{key}</dt>
                    <dd className="row">
                      <span className="cut">{String(text)}</span>
                      {may && (
                        <IconButton
                          icon={X}
                          label={`Remove ${key}`}
                          size="sm"
                          onClick={() => patch.mutate({ deleteHeaders: [key] })}
                        />
                      )}
                    </dd>
                  </div>
                ))}
              </dl>
            );
          }}
        </Loaded>
        {may && (
          <form
            className="hdr-add"
            onSubmit={(event) => {
              event.preventDefault();
              if (name.trim()) patch.mutate({ headers: { [name.trim()]: value } });
            }}
          >
            <TextField label="Name" value={name} onChange={setName} mono placeholder="x-api-key" />
            <TextField
              label="Value"
              value={value}
              onChange={setValue}
              mono
              hint="Values of secret headers are shown only once"
            />
            <Button icon={Plus} submit disabled={!name.trim()} busy={patch.isPending}>
              Add header
            </Button>
          </form>
        )}
        {patch.isError && <Callout look="dead" title={messageOf(patch.error)} />}
      </div>
    </Card>
  );
}
