// One endpoint: health, deliveries, recovery, policy, settings, secret and test.

import { useQuery } from '@tanstack/react-query';
import { Navigate, useNavigate, useParams } from '@tanstack/react-router';
import { Ellipsis, Pause, Play, Power, Send, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api, ok } from '../api/client';
import { appQuery, endpointAttemptsQuery, endpointQuery, useAppName, useChange, usePoll } from '../api/queries';
import type { Endpoint } from '../api/types';
import { offers } from '../capabilities';
import { endpointState, type Breaker } from '../lib/state';
import { shortId, urlParts } from '../lib/text';
import { useMay } from '../session';
import { Badge, Id, Tags } from '../ui/atoms';
import { Button, IconButton } from '../ui/controls';
import { Confirm, Menu, type MenuItem } from '../ui/overlay';
import { LiveButton, ObjectHead, Page, RangePicker, Tabs, ZoneButton } from '../ui/page';
import { Callout, Failure, Skeleton } from '../ui/status';
import { isRange } from '../lib/time';
import { ListTime } from '../ui/time';
import { toast, toastError } from '../ui/toast';
import { useUrl } from '../url';
import { Link } from '@tanstack/react-router';
import { isChat, kindText } from '../lib/chat';
import { ChatTab } from './endpoint/chat';
import { Health } from './endpoint/health';
import { EndpointDeliveries } from './endpoint/deliveries';
import { Policy } from './endpoint/policy';
import { Recover } from './endpoint/recover';
import { PausedAbove } from './parts/pause';
import { Secret } from './endpoint/secret';
import { EndpointSettings } from './endpoint/settings';
import { Test } from './endpoint/test';

const kindOf = (endpoint: Endpoint): string | undefined => {
  const { kind } = endpoint as { kind?: string | null };
  return isChat(kind) ? kind : undefined;
};

/** A chat endpoint has a text in the place of a secret: platforms do not check signatures. */
const tabsOf = (endpoint: Endpoint) =>
  [
    ['health', 'Health', true],
    ['deliveries', 'Deliveries', true],
    ['recover', 'Recover', true],
    ['policy', 'Policy', offers.policy],
    ['settings', 'Settings', true],
    ['chat', 'Text', offers.chat && kindOf(endpoint) !== undefined],
    ['secret', 'Secret', kindOf(endpoint) === undefined],
    ['test', 'Test', true],
  ] as const;

export default function EndpointScreen() {
  const { app = '', ep = '', tab = 'health' } = useParams({ strict: false });
  const [url] = useUrl();
  const query = useQuery({ ...endpointQuery(app, ep), refetchInterval: usePoll(10_000) });
  const application = useQuery({ ...appQuery(app), staleTime: 5000 });
  const endpoint = query.data;
  const tabs = endpoint ? tabsOf(endpoint).filter(([, , on]) => on) : [];
  const title = endpoint ? urlParts(endpoint.url).host : shortId(ep);
  const range = isRange(url.range) ? url.range : '1h';
  return (
    <Page
      title={title}
      crumbs={[{ to: '/endpoints', label: 'Endpoints', search: { app } }]}
      tools={
        <>
          {tab === 'health' && <RangePicker range={range} />}
          <ZoneButton />
          <LiveButton />
        </>
      }
    >
      <div className="body">
        {!endpoint ? (
          <div className="pad">
            {query.isError ? (
              <Failure error={query.error} what={`Endpoint ${ep}`} retry={() => void query.refetch()} />
            ) : (
              <Skeleton />
            )}
          </div>
        ) : (
          <>
            <Head app={app} endpoint={endpoint} />
            <Tabs
              label="Endpoint"
              tabs={tabs.map(([key, label]) => ({
                to: '/apps/$app/endpoints/$ep/$tab',
                params: { app, ep, tab: key },
                label,
                active: key === tab,
              }))}
            />
            <div className="pad stack">
              {endpoint.disabled && (
                <Callout look="disabled" title="This endpoint is disabled. Nothing is sent to it.">
                  Open deliveries wait until it is enabled. Messages that are accepted meanwhile are not delivered to
                  it; “Replay missing” sends them later.
                </Callout>
              )}
              <PausedAbove app={application.data} />
              {!endpoint.disabled && endpoint.policy?.paused && (
                <Callout look="paused" title="This endpoint is paused. Nothing is sent to it.">
                  New messages are accepted, and their deliveries wait. Resuming sends them in order.
                </Callout>
              )}
              {!endpoint.disabled && !endpoint.policy?.paused && endpoint.breaker && (
                <BreakerNote breaker={endpoint.breaker} />
              )}
              {tab === 'health' && <Health app={app} endpoint={endpoint} range={range} />}
              {tab === 'deliveries' && <EndpointDeliveries app={app} endpoint={endpoint} />}
              {tab === 'recover' && <Recover app={app} endpoint={endpoint} />}
              {tab === 'policy' && offers.policy && <Policy app={app} endpoint={endpoint} />}
              {tab === 'settings' && <EndpointSettings app={app} endpoint={endpoint} />}
              {tab === 'chat' && kindOf(endpoint) && (
                <ChatTab app={app} endpoint={endpoint} kind={kindOf(endpoint) ?? ''} />
              )}
              {tab === 'secret' && <Secret app={app} endpoint={endpoint} />}
              {tab === 'test' && <Test app={app} endpoint={endpoint} />}
              {!tabs.some(([key]) => key === tab) && (
                <Navigate to="/apps/$app/endpoints/$ep/$tab" params={{ app, ep, tab: 'health' }} replace />
              )}
            </div>
          </>
        )}
      </div>
    </Page>
  );
}

function BreakerNote({ breaker }: { breaker: Breaker }) {
  if (breaker.state !== 'open') {
    return (
      <Callout
        look="breaker"
        title={
          breaker.atOnce
            ? `The circuit breaker tests this endpoint with ${breaker.atOnce} ${breaker.atOnce === 1 ? 'delivery' : 'deliveries'} at once.`
            : 'The circuit breaker tests this endpoint.'
        }
      >
        Each success lets more deliveries through. A failure stops them again.
      </Callout>
    );
  }
  return (
    <Callout
      look="breaker"
      title={
        <>
          The circuit breaker is open. Nothing is sent
          {breaker.until && (
            <>
              {' '}
              until <ListTime at={breaker.until} />
            </>
          )}
          .
        </>
      }
    >
      Too many attempts failed. Then one delivery tests the endpoint; waiting uses no attempts.
    </Callout>
  );
}

/** The policy is replaced as a whole, so it is read first: an older copy would undo changes of others. */
async function setPaused(app: string, ep: string, paused: boolean): Promise<Endpoint> {
  const params = { path: { app_id: app, endpoint_id: ep } };
  const { policy } = (await ok(api.GET('/api/v1/app/{app_id}/endpoint/{endpoint_id}', { params }))) as Endpoint;
  return (await ok(
    api.PATCH('/api/v1/app/{app_id}/endpoint/{endpoint_id}', {
      params,
      body: { policy: { ...policy, paused: paused || undefined } },
    }),
  )) as Endpoint;
}

function Head({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const may = useMay('PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id}');
  const name = useAppName(app);
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<'disable' | 'delete' | null>(null);
  const path = { app_id: app, endpoint_id: endpoint.id };
  const recent = useQuery({
    ...endpointAttemptsQuery(app, endpoint.id, { limit: 24, with_content: false }),
    refetchInterval: usePoll(10_000),
  }).data?.data;
  const state = endpointState(
    endpoint,
    recent && { attempts: recent.length, failures: recent.filter((row) => row.status !== 0).length },
  );
  const set = useChange(
    (disabled: boolean) =>
      ok(api.PATCH('/api/v1/app/{app_id}/endpoint/{endpoint_id}', { params: { path }, body: { disabled } })),
    ['endpoints', 'deliveries'],
    (_, disabled) =>
      toast(
        disabled ? 'Endpoint disabled' : 'Endpoint enabled',
        disabled ? { action: { label: 'Undo', run: () => set.mutate(false) } } : {},
      ),
  );
  const remove = useChange(
    () => ok(api.DELETE('/api/v1/app/{app_id}/endpoint/{endpoint_id}', { params: { path } })),
    ['endpoints', 'deliveries'],
    () => {
      toast('Endpoint deleted');
      void navigate({ to: '/endpoints', search: { app } });
    },
  );
  const isPaused = endpoint.policy?.paused === true;
  const pause = useChange(
    (paused: boolean) => setPaused(app, endpoint.id, paused),
    ['endpoints', 'deliveries'],
    (_, paused) =>
      toast(
        paused ? 'Endpoint paused' : 'Endpoint resumed',
        paused
          ? { text: 'New deliveries wait.', action: { label: 'Undo', run: () => pause.mutate(false) } }
          : { text: 'Waiting deliveries go out now.' },
      ),
  );
  const steer = (paused: boolean) =>
    pause.mutate(paused, { onError: (error) => toastError(paused ? 'Pausing failed' : 'Resuming failed', error) });
  const { host, path: rest } = urlParts(endpoint.url);
  const items: MenuItem[] = [
    endpoint.disabled
      ? { label: 'Enable endpoint', icon: Power, run: () => set.mutate(false) }
      : { label: 'Disable endpoint', icon: Power, run: () => setDialog('disable') },
    'line',
    { label: 'Delete endpoint', icon: Trash2, danger: true, run: () => setDialog('delete') },
  ];
  return (
    <>
      <ObjectHead
        title={
          <>
            {host}
            <span className="t3 reg">{rest}</span>
          </>
        }
        badges={<Badge {...state} />}
        sub={
          <>
            <Link className="link" to="/apps/$app" params={{ app }}>
              {name}
            </Link>
            <Id id={endpoint.id} />
            {kindOf(endpoint) && <span>{kindText(kindOf(endpoint) ?? '')}</span>}
            {endpoint.description && <span>{endpoint.description}</span>}
            <Tags names={endpoint.eventTypes} />
            <Tags names={endpoint.channels} />
          </>
        }
        tools={
          may && (
            <>
              <Button
                icon={Send}
                onClick={() =>
                  void navigate({ to: '/apps/$app/endpoints/$ep/$tab', params: { app, ep: endpoint.id, tab: 'test' } })
                }
              >
                Send test
              </Button>
              {!endpoint.disabled &&
                (isPaused ? (
                  <Button kind="primary" icon={Play} busy={pause.isPending} onClick={() => steer(false)}>
                    Resume
                  </Button>
                ) : (
                  <Button icon={Pause} busy={pause.isPending} onClick={() => steer(true)}>
                    Pause
                  </Button>
                ))}
              {endpoint.disabled && (
                <Button
                  kind="primary"
                  icon={Power}
                  busy={set.isPending}
                  onClick={() => set.mutate(false, { onError: (error) => toastError('Enabling failed', error) })}
                >
                  Enable
                </Button>
              )}
              <Menu trigger={<IconButton icon={Ellipsis} label="More" kind={undefined} />} items={items} />
            </>
          )
        }
      />
      <Confirm
        open={dialog === 'disable'}
        onClose={() => setDialog(null)}
        danger
        title="Disable this endpoint"
        verb="Disable endpoint"
        run={() => set.mutateAsync(true)}
      >
        Nothing is sent to {host} until it is enabled again. Open deliveries wait.
      </Confirm>
      <Confirm
        open={dialog === 'delete'}
        onClose={() => setDialog(null)}
        danger
        title="Delete this endpoint"
        verb="Delete endpoint"
        typed={host}
        run={() => remove.mutateAsync(undefined)}
      >
        The endpoint, its secret and its headers are deleted for good. Its open deliveries end as cancelled.
      </Confirm>
    </>
  );
}
