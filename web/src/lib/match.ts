// Why an endpoint did not get a message. Pure; compares the message with the endpoint's settings of today.

export type Candidate = {
  id: string;
  url: string;
  disabled?: boolean | null;
  createdAt: string;
  eventTypes?: string[] | null;
  filterTypes?: string[] | null;
  channels?: string[] | null;
};

export type Sent = { eventType: string; channels?: string[] | null; timestamp: string };

export type Miss = { look: 'unmatched' | 'disabled'; text: string };

/** Whether `pattern` names `type`; `payment.*` names every type below `payment`. */
export function typeMatches(pattern: string, type: string): boolean {
  if (pattern === type || pattern === '*') return true;
  if (pattern.endsWith('.*')) return type.startsWith(pattern.slice(0, -1));
  return false;
}

/** The reason why `endpoint` has no delivery of `message`. */
export function whyNot(endpoint: Candidate, message: Sent): Miss {
  if (Date.parse(endpoint.createdAt) > Date.parse(message.timestamp)) {
    return { look: 'unmatched', text: 'Created after this message was accepted' };
  }
  const types = endpoint.eventTypes ?? endpoint.filterTypes ?? [];
  if (types.length > 0 && !types.some((pattern) => typeMatches(pattern, message.eventType))) {
    return { look: 'unmatched', text: `Subscribed to ${list(types)}. This message is ${message.eventType}` };
  }
  const channels = endpoint.channels ?? [];
  const own = message.channels ?? [];
  if (channels.length > 0 && !own.some((channel) => channels.includes(channel))) {
    const has = own.length > 0 ? `on ${list(own)}` : 'on no channel';
    return { look: 'unmatched', text: `Listens to ${list(channels)}. This message is ${has}` };
  }
  if (endpoint.disabled) return { look: 'disabled', text: 'Disabled' };
  return { look: 'unmatched', text: 'Matches now. A filter or setting excluded the message when it was accepted' };
}

function list(names: string[]): string {
  const few = names.slice(0, 4);
  const more = names.length - few.length;
  if (more > 0) return `${few.join(', ')} and ${more} more`;
  return few.length > 1 ? `${few.slice(0, -1).join(', ')} and ${few.at(-1)}` : (few[0] ?? '');
}
