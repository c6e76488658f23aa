// What became of a message, everywhere?

import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { Ban, Ellipsis, Eraser, RotateCw, Terminal } from 'lucide-react';
import { useState } from 'react';
import { api, ok } from '../api/client';
import { messageDeliveriesQuery, messageQuery, useAppName, usePoll, useChange } from '../api/queries';
import type { Message } from '../api/types';
import { useKeys } from '../keys';
import { deliveryState, fanOut } from '../lib/state';
import { useMay } from '../session';
import { Badge, Id, Tags, useCopy } from '../ui/atoms';
import { Button, IconButton } from '../ui/controls';
import { Card, Strip } from '../ui/figures';
import { Payload } from '../ui/json-view';
import { Confirm, Menu, type MenuItem } from '../ui/overlay';
import { Body, LiveButton, ObjectHead, Page } from '../ui/page';
import { Callout, Failure, Skeleton } from '../ui/status';
import { FullTime } from '../ui/time';
import { toast } from '../ui/toast';
import { useUrl } from '../url';
import { Deliveries, Unmatched, useUnmatched } from './parts/deliveries';
import { messageCurl } from './parts/message-curl';
import { WorkDialog } from './parts/chosen';

export default function MessageScreen() {
  const { app = '', msg = '' } = useParams({ strict: false });
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend');
  const query = useQuery(messageQuery(app, msg));
  const [dialog, setDialog] = useState<'replay' | 'expunge' | 'cancel' | null>(null);
  const [copied, copy] = useCopy();
  const data = query.data;
  const curl = () => data && copy(messageCurl(app, data.message, data.payload));
  useKeys({ r: () => may && setDialog('replay'), c: curl });
  const title = data?.message.eventType ?? 'Message';
  const crumbs = [{ to: '/messages', label: 'Messages', search: { app } }];
  const path = { app_id: app, msg_id: msg };
  const expunge = useChange(
    () => ok(api.DELETE('/api/v1/app/{app_id}/msg/{msg_id}/content', { params: { path } })),
    ['messages'],
    () => toast('Payload removed'),
  );
  const cancel = useChange(
    () => ok(api.POST('/api/v1/app/{app_id}/msg/{msg_id}/cancel', { params: { path } })),
    ['deliveries'],
    () => toast('Open deliveries cancelled'),
  );
  const items: MenuItem[] = [
    { label: 'Cancel open deliveries', icon: Ban, run: () => setDialog('cancel') },
    'line',
    { label: 'Remove payload', icon: Eraser, danger: true, run: () => setDialog('expunge') },
  ];
  return (
    <Page title={title} crumbs={crumbs} tools={<LiveButton />}>
      {!data ? (
        <Body>
          {query.isError ? (
            <Failure error={query.error} what={`Message ${msg}`} retry={() => void query.refetch()} />
          ) : (
            <Skeleton />
          )}
        </Body>
      ) : (
        <Body
          head={
            <ObjectHead
              title={title}
              badges={<StateBadges app={app} msg={msg} timestamp={data.message.timestamp} />}
              sub={<Id id={msg} whole />}
              tools={
                <>
                  <Button icon={Terminal} onClick={curl}>
                    {copied ? 'Copied' : 'Copy as curl'}
                  </Button>
                  {may && (
                    <Button kind="primary" icon={RotateCw} hint="R" onClick={() => setDialog('replay')}>
                      Replay
                    </Button>
                  )}
                  {may && <Menu trigger={<IconButton icon={Ellipsis} label="More" kind={undefined} />} items={items} />}
                </>
              }
            />
          }
        >
          <Facts app={app} message={data.message} />
          <div className="grid cols msg-cols">
            <div className="stack">
              <DeliveriesCard app={app} message={data.message} />
              <Card title="Not delivered to" sub="and why">
                <div className="in">
                  <Unmatched app={app} message={data.message} />
                </div>
              </Card>
            </div>
            <Payload
              value={data.payload}
              view={url.view}
              onView={(view) => setUrl({ view: view === 'tree' ? undefined : view }, { replace: true })}
              note="sent byte for byte"
            />
          </div>
        </Body>
      )}
      {dialog === 'replay' && <WorkDialog kind="replay" rows={[{ app, msg }]} onClose={() => setDialog(null)} />}
      <Confirm
        open={dialog === 'expunge'}
        onClose={() => setDialog(null)}
        danger
        title="Remove the payload"
        verb="Remove payload"
        typed={title}
        run={() => expunge.mutateAsync(undefined)}
      >
        The payload is deleted for good. Deliveries that still wait cannot be sent any more.
      </Confirm>
      <Confirm
        open={dialog === 'cancel'}
        onClose={() => setDialog(null)}
        danger
        title="Cancel open deliveries"
        verb="Cancel deliveries"
        run={() => cancel.mutateAsync(undefined)}
      >
        Deliveries that wait end as cancelled. One that is being sent ends after its current attempt. Dead deliveries
        stay.
      </Confirm>
    </Page>
  );
}

type Sent = Message;

function StateBadges({ app, msg, timestamp }: { app: string; msg: string; timestamp: string }) {
  const poll = usePoll(2000);
  const { data } = useQuery({ ...messageDeliveriesQuery(app, msg, timestamp), refetchInterval: poll });
  if (!data) return null;
  const chips = fanOut(data.map(deliveryState)).toReversed();
  if (chips.length === 0) return <Badge look="unmatched" word="Unmatched" />;
  return chips.map(({ look, number, word }) => (
    <Badge key={look} look={look} word={`${number} ${word || 'delivered'}`} />
  ));
}

function Facts({ app, message }: { app: string; message: Sent }) {
  const name = useAppName(app);
  return (
    <>
      {message.redriveOf && (
        <Callout look="retrying" title="This message replaces a dead delivery with a corrected payload.">
          <Link className="link" to="/apps/$app/messages/$msg" params={{ app, msg: message.redriveOf }}>
            {message.redriveOf}
          </Link>
        </Callout>
      )}
      <Strip
        items={[
          ['Accepted', <FullTime key="t" at={message.timestamp} />],
          [
            'Application',
            <Link key="a" className="link" to="/apps/$app" params={{ app }}>
              {name}
            </Link>,
          ],
          [
            'Event id',
            message.eventId ? <span className="mono">{message.eventId}</span> : <span className="t3">none</span>,
          ],
          [
            'Tags',
            message.tags?.length ? (
              <span className="row">
                <Tags names={message.tags} />
              </span>
            ) : (
              <span className="t3">none</span>
            ),
          ],
          [
            'Channels',
            message.channels?.length ? (
              <span className="row">
                <Tags names={message.channels} />
              </span>
            ) : (
              <span className="t3">none</span>
            ),
          ],
          message.deliverAt ? ['Deliver at', <FullTime key="d" at={message.deliverAt} />] : null,
        ]}
      />
    </>
  );
}

function DeliveriesCard({ app, message }: { app: string; message: Sent }) {
  const found = useUnmatched(app, message);
  return (
    <Card
      title="Deliveries"
      sub={found && `${found.reached} of ${Math.max(found.total, found.reached)} endpoints matched`}
    >
      <div className="in">
        <Deliveries app={app} message={message} />
      </div>
    </Card>
  );
}
