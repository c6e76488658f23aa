// The words, colours and glyphs of states. One mapping for deliveries, jobs, endpoints, queues and schedules.

export type Look =
  | 'delivered'
  | 'retrying'
  | 'dead'
  | 'paused'
  | 'limited'
  | 'pending'
  | 'leased'
  | 'breaker'
  | 'cancelled'
  | 'disabled'
  | 'unmatched'
  | 'skipped';

export type Shown = { look: Look; word: string };

const shown = (look: Look, word: string): Shown => ({ look, word });

export type DeliveryLike = {
  state: string;
  reason?: { kind: string; until?: string | null; detail?: string | null } | null;
  tries?: number | null;
  lastAttempt?: { class: string } | null;
};

/** The state of a delivery, as the operator knows it. */
export function deliveryState(delivery: DeliveryLike): Shown {
  const kind = delivery.reason?.kind ?? '';
  switch (delivery.state) {
    case 'succeeded':
      return shown('delivered', 'Delivered');
    case 'dead':
      return shown('dead', 'Dead');
    case 'cancelled':
      return shown('cancelled', 'Cancelled');
    case 'sending':
      return shown('leased', 'Sending');
    case 'held':
      return kind === 'endpointDisabled'
        ? shown('disabled', 'Held')
        : /paus/i.test(kind)
          ? shown('paused', 'Paused')
          : shown('limited', 'Held');
    case 'pending':
      return pendingState(kind, (delivery.tries ?? 0) > 0 || Boolean(delivery.lastAttempt));
    default:
      return shown('pending', delivery.state);
  }
}

function pendingState(kind: string, tried: boolean): Shown {
  if (/breaker|recovering/i.test(kind)) return shown('breaker', 'Breaker open');
  if (/concurrency/i.test(kind)) return shown('limited', 'At its limit');
  if (/rate|throttl/i.test(kind)) return shown('limited', 'Rate-limited');
  if (kind === 'behind' || kind === 'blocked') return shown('limited', kind === 'behind' ? 'In line' : 'Blocked');
  if (kind === 'cancelRequested') return shown('cancelled', 'Cancelling');
  if (/paus/i.test(kind)) return shown('paused', 'Paused');
  if (kind === 'scheduled') return shown('pending', 'Scheduled');
  return tried ? shown('retrying', 'Retrying') : shown('pending', 'Pending');
}

const reasons: Record<string, string> = {
  scheduled: 'Waits for the delivery time of the message',
  retry: 'Retry schedule: the attempt before failed',
  backOff: 'The endpoint asked for a pause or timed out',
  queued: 'Due, waits for its turn',
  cancelRequested: 'A cancel was requested: no attempt follows the current one',
  endpointDisabled: 'The endpoint is disabled; the delivery waits until it is enabled',
  endpointPaused: 'The endpoint is paused; the delivery waits until it is resumed',
  applicationPaused: 'The application is paused; the delivery waits until it is resumed',
  environmentPaused: 'The environment is paused; the delivery waits until it is resumed',
  breakerOpen: 'The circuit breaker is open: too many attempts to this endpoint failed',
  breakerProbing: 'The circuit breaker waits for the result of a probe',
  recovering: 'The endpoint recovers: its deliveries start in small steps',
  rateLimit: 'The rate limit of the endpoint is used up',
  concurrencyLimit: 'The endpoint has as many running attempts as its limit allows',
  behind: 'Ordered: waits for the delivery before it',
  blocked: 'Ordered: a dead delivery before it waits for a decision',
  sending: 'An attempt is running',
  exhausted: 'No attempts left',
  gone: 'The receiver answered 410 Gone',
  crashed: 'Holders of the delivery crashed too often',
  final: 'The receiver answered with a final status',
  delivered: 'The receiver accepted the message',
  cancelled: 'Cancelled by an operator',
  endpointDeleted: 'The endpoint was deleted',
};

/** A sentence for the reason of a state. Unknown reasons of later servers are shown as they are. */
export function reasonText(kind: string, detail?: string | null): string {
  const text = reasons[kind] ?? kind.replace(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`);
  return detail ? `${text}: ${detail}` : text;
}

const classes: Record<string, [label: string, color: string]> = {
  success: ['2xx', '--delivered'],
  status: ['Status', '--class-5xx'],
  '5xx': ['5xx', '--class-5xx'],
  '4xx': ['4xx', '--class-4xx'],
  '3xx': ['3xx', '--class-4xx'],
  '429': ['429', '--class-429'],
  throttled: ['Throttled', '--class-429'],
  gone: ['410 Gone', '--class-4xx'],
  dns: ['DNS', '--class-dns'],
  connect: ['Connect', '--class-connect'],
  tls: ['TLS', '--class-tls'],
  timeout: ['Timeout', '--class-timeout'],
  reset: ['Reset', '--class-connect'],
  blocked: ['Blocked', '--class-blocked'],
  abandoned: ['Abandoned', '--class-blocked'],
  interrupted: ['Interrupted', '--class-blocked'],
  cancelled: ['Cancelled', '--class-blocked'],
  internal: ['Internal', '--class-blocked'],
};

export const classLabel = (name: string): string => classes[name]?.[0] ?? name;
export const classColor = (name: string): string => `var(${classes[name]?.[1] ?? '--class-blocked'})`;

/** The result of an attempt in a word: the status code, or the class of the error. */
export function attemptLabel(
  attempt: { class: string; responseStatusCode?: number; status?: number },
  status?: number,
): string {
  const code = status ?? attempt.responseStatusCode ?? 0;
  return code > 0 ? String(code) : classLabel(attempt.class);
}

const phrases: Record<number, string> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'No Content',
  301: 'Moved Permanently',
  302: 'Found',
  307: 'Temporary Redirect',
  308: 'Permanent Redirect',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
};

export const statusPhrase = (code: number): string => phrases[code] ?? '';

const errors: Record<string, string> = {
  timeout: 'No reply in time',
  dns: 'The host name did not resolve',
  connect: 'The connection was refused',
  tls: 'The TLS handshake failed',
  reset: 'The connection was closed before the reply ended',
  blocked: 'The address is not allowed',
  abandoned: 'The node stopped during the attempt; another node took over',
  interrupted: 'The node shut down during the attempt',
  cancelled: 'Cancelled during the attempt',
  internal: 'Everhook failed; the node log has the cause',
};

/** What went wrong, in a few words. */
export function failureText(name: string, status: number): string {
  if (status > 0) return statusPhrase(status) || `Status ${status}`;
  return errors[name] ?? classLabel(name);
}

export function jobState(job: { state: string; tries?: number | null }): Shown {
  switch (job.state) {
    case 'succeeded':
      return shown('delivered', 'Succeeded');
    case 'dead':
      return shown('dead', 'Dead');
    case 'cancelled':
      return shown('cancelled', 'Cancelled');
    case 'leased':
    case 'running':
      return shown('leased', 'Leased');
    case 'skipped':
      return shown('skipped', 'Skipped');
    case 'pending':
      return (job.tries ?? 0) > 0 ? shown('retrying', 'Retrying') : shown('pending', 'Pending');
    default:
      return shown('pending', job.state);
  }
}

export type Recent = { attempts: number; failures: number; lastClass?: string };

/** Fewer attempts than this say nothing in percent. */
export const ATTEMPTS_MIN = 20;

/** The state of an endpoint from its settings and its recent attempts. */
/** A circuit breaker that is not closed. */
export type Breaker = { state: string; until?: string | null; atOnce?: number | null };

export function endpointState(
  endpoint: { disabled?: boolean | null; policy?: { paused?: boolean | null } | null; breaker?: Breaker | null },
  recent?: Recent,
): Shown {
  if (endpoint.disabled) return shown('disabled', 'Disabled');
  if (endpoint.policy?.paused) return shown('paused', 'Paused');
  if (endpoint.breaker) return shown('breaker', endpoint.breaker.state === 'open' ? 'Breaker open' : 'Recovering');
  if (!recent || recent.attempts === 0) return shown('pending', 'No attempts');
  const share = recent.failures / recent.attempts;
  if (share >= 0.5) return shown('dead', 'Failing');
  if (share > 0.02 || (recent.attempts < ATTEMPTS_MIN && recent.failures > 0)) return shown('retrying', 'Degraded');
  return shown('delivered', 'Healthy');
}

/** The order of fan-out chips. */
const fanOrder: Look[] = [
  'delivered',
  'leased',
  'pending',
  'breaker',
  'limited',
  'paused',
  'disabled',
  'retrying',
  'cancelled',
  'dead',
];

export type Chip = { look: Look; number: number; word: string };

/** Counts deliveries by state, in the order of the chips. Delivered shows its number only. */
export function fanOut(states: Shown[]): Chip[] {
  const counts = new Map<Look, Chip>();
  for (const { look, word } of states) {
    const chip = counts.get(look) ?? { look, number: 0, word: look === 'delivered' ? '' : word.toLowerCase() };
    chip.number += 1;
    counts.set(look, chip);
  }
  return fanOrder.flatMap((look) => counts.get(look) ?? []);
}

export type Tally = {
  succeeded: number;
  sending: number;
  pending: number;
  held: number;
  retrying: number;
  cancelled: number;
  dead: number;
};

/** The chips of deliveries that the server counted by state. */
export function tallyChips(tally: Tally): Chip[] {
  const chips: Chip[] = [
    { look: 'delivered', number: tally.succeeded, word: '' },
    { look: 'leased', number: tally.sending, word: 'sending' },
    { look: 'pending', number: tally.pending, word: 'pending' },
    { look: 'paused', number: tally.held, word: 'held' },
    { look: 'retrying', number: tally.retrying, word: 'retrying' },
    { look: 'cancelled', number: tally.cancelled, word: 'cancelled' },
    { look: 'dead', number: tally.dead, word: 'dead' },
  ];
  return chips.filter(({ number }) => number > 0);
}

/** The state of one row of `list-attempted-destinations`. */
export function destinationState(row: { status: number; nextAttempt?: string | null; disabled?: boolean }): Shown {
  switch (row.status) {
    case 0:
      return shown('delivered', 'Delivered');
    case 1:
      if (row.disabled) return shown('disabled', 'Held');
      return shown('pending', 'Waiting');
    case 2:
      return row.nextAttempt ? shown('retrying', 'Retrying') : shown('dead', 'Dead');
    case 3:
      return shown('leased', 'Sending');
    default:
      return shown('cancelled', 'Cancelled');
  }
}
