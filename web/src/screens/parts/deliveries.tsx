// The deliveries of a message: a card for each endpoint, and the endpoints that did not match.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { api, ok } from '../../api/client';
import { endpointsQuery, filterTestQuery, messageDeliveriesQuery, useChange, usePoll } from '../../api/queries';
import type { Delivery, Message } from '../../api/types';
import { offers } from '../../capabilities';
import { whyNot } from '../../lib/match';
import { deliveryState, failureText, reasonText } from '../../lib/state';
import { plural, sentence } from '../../lib/text';
import { duration } from '../../lib/time';
import { useMay } from '../../session';
import { Glyph, Url } from '../../ui/atoms';
import { Button } from '../../ui/controls';
import { Failure, Skeleton } from '../../ui/status';
import { Countdown } from '../../ui/time';
import { toast, toastError } from '../../ui/toast';
import { EndpointUrl } from './names';

type Key = { app: string; msg: string; ep: string };

const path = ({ app, msg, ep }: Key) => ({ params: { path: { app_id: app, msg_id: msg, endpoint_id: ep } } });

/** The commands for one delivery. */
export function useDeliveryCommands(key: Key) {
  const nouns = ['deliveries', 'attempts', 'overview'];
  const base = '/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}' as const;
  const retry = useChange(
    () => ok(api.POST(`${base}/retry-now`, path(key))),
    nouns,
    () => toast('Retrying now'),
  );
  const cancel = useChange(
    () => ok(api.POST(`${base}/cancel`, path(key))),
    nouns,
    () => toast('Cancelled', { text: 'No further attempt is made.' }),
  );
  const dismiss = useChange(
    () => ok(api.POST(`${base}/dismiss`, path(key))),
    nouns,
    () => toast('Dismissed', { text: 'The delivery ended as cancelled.' }),
  );
  const resend = useChange(
    () => ok(api.POST(`${base}/resend`, path(key))),
    nouns,
    () => toast('Resending', { text: 'A manual attempt starts now.' }),
  );
  const redrive = useChange(
    () => ok(api.POST(`${base}/redrive`, path(key))),
    nouns,
    () => toast('Redriven', { text: 'The delivery is pending again.' }),
  );
  return { retry, cancel, dismiss, resend, redrive };
}

/** A sentence about the state: what happened last, and what follows. */
export function DeliveryMeta({ delivery }: { delivery: Delivery }) {
  const { word } = deliveryState(delivery);
  const last = delivery.lastAttempt;
  const { kind, detail } = delivery.reason;
  return (
    <>
      <b>{word}.</b>{' '}
      {delivery.state === 'succeeded' && last && (
        <>
          {last.status} in {duration(last.durationMs)}
        </>
      )}
      {delivery.state !== 'succeeded' && last && last.class !== 'success' && (
        <>
          {last.status > 0 ? `${last.status} ` : ''}
          {failureText(last.class, last.status)}
          {delivery.tries ? `, ${plural(delivery.tries, 'try', 'tries')}` : ''}
          {' · '}
        </>
      )}
      {delivery.state === 'pending' && delivery.nextAttempt && (
        <>
          next in <Countdown at={delivery.nextAttempt} />
        </>
      )}
      {delivery.state !== 'succeeded' &&
        !(delivery.state === 'pending' && delivery.nextAttempt) &&
        reasonText(kind, detail)}
    </>
  );
}

export function DeliveryCard({ app, delivery, compact }: { app: string; delivery: Delivery; compact?: boolean }) {
  const { look } = deliveryState(delivery);
  const may = useMay('POST /api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/retry-now');
  const commands = useDeliveryCommands({ app, msg: delivery.msgId, ep: delivery.endpointId });
  const bad = ['retrying', 'dead', 'breaker', 'limited'].includes(look);
  const main =
    delivery.state === 'dead'
      ? (['Redrive', commands.redrive] as const)
      : delivery.state === 'pending'
        ? (['Retry now', commands.retry] as const)
        : delivery.state === 'succeeded'
          ? (['Resend', commands.resend] as const)
          : null;
  const params = { app, msg: delivery.msgId, ep: delivery.endpointId };
  const run = (name: string, command: typeof commands.retry) =>
    command.mutate(undefined, { onError: (error) => toastError(`${name} failed`, error) });
  return (
    <div className={`dlv st-${look} ${bad ? 'bad' : ''}`}>
      <Glyph look={look} />
      <Link className="host cut" to="/apps/$app/messages/$msg/endpoints/$ep" params={params}>
        <EndpointUrl app={app} ep={delivery.endpointId} />
      </Link>
      <span className="meta">
        <DeliveryMeta delivery={delivery} />
      </span>
      <span className="act">
        {!compact && (
          <Link className={`btn sm ${bad ? '' : 'ghost'}`} to="/apps/$app/messages/$msg/endpoints/$ep" params={params}>
            Timeline
          </Link>
        )}
        {may && main && (
          <Button
            size="sm"
            kind={bad ? undefined : 'ghost'}
            busy={main[1].isPending}
            onClick={() => run(main[0], main[1] as typeof commands.retry)}
          >
            {main[0]}
          </Button>
        )}
      </span>
    </div>
  );
}

const order = [
  'retrying',
  'dead',
  'breaker',
  'limited',
  'paused',
  'leased',
  'pending',
  'disabled',
  'delivered',
  'cancelled',
];

export function Deliveries({ app, message, compact }: { app: string; message: Message; compact?: boolean }) {
  const poll = usePoll(2000);
  const query = useQuery({ ...messageDeliveriesQuery(app, message.id, message.timestamp), refetchInterval: poll });
  if (!query.data) return query.isError ? <Failure error={query.error} what="Deliveries" /> : <Skeleton rows={2} />;
  const rank = (row: Delivery) => order.indexOf(deliveryState(row).look);
  const rows = [...query.data].sort((a, b) => rank(a) - rank(b));
  if (rows.length === 0) return <p className="t2 quiet">No endpoint matched this message.</p>;
  return rows.map((row) => <DeliveryCard key={row.endpointId} app={app} delivery={row} compact={compact} />);
}

/** Endpoints without a delivery, with the reason. */
export function useUnmatched(app: string, message: Message | undefined) {
  const deliveries = useQuery(messageDeliveriesQuery(app, message?.id ?? '', message?.timestamp));
  const endpoints = useQuery({ ...endpointsQuery(app, undefined, 250), enabled: message !== undefined });
  if (!message || !deliveries.data || !endpoints.data) return undefined;
  const reached = new Set(deliveries.data.map((row) => row.endpointId));
  const missed = endpoints.data.data.filter((endpoint) => !reached.has(endpoint.id));
  return {
    missed: missed.map((endpoint) => ({ endpoint, miss: whyNot(endpoint, message) })),
    total: endpoints.data.data.length,
    reached: reached.size,
    complete: endpoints.data.done,
  };
}

/** The server evaluates its filters; without that route the page compares types and channels. */
function Reason({
  app,
  ep,
  message,
  text,
  known,
}: {
  app: string;
  ep: string;
  message: Message;
  text: string;
  known: boolean;
}) {
  const test = useQuery({ ...filterTestQuery(app, ep, message.id), enabled: offers.filterTest && !known });
  const failed = test.data?.checks.filter((check) => !check.passes);
  if (!failed?.length) return <>{text}.</>;
  return <>{failed.map((check) => sentence(check.reason, message.eventType)).join('. ')}.</>;
}

export function Unmatched({ app, message }: { app: string; message: Message }) {
  const found = useUnmatched(app, message);
  const [limit, setLimit] = useState(10);
  if (!found) return <Skeleton rows={2} />;
  if (found.missed.length === 0) return <p className="t2 quiet">Every endpoint of the application matched.</p>;
  return (
    <>
      {found.missed.slice(0, limit).map(({ endpoint, miss }) => (
        <div key={endpoint.id} className="why">
          <Glyph look={miss.look} />
          <Link className="cut" to="/apps/$app/endpoints/$ep/$tab" params={{ app, ep: endpoint.id, tab: 'settings' }}>
            <Url url={endpoint.url} />
          </Link>
          <small>
            <Reason
              app={app}
              ep={endpoint.id}
              message={message}
              text={miss.text}
              known={miss.look === 'disabled' || miss.text.startsWith('Created')}
            />
          </small>
        </div>
      ))}
      {found.missed.length > limit && (
        <Button size="sm" kind="ghost" onClick={() => setLimit(limit + 50)}>
          Show more of {found.missed.length}
        </Button>
      )}
      {!found.complete && <p className="s12 t3">Only the first 250 endpoints are compared.</p>}
    </>
  );
}
