// Send a test to one endpoint, and show the reply.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, messageOf, ok } from '../../api/client';
import { attemptsQuery, deliveryQuery, eventTypesQuery, messageQuery, useChange } from '../../api/queries';
import type { Endpoint } from '../../api/types';
import { parseLossless } from '../../lib/json';
import { deliveryState } from '../../lib/state';
import { useMay } from '../../session';
import { Badge } from '../../ui/atoms';
import { AreaField, Button, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Callout, Empty } from '../../ui/status';
import { AttemptDetail } from '../parts/attempts';
import { exampleOf } from '../parts/example';

export function Test({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  return (
    <TestFor
      app={app}
      endpoint={endpoint}
      may={useMay('POST /api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example')}
    />
  );
}

export function TestFor({
  app,
  endpoint,
  may,
}: {
  app: string;
  endpoint: Pick<Endpoint, 'id' | 'eventTypes'>;
  may: boolean;
}) {
  const types = useQuery(eventTypesQuery());
  const [type, setType] = useState(endpoint.eventTypes?.find((name) => !name.includes('*')) ?? '');
  const [payload, setPayload] = useState('');
  const [sent, setSent] = useState<string | null>(null);
  const name = type || types.data?.data[0]?.name || '';
  const example = exampleOf(types.data?.data.find((one) => one.name === name)) ?? '{}';
  const text = payload || example;
  const value = parseLossless(text);
  const send = useChange(
    () => {
      const body = { eventType: name, ...(payload ? { payload: JSON.parse(payload) as Record<string, unknown> } : {}) };
      return ok(
        api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example', {
          params: { path: { app_id: app, endpoint_id: endpoint.id } },
          body,
        }),
      );
    },
    ['messages', 'deliveries'],
    (message) => setSent(message.id),
  );
  return (
    <div className="grid cols two-cards">
      <Card title="Test" sub="only this endpoint gets it">
        <div className="in stack">
          <TextField
            label="Event type"
            value={type}
            onChange={setType}
            placeholder={name}
            mono
            list="test-types"
            hint={
              types.data?.data.length === 0
                ? 'No event type is described yet. Describe one first: a test sends its example'
                : 'One of the described event types'
            }
          />
          <datalist id="test-types">
            {types.data?.data.map((one) => (
              <option key={one.name} value={one.name} />
            ))}
          </datalist>
          <AreaField
            label="Payload"
            value={text}
            onChange={setPayload}
            rows={9}
            error={value === undefined ? 'The payload is not valid JSON' : null}
          />
          {send.isError && <Callout look="dead" title={messageOf(send.error)} />}
          {may && (
            <span>
              <Button
                kind="primary"
                busy={send.isPending}
                disabled={value === undefined || !name}
                onClick={() => send.mutate(undefined)}
              >
                Send test
              </Button>
            </span>
          )}
        </div>
      </Card>
      {sent ? (
        <Result key={sent} app={app} msg={sent} ep={endpoint.id} />
      ) : (
        <Card title="Reply">
          <Empty title="No test sent">The reply of the endpoint appears here.</Empty>
        </Card>
      )}
    </div>
  );
}

function Result({ app, msg, ep }: { app: string; msg: string; ep: string }) {
  const delivery = useQuery({
    ...deliveryQuery(app, msg, ep),
    refetchInterval: (query) => (query.state.data?.state === 'succeeded' ? false : 700),
  }).data;
  const attempts = useQuery({
    ...attemptsQuery(app, msg, ep),
    refetchInterval: (query) => (query.state.data?.data[0]?.status === 0 ? false : 700),
  }).data;
  const payload = useQuery(messageQuery(app, msg)).data?.payload;
  const latest = attempts?.data[0];
  return (
    <div className="stack">
      {delivery && <Badge {...deliveryState(delivery)} size="lg" />}
      {latest ? (
        <AttemptDetail app={app} attempt={latest} number={attempts?.data.length ?? 1} payload={payload} />
      ) : (
        <Card title="Waiting for the reply">
          <Empty title="Sent">The attempt is running.</Empty>
        </Card>
      )}
    </div>
  );
}
