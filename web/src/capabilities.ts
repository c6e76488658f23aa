// What the server offers, decided in one place from openapi.json at build time. A screen whose route is missing has no
// entry in the navigation; it appears with the next build after the route was added.

import { operations } from './api/operations';

export type Screen =
  | 'overview'
  | 'messages'
  | 'endpoints'
  | 'dead'
  | 'apps'
  | 'eventTypes'
  | 'once'
  | 'outboxes'
  | 'jobs'
  | 'queues'
  | 'schedules'
  | 'batches'
  | 'alerts'
  | 'bulk'
  | 'nodes'
  | 'keys'
  | 'audit'
  | 'settings';

const API = '/api/v1';
// For looking at a screen before its route exists, with dev/server.mjs: VITE_EXTRA_OPERATIONS="GET /api/v1/overview".
const extra: string[] = (import.meta.env.VITE_EXTRA_OPERATIONS ?? '').split(',');
const has = (method: string, path: string): boolean => {
  const operation = `${method} ${API}${path}`;
  return operations.has(operation) || extra.includes(operation);
};

export const screens: Record<Screen, boolean> = {
  overview: has('GET', '/overview'),
  messages: has('GET', '/app/{app_id}/msg'),
  endpoints: has('GET', '/app/{app_id}/endpoint'),
  dead: has('GET', '/delivery'),
  apps: has('GET', '/app'),
  eventTypes: has('GET', '/event-type'),
  once: has('GET', '/app/{app_id}/once'),
  outboxes: has('GET', '/outbox'),
  jobs: has('GET', '/job'),
  queues: has('GET', '/queue'),
  schedules: has('GET', '/schedule'),
  batches: has('GET', '/batch'),
  alerts: has('GET', '/operational-webhook/endpoint'),
  bulk: has('GET', '/background-task'),
  nodes: has('GET', '/node'),
  keys: has('GET', '/key'),
  audit: has('GET', '/audit'),
  settings: true,
};

/** Single features of screens. */
export const offers = {
  messagesOfAllApps: has('GET', '/message'),
  endpointsOfAllApps: has('GET', '/endpoint'),
  alertRules: has('GET', '/alert'),
  outerPolicy: has('GET', '/app/{app_id}/policy') && has('GET', '/environment/effective-policy'),
  policy: has('GET', '/app/{app_id}/endpoint/{endpoint_id}/policy'),
  filterTest: has('POST', '/app/{app_id}/endpoint/{endpoint_id}/filter/test'),
  endpointSeries: has('GET', '/app/{app_id}/endpoint/{endpoint_id}/series'),
  failureGroups: has('GET', '/failure-group'),
  lookup: has('GET', '/lookup/{id}'),
  config: has('GET', '/config'),
  endpointAuth: has('GET', '/app/{app_id}/endpoint/{endpoint_id}/basic-auth'),
  chat: has('POST', '/app/{app_id}/chat/preview'),
  chatApps: has('GET', '/chat-app'),
  quotas: has('GET', '/environment/quota'),
  portalSettings: has('GET', '/portal-settings'),
} as const;

/** The first screen after signing in. */
export const home = screens.overview ? '/overview' : '/messages';
