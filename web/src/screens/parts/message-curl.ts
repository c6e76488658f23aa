// A message as a command that sends it again.

import type { Message } from '../../api/types';
import { toText } from '../../lib/json';
import { curl } from '../../lib/text';

/** The payload keeps its digits; the event id is left out, because it is accepted only once. */
export function messageCurl(
  app: string,
  message: Pick<Message, 'eventType' | 'channels' | 'tags'>,
  payload: unknown,
): string {
  const parts = [`"eventType":${JSON.stringify(message.eventType)}`, `"payload":${toText(payload ?? {}, 0)}`];
  if (message.channels?.length) parts.push(`"channels":${JSON.stringify(message.channels)}`);
  if (message.tags?.length) parts.push(`"tags":${JSON.stringify(message.tags)}`);
  const origin = typeof location === 'undefined' ? 'http://localhost:8071' : location.origin;
  return curl({
    method: 'POST',
    url: `${origin}/api/v1/app/${encodeURIComponent(app)}/msg`,
    body: `{${parts.join(',')}}`,
  });
}
