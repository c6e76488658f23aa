// Why is it not there yet? One message for one endpoint, attempt by attempt.

import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { Ban, CircleSlash, GitCompare, Link as LinkIcon, RotateCw, Send, Terminal } from 'lucide-react';
import { useState } from 'react';
import { attemptsQuery, deliveryQuery, endpointQuery, messageQuery, useAppName, usePoll } from '../api/queries';
import { ApiFailure } from '../api/client';
import type { Attempt, Delivery } from '../api/types';
import { useKeys } from '../keys';
import { deliveryState, reasonText } from '../lib/state';
import { shortId, urlParts } from '../lib/text';
import { remaining } from '../lib/time';
import { useMay } from '../session';
import { Badge, Glyph, Id, useCopy } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Card } from '../ui/figures';
import { Confirm } from '../ui/overlay';
import { Body, LiveButton, ObjectHead, Page } from '../ui/page';
import { Failure, Skeleton } from '../ui/status';
import { FullTime, ListTime, useNow } from '../ui/time';
import { toastError } from '../ui/toast';
import { useUrl } from '../url';
import { AttemptDetail, AttemptDiff, AttemptList } from './parts/attempts';
import { useDeliveryCommands } from './parts/deliveries';
import { messageCurl } from './parts/message-curl';
import { RetryTrack } from './parts/retry-track';

export default function DeliveryScreen() {
  const { app = '', msg = '', ep = '' } = useParams({ strict: false });
  const poll = usePoll(2000);
  const delivery = useQuery({ ...deliveryQuery(app, msg, ep), refetchInterval: poll });
  const message = useQuery(messageQuery(app, msg));
  const endpoint = useQuery({ ...endpointQuery(app, ep), retry: false });
  const attempts = useQuery({ ...attemptsQuery(app, msg, ep), refetchInterval: poll });
  const type = delivery.data?.eventType ?? message.data?.message.eventType ?? 'Message';
  const target = endpoint.data ? urlParts(endpoint.data.url) : { host: shortId(ep), path: '' };
  const crumbs = [
    { to: '/messages', label: 'Messages', search: { app } },
    { to: '/apps/$app/messages/$msg', params: { app, msg }, label: type },
  ];
  return (
    <Page title={target.host} crumbs={crumbs} tools={<LiveButton />}>
      {!delivery.data ? (
        <Body>
          {delivery.isError ? (
            <Failure error={delivery.error} what="The delivery" retry={() => void delivery.refetch()} />
          ) : (
            <Skeleton />
          )}
        </Body>
      ) : (
        <Loaded
          delivery={delivery.data}
          app={app}
          type={type}
          target={target}
          attempts={attempts.data?.data}
          attemptsError={attempts.error}
          payload={message.data}
        />
      )}
    </Page>
  );
}

type Props = {
  delivery: Delivery;
  app: string;
  type: string;
  target: { host: string; path: string };
  attempts?: Attempt[];
  attemptsError: unknown;
  payload?: { message: Parameters<typeof messageCurl>[1]; payload: unknown };
};

function Loaded({ delivery, app, type, target, attempts, attemptsError, payload }: Props) {
  const { msgId: msg, endpointId: ep } = delivery;
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/retry-now');
  const name = useAppName(app);
  const commands = useDeliveryCommands({ app, msg, ep });
  const [dialog, setDialog] = useState<'cancel' | 'dismiss' | null>(null);
  const [copied, copy] = useCopy();
  const [linked, copyLink] = useCopy();
  const rows = attempts ?? [];
  const chosen = rows.find((row) => row.id === url.attempt) ?? rows[0];
  const other = rows.find((row) => row.id === url.compare);
  const step = (by: number) => {
    const next = rows[rows.findIndex((row) => row.id === chosen?.id) + by];
    if (next) setUrl({ attempt: next.id }, { replace: true });
  };
  const open = delivery.state === 'pending' || delivery.state === 'held';
  const main =
    delivery.state === 'dead'
      ? 'redrive'
      : open
        ? 'retry'
        : delivery.state === 'succeeded' || delivery.state === 'cancelled'
          ? 'resend'
          : null;
  const labels = { redrive: 'Redrive', retry: 'Retry now', resend: 'Resend' } as const;
  const run = () =>
    main && commands[main].mutate(undefined, { onError: (error) => toastError(`${labels[main]} failed`, error) });
  const curl = () => payload && copy(messageCurl(app, payload.message, payload.payload));
  useKeys({
    r: () => may && run(),
    c: curl,
    l: () => copyLink(location.href),
    '[': () => step(1),
    ']': () => step(-1),
  });
  const state = deliveryState(delivery);
  const tools = (
    <>
      <Button icon={Terminal} onClick={curl}>
        {copied ? 'Copied' : 'Copy as curl'}
      </Button>
      <Button icon={LinkIcon} className="hide-narrow" onClick={() => copyLink(location.href)}>
        {linked ? 'Copied' : 'Copy link'}
      </Button>
      {may && (open || delivery.state === 'sending') && (
        <Button kind="danger" icon={Ban} onClick={() => setDialog('cancel')}>
          Cancel
        </Button>
      )}
      {may && delivery.state === 'dead' && (
        <Button kind="danger" icon={CircleSlash} onClick={() => setDialog('dismiss')}>
          Dismiss
        </Button>
      )}
      {may && main && (
        <Button
          kind="primary"
          icon={main === 'resend' ? Send : RotateCw}
          hint="R"
          busy={commands[main].isPending}
          onClick={run}
        >
          {labels[main]}
        </Button>
      )}
    </>
  );
  return (
    <Body
      head={
        <ObjectHead
          title={
            <>
              {type} <span className="t3 reg">to</span> {target.host}
              <span className="t3 reg">{target.path}</span>
            </>
          }
          badges={<Badge {...state} />}
          tools={tools}
          sub={
            <>
              <Link className="link" to="/apps/$app/messages/$msg" params={{ app, msg }}>
                <Id id={msg} copy={false} />
              </Link>
              <Link className="link" to="/apps/$app/endpoints/$ep/$tab" params={{ app, ep, tab: 'health' }}>
                Endpoint
              </Link>
              <span>{name}</span>
              <span>
                Accepted <FullTime at={delivery.timestamp} />
              </span>
            </>
          }
        />
      }
    >
      <Why delivery={delivery} />
      {(rows.length > 0 || delivery.nextAttempt) && delivery.state !== 'succeeded' && (
        <RetryTrack delivery={delivery} attempts={rows} />
      )}
      <div className="grid cols dlv-cols">
        <Card
          title="Attempts"
          sub={attempts && String(rows.length)}
          className="clip"
          tools={
            rows.length > 1 && (
              <Button
                size="sm"
                kind="ghost"
                icon={GitCompare}
                aria-pressed={other !== undefined}
                onClick={() =>
                  setUrl(
                    { compare: other ? undefined : rows.find((row) => row.id !== chosen?.id)?.id },
                    { replace: true },
                  )
                }
              >
                Compare
              </Button>
            )
          }
        >
          {attemptsError instanceof ApiFailure && <Failure error={attemptsError} what="Attempts" />}
          <AttemptList
            delivery={delivery}
            attempts={rows}
            chosen={chosen?.id}
            compared={other?.id}
            onChoose={(id) => setUrl(other ? { compare: id } : { attempt: id }, { replace: true })}
          />
        </Card>
        {other && chosen ? (
          <AttemptDiff a={other} b={chosen} />
        ) : chosen ? (
          <AttemptDetail app={app} attempt={chosen} number={numberOf(rows, chosen)} payload={payload?.payload} />
        ) : (
          <NoAttempt delivery={delivery} />
        )}
      </div>
      <Confirm
        open={dialog === 'cancel'}
        onClose={() => setDialog(null)}
        danger
        title="Cancel this delivery"
        verb="Cancel delivery"
        run={() => commands.cancel.mutateAsync(undefined)}
      >
        The endpoint does not get the message any more.{' '}
        {delivery.state === 'sending' && 'The current attempt ends first, and counts if it succeeds.'} The message and
        its other deliveries stay.
      </Confirm>
      <Confirm
        open={dialog === 'dismiss'}
        onClose={() => setDialog(null)}
        danger
        title="Dismiss this dead delivery"
        verb="Dismiss delivery"
        run={() => commands.dismiss.mutateAsync(undefined)}
      >
        The delivery ends as cancelled, and no redrive finds it any more. It cannot be undone.
      </Confirm>
    </Body>
  );
}

/** Attempts by the schedule are numbered; manual ones carry no number. */
export function numberOf(attempts: Attempt[], attempt: Attempt): number | null {
  if (attempt.number) return attempt.number;
  if (attempt.triggerType === 1) return null;
  const scheduled = attempts.filter((row) => row.triggerType !== 1);
  const at = scheduled.findIndex((row) => row.id === attempt.id);
  return at < 0 ? null : scheduled.length - at;
}

function NoAttempt({ delivery }: { delivery: Delivery }) {
  return (
    <Card title="No attempt yet">
      <div className="in t2">{reasonText(delivery.reason.kind, delivery.reason.detail)}.</div>
    </Card>
  );
}

function Why({ delivery }: { delivery: Delivery }) {
  const now = useNow();
  const { look } = deliveryState(delivery);
  const { reason, nextAttempt, state, tries } = delivery;
  const waits = state === 'pending' || state === 'held' || state === 'sending';
  if (state === 'succeeded') return null;
  return (
    <section className={`wait st-${look} ${waits ? '' : 'ended'}`} aria-label={waits ? 'Why it waits' : 'Why it ended'}>
      {waits && (
        <div>
          <p className="lab">
            {state === 'sending' ? 'Attempt running' : nextAttempt ? 'Next attempt in' : 'Next attempt'}
          </p>
          <p className="clock" role="timer" aria-live="off">
            {state === 'sending' ? 'now' : nextAttempt ? remaining(Date.parse(nextAttempt), now) : 'not planned'}
          </p>
          <p className="s12 t2">
            {nextAttempt && <ListTime at={nextAttempt} />}{' '}
            {tries ? `after ${tries} failed ${tries === 1 ? 'attempt' : 'attempts'}` : ''}
          </p>
        </div>
      )}
      <div>
        <h2 className="lab">{waits ? 'Why it waits' : 'Why it ended'}</h2>
        <ul className="reasons">
          <li>
            <Glyph look={look} />
            <span>{reasonText(reason.kind, reason.detail)}</span>
            {reason.until && (
              <small>
                until <ListTime at={reason.until} />
              </small>
            )}
          </li>
        </ul>
        {state === 'pending' && <p className="s12 t3 wait-note">Retry now sends it at once, and skips this wait.</p>}
        {state === 'dead' && (
          <p className="s12 t3 wait-note">
            Redrive makes it pending again, with fresh attempts. Dismiss ends it for good.
          </p>
        )}
      </div>
    </section>
  );
}
