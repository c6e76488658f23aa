// A message beside the list.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { RotateCw, Terminal } from 'lucide-react';
import { useState } from 'react';
import { messageQuery } from '../../api/queries';
import { useKeys } from '../../keys';
import { useMay } from '../../session';
import { Id, Tags, useCopy } from '../../ui/atoms';
import { Button } from '../../ui/controls';
import { Payload } from '../../ui/json-view';
import { OpenIcon, Panel } from '../../ui/panel';
import { Failure, Skeleton } from '../../ui/status';
import { FullTime } from '../../ui/time';
import { WorkDialog } from './chosen';
import { Deliveries, Unmatched, useUnmatched } from './deliveries';
import { AppName } from './names';
import { messageCurl } from './message-curl';

type Props = { app: string; msg: string; eventType?: string; onClose: () => void; onStep: (step: 1 | -1) => void };

export function MessagePanel({ app, msg, eventType, onClose, onStep }: Props) {
  const query = useQuery(messageQuery(app, msg));
  const may = useMay('POST /api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend');
  const [replay, setReplay] = useState(false);
  const [copied, copy] = useCopy();
  const data = query.data;
  const curl = () => data && copy(messageCurl(app, data.message, data.payload));
  useKeys({ r: () => may && setReplay(true), c: curl });
  const footer = (
    <>
      {may && (
        <Button kind="primary" icon={RotateCw} hint="R" onClick={() => setReplay(true)}>
          Replay
        </Button>
      )}
      <Button icon={Terminal} onClick={curl} disabled={!data}>
        {copied ? 'Copied' : 'Copy as curl'}
      </Button>
    </>
  );
  const full = (
    <Link className="btn ghost sm" to="/apps/$app/messages/$msg" params={{ app, msg }}>
      <OpenIcon className="i" aria-hidden="true" />
      Open
    </Link>
  );
  return (
    <Panel
      title={data?.message.eventType ?? eventType ?? 'Message'}
      label="Message"
      onClose={onClose}
      onStep={onStep}
      full={full}
      footer={footer}
      sub={
        <>
          <Id id={msg} />
          <AppName app={app} link />
          {data && <FullTime at={data.message.timestamp} />}
        </>
      }
    >
      {query.isError && <Failure error={query.error} what="The message" retry={() => void query.refetch()} />}
      {!data && !query.isError && <Skeleton rows={6} />}
      {data && (
        <>
          <section>
            <h3>Deliveries</h3>
            <Deliveries app={app} message={data.message} compact />
            <Missed app={app} message={data.message} />
          </section>
          {(data.message.tags?.length || data.message.channels?.length || data.message.eventId) && (
            <section>
              <div className="row wrap">
                <Tags names={data.message.channels} />
                <Tags names={data.message.tags} />
                {data.message.eventId && <span className="mono t2">{data.message.eventId}</span>}
              </div>
            </section>
          )}
          <section>
            <Payload value={data.payload} />
          </section>
        </>
      )}
      {replay && <WorkDialog kind="replay" rows={[{ app, msg }]} onClose={() => setReplay(false)} />}
    </Panel>
  );
}

function Missed({ app, message }: { app: string; message: Parameters<typeof Unmatched>[0]['message'] }) {
  const found = useUnmatched(app, message);
  if (!found || found.missed.length === 0) return null;
  const number = found.missed.length;
  return (
    <details className="missed">
      <summary>
        {number} {number === 1 ? 'endpoint' : 'endpoints'} did not match
      </summary>
      <Unmatched app={app} message={message} />
    </details>
  );
}
