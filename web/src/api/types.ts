// Names for the shapes of the API, and for the shapes of routes that openapi.json lacks (see api-needs.json).

import type { components } from './schema';

type Schemas = components['schemas'];

export type Application = Schemas['ApplicationOut'];
export type Endpoint = Schemas['EndpointOut'];
export type Message = Schemas['MessageOut'];
export type PlacedMessage = Schemas['PlacedMessageOut'];
export type Destination = Schemas['MessageEndpointOut'];
export type Delivery = Schemas['DeliveryOut'];
export type EventType = Schemas['EventTypeOut'];
export type Job = Schemas['JobOut'];
export type Queue = Schemas['QueueOut'];
export type Schedule = Schemas['ScheduleOut'];
export type ScheduleInput = Schemas['ScheduleIn'];
export type Batch = Schemas['BatchOut'];
export type Once = Schemas['OnceOut'];
export type Outbox = Schemas['OutboxOut'];
export type AsideRow = Schemas['AsideRowOut'];
export type BackgroundTask = Schemas['BackgroundTaskOut'];
export type Node = Schemas['NodeOut'];
export type Worker = Schemas['WorkerOut'];
export type AlertEndpoint = Schemas['OperationalWebhookEndpointOut'];

/** An attempt, with the members that later servers add. */
export type Attempt = Schemas['MessageAttemptOut'] & {
  address?: string;
  protocol?: string;
  nodeId?: string;
  actor?: string;
};

export type ApiKey = {
  id: string;
  name: string;
  scope: string;
  rights: string[];
  environment?: string;
  applicationId?: string;
  hint: string;
  state: string;
  createdAt: string;
  expiresAt?: string;
  lastUsedAt?: string;
  revokedAt?: string;
};

export type NewApiKey = ApiKey & { key: string };

export type AuditEntry = {
  seq: number;
  at: string;
  operation: string;
  phase: string;
  actor: string;
  keyId?: string;
  principal?: string;
  action: string;
  object: string;
  reason?: string;
  status?: number;
  requestHash?: string;
  beforeHash?: string;
  afterHash?: string;
  hash: string;
};

export type AuditCheck = {
  valid: boolean;
  checked: number;
  seq: number;
  hash: string;
  problem?: string;
  done: boolean;
};

export type ChatPreview = { body: unknown; templateError?: string | null };
export type ChatTest = ChatPreview & {
  posted: boolean;
  explanation: string;
  class: string;
  responseStatusCode: number;
  response: string;
};

export type PortalSettings = { name?: string; logoUrl?: string; accent?: string; backUrl?: string };

export type Page<T> = { data: T[]; iterator: string | null; prevIterator?: string | null; done: boolean };

export type Role = 'admin' | 'operate' | 'write' | 'read';

export type Session = {
  environment: string;
  name: string;
  keyName?: string;
  role: Role;
  /** The rights of the key, such as `write`. Operations name the right that they need. */
  rights?: string[];
  csrf: string;
  expiresAt: string;
  environments?: { id: string; name: string }[];
};

export type Overview = {
  now: string;
  range: string;
  stepSeconds: number;
  series: {
    t: number[];
    accepted: number[];
    delivered: number[];
    failed: number[];
    dead: number[];
    p50: (number | null)[];
    p95: (number | null)[];
    p99: (number | null)[];
  };
  totals: {
    pending: number;
    due: number;
    retrying: number;
    leased: number;
    dead: number;
    deadJobs: number;
    deliveredPerMinute: number;
    successRate: number | null;
    oldestDueSeconds: number | null;
    /** Counts of open deliveries stop here. */
    countedMax?: number;
  };
  failures: { class: string; count: number }[];
  topEndpoints: {
    appId: string;
    appName?: string;
    endpointId: string;
    url: string;
    failures: number;
    class: string;
    lastFailureAt: string;
  }[];
  nodes: { id: string; name?: string; version: string; startedAt: string; lastSeenAt: string; leases: number }[];
  queues: { name: string; pending: number; leased: number; limit?: number | null; paused: boolean }[];
};

/** An endpoint in the list of all applications. */
export type PlacedEndpoint = Endpoint & { appId: string; appName: string; state?: string; reason?: string | null };

export type FailureGroup = {
  id: string;
  appId: string;
  appName: string;
  endpointId: string;
  url: string;
  class: string;
  count: number;
  firstDiedAt: string;
  lastDiedAt: string;
  lastDay: number[];
  state: 'open' | 'acknowledged' | 'resolved';
  note?: string;
  notedAt?: string;
};

export type FilterTest = { matches: boolean; checks: { check: string; passes: boolean; reason: string }[] };

export type Lookup = { kind: string; id: string; appId?: string; path: string };
