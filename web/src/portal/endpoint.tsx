// One endpoint of the customer: deliveries, secret, verification, test.

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { ChevronLeft, Pencil, RotateCw, Send, Trash2 } from 'lucide-react';
import { useMemo, useState } from 'react';
import { api, messageOf, ok } from '../api/client';
import { backgroundTaskQuery, deliveriesQuery, endpointAttemptsQuery, endpointQuery, useChange } from '../api/queries';
import type { Endpoint } from '../api/types';
import { bucketize } from '../lib/buckets';
import { endpointState } from '../lib/state';
import { count, urlParts } from '../lib/text';
import { Badge, Tags } from '../ui/atoms';
import { Button, Seg } from '../ui/controls';
import { Card, Legend } from '../ui/figures';
import { Confirm, Dialog } from '../ui/overlay';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { Pager } from '../ui/table';
import { toast, toastError } from '../ui/toast';
import { useUrl } from '../url';
import { SecretFor, VerifyCard } from '../screens/endpoint/secret';
import { TestFor } from '../screens/endpoint/test';
import { bodyOf, checkUrl, EndpointFields, formOf } from '../screens/parts/endpoint-form';
import { taskText } from '../screens/parts/task-progress';
import { allows, type Access } from './access';
import { DeliveryTable } from './logs';

const DAY = 86_400_000;
const DAYS = 14;

export function PortalEndpoint({ app, ep, access }: { app: string; ep: string; access: Access }) {
  const query = useQuery({ ...endpointQuery(app, ep), retry: false });
  if (!query.data) return query.isError ? <Failure error={query.error} what="The endpoint" /> : <Skeleton />;
  return <Content app={app} endpoint={query.data} access={access} />;
}

function Content({ app, endpoint, access }: { app: string; endpoint: Endpoint; access: Access }) {
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<'edit' | 'delete' | 'test' | null>(null);
  const manage = allows(access, 'ManageEndpoint');
  const send = allows(access, 'CreateAttempts');
  const secret = allows(access, 'ViewEndpointSecret') || allows(access, 'ManageEndpointSecret');
  const { host, path } = urlParts(endpoint.url);
  const recent = useQuery({
    ...endpointAttemptsQuery(app, endpoint.id, { limit: 24, with_content: false }),
    refetchInterval: 10_000,
  }).data?.data;
  const state = endpointState(
    endpoint,
    recent && { attempts: recent.length, failures: recent.filter((row) => row.status !== 0).length },
  );
  const params = { params: { path: { app_id: app, endpoint_id: endpoint.id } } };
  const remove = useChange(
    () => ok(api.DELETE('/api/v1/app/{app_id}/endpoint/{endpoint_id}', params)),
    ['endpoints'],
    () => {
      toast('Endpoint deleted');
      void navigate({ to: '/portal/$app/$', params: { app, _splat: 'endpoints' } });
    },
  );
  const enable = useChange(
    (disabled: boolean) =>
      ok(api.PATCH('/api/v1/app/{app_id}/endpoint/{endpoint_id}', { ...params, body: { disabled } })),
    ['endpoints'],
    (_, disabled) => toast(disabled ? 'Endpoint disabled' : 'Endpoint enabled'),
  );
  return (
    <>
      <Link className="p-up" to="/portal/$app/$" params={{ app, _splat: 'endpoints' }}>
        <ChevronLeft className="i s" aria-hidden="true" />
        All endpoints
      </Link>
      <div className="p-head">
        <div className="grow">
          <div className="title">
            <h1>
              {host}
              <span className="t3 reg">{path}</span>
            </h1>
            <Badge {...state} />
          </div>
          <div className="subtitle">
            {endpoint.description && <span>{endpoint.description}</span>}
            {endpoint.eventTypes?.length ? <Tags names={endpoint.eventTypes} /> : <span>All events</span>}
          </div>
        </div>
        {manage && (
          <Button icon={Pencil} onClick={() => setDialog('edit')}>
            Edit
          </Button>
        )}
        {send && (
          <Button kind="primary" icon={Send} onClick={() => setDialog('test')}>
            Send test event
          </Button>
        )}
      </div>
      {endpoint.disabled && (
        <Callout
          look="disabled"
          title="This endpoint is disabled. Nothing is sent to it."
          action={
            manage && (
              <Button size="sm" busy={enable.isPending} onClick={() => enable.mutate(false)}>
                Enable
              </Button>
            )
          }
        />
      )}
      <div className="grid cols p-cols">
        <div className="stack">
          <Days app={app} ep={endpoint.id} />
          <Recent app={app} endpoint={endpoint} send={send} />
        </div>
        <div className="stack">
          {secret && <SecretFor app={app} ep={endpoint.id} may={allows(access, 'ManageEndpointSecret')} />}
          <VerifyCard />
          {manage && (
            <Card title="Remove">
              <div className="in row">
                {!endpoint.disabled && (
                  <Button
                    onClick={() => enable.mutate(true, { onError: (error) => toastError('The change failed', error) })}
                  >
                    Disable
                  </Button>
                )}
                <Button kind="danger" icon={Trash2} onClick={() => setDialog('delete')}>
                  Delete endpoint
                </Button>
              </div>
            </Card>
          )}
        </div>
      </div>
      {dialog === 'edit' && <EditDialog app={app} endpoint={endpoint} onClose={() => setDialog(null)} />}
      {dialog === 'test' && (
        <Dialog
          open
          wide
          onClose={() => setDialog(null)}
          title="Send test event"
          footer={<Button onClick={() => setDialog(null)}>Close</Button>}
        >
          <TestFor app={app} endpoint={endpoint} may={send} />
        </Dialog>
      )}
      <Confirm
        open={dialog === 'delete'}
        onClose={() => setDialog(null)}
        danger
        title="Delete this endpoint"
        verb="Delete endpoint"
        typed={host}
        run={() => remove.mutateAsync(undefined)}
      >
        Nothing is sent to it any more, and its secret is deleted for good.
      </Confirm>
    </>
  );
}

/** Attempts by day, from the newest 250. */
function Days({ app, ep }: { app: string; ep: string }) {
  const [now] = useState(() => Date.now());
  const query = useQuery({
    ...endpointAttemptsQuery(app, ep, {
      limit: 250,
      with_content: false,
      after: new Date(now - DAYS * DAY).toISOString(),
    }),
    refetchInterval: 15_000,
  });
  const buckets = useMemo(
    () => bucketize(query.data?.data ?? [], now + DAY - (now % DAY) - DAYS * DAY, now + DAY - (now % DAY), DAYS),
    [query.data, now],
  );
  const failed = buckets.times.map((_, index) =>
    [...buckets.failures.values()].reduce((sum, row) => sum + (row[index] ?? 0), 0),
  );
  const most = Math.max(1, ...buckets.success.map((value, index) => value + (failed[index] ?? 0)));
  const sum = (values: number[]) => count(values.reduce((total, value) => total + value, 0));
  const day = (at: number) =>
    new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' }).format(at * 1000);
  return (
    <Card
      title={`Last ${DAYS} days`}
      sub={query.data && !query.data.done ? 'the newest 250 attempts' : undefined}
      tools={
        <Legend
          series={[
            { label: 'Delivered', color: 'var(--accent)', value: sum(buckets.success) },
            { label: 'Failed', color: 'var(--dead)', value: sum(failed) },
          ]}
        />
      }
    >
      <div className="in">
        <div
          className="p-bars"
          role="img"
          aria-label={`${sum(buckets.success)} delivered, ${sum(failed)} failed in ${DAYS} days`}
        >
          {buckets.success.map((value, index) => (
            <span
              key={buckets.times[index]}
              title={`${day(buckets.times[index] ?? 0)}: ${value} delivered, ${failed[index] ?? 0} failed`}
            >
              {(failed[index] ?? 0) > 0 && (
                <i className="bad" style={{ height: `${((failed[index] ?? 0) / most) * 100}%` }} />
              )}
              {value > 0 && <i style={{ height: `${(value / most) * 100}%` }} />}
            </span>
          ))}
        </div>
        <div className="p-x">
          <span>{day(buckets.times[0] ?? 0)}</span>
          <span>today</span>
        </div>
      </div>
    </Card>
  );
}

function Recent({ app, endpoint, send }: { app: string; endpoint: Endpoint; send: boolean }) {
  const [url, setUrl] = useUrl();
  const [asking, setAsking] = useState(false);
  const [task, setTask] = useState<string | null>(null);
  const failed = url.state === 'dead';
  const query = useQuery({
    ...deliveriesQuery(app, { endpoint: endpoint.id, cursor: url.cursor, state: failed ? 'dead' : undefined }),
    refetchInterval: url.cursor ? false : 5000,
  });
  const recover = useChange(
    () =>
      ok(
        api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover', {
          params: { path: { app_id: app, endpoint_id: endpoint.id } },
          body: { since: new Date(Date.now() - DAYS * DAY).toISOString() },
        }),
      ),
    ['deliveries'],
    (result) => setTask(result.id),
  );
  const running = useQuery({ ...backgroundTaskQuery(task ?? ''), enabled: task !== null }).data;
  return (
    <Card
      title="Recent deliveries"
      className="clip"
      tools={
        <>
          <Seg
            small
            label="State"
            value={failed ? 'dead' : ''}
            options={
              [
                ['', 'All'],
                ['dead', 'Failed'],
              ] as const
            }
            onChange={(state) => setUrl({ state, cursor: undefined }, { replace: true })}
          />
          {send && (
            <Button size="sm" icon={RotateCw} onClick={() => setAsking(true)}>
              Recover failed
            </Button>
          )}
        </>
      }
    >
      {running && (
        <div className="in">
          <Callout
            look={running.status === 'failed' ? 'dead' : 'leased'}
            title={
              running.status === 'running'
                ? 'Recovering'
                : running.status === 'finished'
                  ? 'Recovered'
                  : 'The recovery failed'
            }
          >
            {taskText(running.data)}
          </Callout>
        </div>
      )}
      {query.isError && !query.data && <Failure error={query.error} what="Deliveries" />}
      {!query.data && !query.isError && <Skeleton rows={5} />}
      {query.data?.data.length === 0 && <Empty title={failed ? 'No failed deliveries' : 'No deliveries yet'} />}
      {query.data && query.data.data.length > 0 && <DeliveryTable app={app} rows={query.data.data} send={send} />}
      <Pager note="Newest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title="Recover failed deliveries"
        verb="Recover failed"
        run={() => recover.mutateAsync(undefined)}
      >
        Every event of the last {DAYS} days that failed for good at this endpoint is sent again.
      </Confirm>
    </Card>
  );
}

function EditDialog({ app, endpoint, onClose }: { app: string; endpoint: Endpoint; onClose: () => void }) {
  const [form, setForm] = useState(() => formOf(endpoint));
  const save = useChange(
    () => {
      const { url, description, eventTypes } = bodyOf(form);
      return ok(
        api.PATCH('/api/v1/app/{app_id}/endpoint/{endpoint_id}', {
          params: { path: { app_id: app, endpoint_id: endpoint.id } },
          body: { url, description, eventTypes },
        }),
      );
    },
    ['endpoints'],
    () => {
      toast('Endpoint saved');
      onClose();
    },
  );
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title="Edit endpoint"
      onSubmit={() => !checkUrl(form.url) && save.mutate(undefined)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={save.isPending}>
            Save endpoint
          </Button>
        </>
      }
    >
      <EndpointFields form={form} set={(patch) => setForm({ ...form, ...patch })} error={save.error} touched simple />
      {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}
