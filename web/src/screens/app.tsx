// One application: its endpoints, its portal link, its settings.

import { useMutation, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { ExternalLink, Inbox, Plus, Trash2, Webhook } from 'lucide-react';
import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../api/client';
import { appQuery, endpointsQuery, useChange } from '../api/queries';
import type { Application } from '../api/types';
import { offers } from '../capabilities';
import { plural } from '../lib/text';
import { useMay } from '../session';
import { CopyButton, Id, Url } from '../ui/atoms';
import { Button, SelectField, TextField } from '../ui/controls';
import { Card } from '../ui/figures';
import { Confirm } from '../ui/overlay';
import { Body, ObjectHead, Page, Tabs } from '../ui/page';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { FullTime } from '../ui/time';
import { toast } from '../ui/toast';
import { useUrl } from '../url';
import { EndpointCell } from './parts/endpoint-cells';
import { EndpointDialog } from './parts/endpoint-form';
import { ApplicationPolicy } from './parts/outer-policy';
import { ApplicationQuota } from './parts/quotas';
import type { Own } from './parts/policy-form';
import { isPaused, PauseApplication, PausedAbove } from './parts/pause';

export default function AppScreen() {
  const { app: id = '' } = useParams({ strict: false });
  const query = useQuery(appQuery(id));
  const app = query.data;
  return (
    <Page title={app?.name ?? id} crumbs={[{ to: '/apps', label: 'Applications' }]}>
      {app ? (
        <Content key={app.updatedAt} app={app} />
      ) : (
        <Body>
          {query.isError ? (
            <Failure error={query.error} what={`Application ${id}`} retry={() => void query.refetch()} />
          ) : (
            <Skeleton />
          )}
        </Body>
      )}
    </Page>
  );
}

function Content({ app }: { app: Application }) {
  const may = useMay('PATCH /api/v1/app/{app_id}');
  const mayAdd = useMay('POST /api/v1/app/{app_id}/endpoint');
  const mayLink = useMay('POST /api/v1/auth/app-portal-access/{app_id}');
  const mayDelete = useMay('DELETE /api/v1/app/{app_id}');
  const navigate = useNavigate();
  const [url] = useUrl();
  const tab =
    url.tab === 'policy' && offers.outerPolicy ? 'policy' : url.tab === 'quota' && offers.quotas ? 'quota' : '';
  const [dialog, setDialog] = useState<'delete' | 'endpoint' | null>(null);
  const endpoints = useQuery(endpointsQuery(app.id));
  const path = { app_id: app.id };
  const remove = useChange(
    () => ok(api.DELETE('/api/v1/app/{app_id}', { params: { path } })),
    ['apps', 'endpoints', 'messages', 'deliveries'],
    () => {
      toast('Application deleted');
      void navigate({ to: '/apps' });
    },
  );
  return (
    <Body
      head={
        <ObjectHead
          title={app.name}
          sub={
            <>
              <Id id={app.id} whole />
              {app.uid && <span className="mono">{app.uid}</span>}
              <span>
                Created <FullTime at={app.createdAt} />
              </span>
            </>
          }
          tools={
            <>
              <Link className="btn" to="/messages" search={{ app: app.id }}>
                <Inbox className="i" aria-hidden="true" />
                Messages
              </Link>
              <PauseApplication app={app.id} paused={isPaused(app.policy)} />
              {mayAdd && (
                <Button kind="primary" icon={Plus} onClick={() => setDialog('endpoint')}>
                  New endpoint
                </Button>
              )}
            </>
          }
        />
      }
      tabs={
        offers.outerPolicy && (
          <Tabs
            label="Application"
            tabs={[
              { to: '/apps/$app', params: { app: app.id }, label: 'Overview', active: tab === '' },
              {
                to: '/apps/$app',
                params: { app: app.id },
                search: { tab: 'policy' },
                label: 'Policy',
                active: tab === 'policy',
              },
              ...(offers.quotas
                ? [
                    {
                      to: '/apps/$app',
                      params: { app: app.id },
                      search: { tab: 'quota' },
                      label: 'Quota',
                      active: tab === 'quota',
                    },
                  ]
                : []),
            ]}
          />
        )
      }
    >
      <PausedAbove app={app} />
      {tab === 'quota' ? (
        <ApplicationQuota app={app.id} />
      ) : tab === 'policy' ? (
        <ApplicationPolicy app={app.id} own={(app.policy ?? {}) as Own} />
      ) : (
        <div className="grid cols two-cards wide-left">
          <div className="stack">
            <Card
              title="Endpoints"
              sub={endpoints.data?.done ? plural(endpoints.data.data.length, 'endpoint') : undefined}
              className="clip"
              tools={
                <Link className="link" to="/endpoints" search={{ app: app.id }}>
                  All endpoints
                </Link>
              }
            >
              {endpoints.data?.data.length === 0 && <Empty icon={Webhook} title="No endpoints yet" />}
              {!endpoints.data && <Skeleton rows={3} />}
              <table className="tbl card-tbl">
                <tbody>
                  {endpoints.data?.data.slice(0, 20).map((endpoint) => (
                    <tr key={endpoint.id}>
                      <td className="two">
                        <b>
                          <Link
                            to="/apps/$app/endpoints/$ep/$tab"
                            params={{ app: app.id, ep: endpoint.id, tab: 'health' }}
                          >
                            <Url url={endpoint.url} />
                          </Link>
                        </b>
                        {endpoint.description && <small>{endpoint.description}</small>}
                      </td>
                      <td className="w-recent hide-narrow">
                        <EndpointCell app={app.id} endpoint={endpoint} part="recent" />
                      </td>
                      <td className="num w-success hide-narrow">
                        <EndpointCell app={app.id} endpoint={endpoint} part="success" />
                      </td>
                      <td className="w-state one">
                        <EndpointCell app={app.id} endpoint={endpoint} part="state" />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Card>
            {mayLink && <PortalLink app={app} />}
          </div>
          <div className="stack">
            <Settings app={app} may={may} />
            {mayDelete && (
              <Card title="Delete">
                <div className="in stack">
                  <p className="t2">Deletes the application with its endpoints. Open deliveries end as cancelled.</p>
                  <span>
                    <Button kind="danger" icon={Trash2} onClick={() => setDialog('delete')}>
                      Delete application
                    </Button>
                  </span>
                </div>
              </Card>
            )}
          </div>
        </div>
      )}
      {dialog === 'endpoint' && <EndpointDialog app={app.id} onClose={() => setDialog(null)} />}
      <Confirm
        open={dialog === 'delete'}
        onClose={() => setDialog(null)}
        danger
        title={`Delete ${app.name}`}
        verb="Delete application"
        typed={app.name}
        run={() => remove.mutateAsync(undefined)}
      >
        The application and its endpoints are deleted for good. Its messages are kept until they are pruned.
      </Confirm>
    </Body>
  );
}

/** A link that opens the portal as this customer. It holds a token: it is made on demand and never stored. */
function PortalLink({ app }: { app: Application }) {
  const [readOnly, setReadOnly] = useState('no');
  const [hours, setHours] = useState('1');
  const make = useMutation({
    mutationFn: () =>
      ok(
        api.POST('/api/v1/auth/app-portal-access/{app_id}', {
          params: { path: { app_id: app.id } },
          body: {
            expiry: Math.round(Number(hours) * 3600),
            ...(readOnly === 'yes' ? { capabilities: ['ViewBase'] } : {}),
          },
        }),
      ),
  });
  const url = make.data?.url;
  return (
    <Card title="Consumer portal" sub="what the customer sees">
      <div className="in stack">
        <div className="fgrid two-col">
          <SelectField
            label="Rights"
            value={readOnly}
            onChange={setReadOnly}
            options={[
              ['no', 'Everything'],
              ['yes', 'Read only, no secrets'],
            ]}
          />
          <TextField
            label="Valid for"
            value={hours}
            onChange={setHours}
            unit="hours"
            inputMode="numeric"
            hint="1 to 168"
          />
        </div>
        {make.isError && <Callout look="dead" title={messageOf(make.error)} />}
        {url ? (
          <span className="inp secret">
            <span className="mono cut grow">{url}</span>
            <CopyButton text={url} label="Copy the link" />
            <a
              className="btn ghost icon sm"
              href={portalPath(url)}
              target="_blank"
              rel="noreferrer"
              aria-label="Open the portal"
            >
              <ExternalLink className="i s" aria-hidden="true" />
            </a>
          </span>
        ) : (
          <span>
            <Button busy={make.isPending} onClick={() => make.mutate()}>
              Make a portal link
            </Button>
          </span>
        )}
        {url && (
          <p className="s12 t3">Anyone with this link has these rights until it ends. Send it only to this customer.</p>
        )}
      </div>
    </Card>
  );
}

/** Only the path of the link: the portal is on this server, whatever address it is known by elsewhere. */
function portalPath(url: string): string {
  try {
    const { pathname, hash } = new URL(url, location.origin);
    return pathname + hash;
  } catch {
    return '/';
  }
}

function Settings({ app, may }: { app: Application; may: boolean }) {
  const [name, setName] = useState(app.name);
  const [uid, setUid] = useState(app.uid ?? '');
  const save = useChange(
    () =>
      ok(
        api.PATCH('/api/v1/app/{app_id}', {
          params: { path: { app_id: app.id } },
          body: { name: name.trim(), uid: uid.trim() || null },
        }),
      ),
    ['apps'],
    () => toast('Application saved'),
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field, message]))
      : {};
  const changed = name !== app.name || uid !== (app.uid ?? '');
  return (
    <Card title="Settings">
      <form
        className="in stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(undefined);
        }}
      >
        <TextField label="Name" value={name} onChange={setName} error={fields.name} readOnly={!may} />
        <TextField label="Your id" optional value={uid} onChange={setUid} mono error={fields.uid} readOnly={!may} />
        {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
        {may && (
          <span>
            <Button submit busy={save.isPending} disabled={!changed || !name.trim()}>
              Save application
            </Button>
          </span>
        )}
      </form>
    </Card>
  );
}
