// Reads of the API as queries. Keys begin with the noun, so that a change can refetch everything that shows it.

import {
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { AlertRule } from '../lib/alerts';
import { parseLossless } from '../lib/json';
import { preferences, usePreferences } from '../preferences';
import { api, ApiFailure, failure, ok, raw } from './client';
import type {
  Attempt,
  BackgroundTask,
  Delivery,
  Destination,
  Endpoint,
  FilterTest,
  Message,
  Overview,
  Page,
  PlacedEndpoint,
  PlacedMessage,
} from './types';

export const POLL_MS = 5000;
export const PAGE_ROWS = 50;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      gcTime: 10 * 60_000,
      placeholderData: keepPreviousData,
      refetchOnWindowFocus: () => preferences().live,
      retry: (count, error) => count < 2 && error instanceof ApiFailure && (error.status === 0 || error.status >= 502),
    },
  },
});

/** The interval of live queries; hidden tabs stop by themselves. */
export function usePoll(ms = POLL_MS): number | false {
  return usePreferences().live ? ms : false;
}

type Query = Record<string, string | undefined>;

export const overviewQuery = (range: string) =>
  queryOptions({
    queryKey: ['overview', range],
    queryFn: () => raw<Overview>('GET', '/api/v1/overview', { query: { range } }),
  });

export const alertRulesQuery = (iterator?: string) =>
  queryOptions({
    queryKey: ['alerts', 'list', iterator],
    queryFn: () => raw<Page<AlertRule>>('GET', '/api/v1/alert', { query: { limit: String(PAGE_ROWS), iterator } }),
  });

export const appsQuery = (query: { iterator?: string; limit?: number } = {}) =>
  queryOptions({
    queryKey: ['apps', query],
    queryFn: () => ok(api.GET('/api/v1/app', { params: { query } })),
    staleTime: 30_000,
  });

export const appQuery = (app: string) =>
  queryOptions({
    queryKey: ['apps', 'one', app],
    queryFn: () => ok(api.GET('/api/v1/app/{app_id}', { params: { path: { app_id: app } } })),
    staleTime: 60_000,
    placeholderData: undefined,
  });

/** The display name of an application; its id until it is known. */
export function useAppName(app: string): string {
  const { data } = useQuery({ ...appQuery(app), enabled: app !== '' });
  return data?.name ?? app;
}

/** Requests of one search that finds nothing: each reads a bounded number of messages. */
const SEARCH_REQUESTS_MAX = 5;

/** Reads pages until one has a row. */
async function search<T>(
  read: (cursor: string | undefined) => Promise<Page<T>>,
  cursor: string | undefined,
): Promise<Page<T>> {
  let page = await read(cursor);
  for (
    let requests = 1;
    requests < SEARCH_REQUESTS_MAX && page.data.length === 0 && !page.done && page.iterator;
    requests += 1
  )
    page = await read(page.iterator);
  return page;
}

export const messagesQuery = (app: string, query: Query) =>
  queryOptions({
    queryKey: ['messages', app, query],
    queryFn: () =>
      search(
        (cursor) =>
          ok(
            api.GET('/api/v1/app/{app_id}/msg', {
              params: {
                path: { app_id: app },
                query: {
                  limit: PAGE_ROWS,
                  with_content: false,
                  iterator: cursor,
                  tag: query.tag,
                  channel: query.channel,
                  before: query.before,
                  after: query.after,
                  event_types: query.type ? query.type.split(',') : undefined,
                  payload_contains: query.text,
                },
              },
            }),
          ) as Promise<Page<Message>>,
        query.cursor,
      ),
    enabled: app !== '',
  });

/** The messages of all applications, with their deliveries by state. */
export const allMessagesQuery = (query: Query) =>
  queryOptions({
    queryKey: ['messages', 'all', query],
    queryFn: () =>
      search(
        (cursor) =>
          ok(
            api.GET('/api/v1/message', {
              params: {
                query: {
                  limit: PAGE_ROWS,
                  with_deliveries: true,
                  iterator: cursor,
                  tag: query.tag,
                  channel: query.channel,
                  before: query.before,
                  after: query.after,
                  event_types: query.type ? query.type.split(',') : undefined,
                  payload_contains: query.text,
                },
              },
            }),
          ) as Promise<Page<PlacedMessage>>,
        query.cursor,
      ),
  });

/** A message with its payload, whose numbers keep their digits. */
export const messageQuery = (app: string, msg: string) =>
  queryOptions({
    queryKey: ['messages', 'one', app, msg],
    queryFn: async () => {
      const params = { path: { app_id: app, msg_id: msg }, query: { with_content: true } };
      const { data, error, response } = await api.GET('/api/v1/app/{app_id}/msg/{msg_id}', { params, parseAs: 'text' });
      if (!response.ok) throw failure(response, error);
      const text = String(data);
      const message = JSON.parse(text) as Message;
      return { message, payload: (parseLossless(text) as { payload?: unknown } | undefined)?.payload };
    },
    placeholderData: undefined,
  });

export const destinationsQuery = (app: string, msg: string) =>
  queryOptions({
    queryKey: ['deliveries', 'destinations', app, msg],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/msg/{msg_id}/endpoint', {
          params: { path: { app_id: app, msg_id: msg }, query: { limit: 250 } },
        }),
      ) as Promise<Page<Destination>>,
    placeholderData: undefined,
  });

const DELIVERY_PAGES_MAX = 4;

/** Every delivery of messages that were accepted between two times, up to a bound. */
async function deliveriesBetween(
  app: string,
  from: number,
  to: number,
): Promise<{ data: Delivery[]; complete: boolean }> {
  const rows: Delivery[] = [];
  let iterator: string | undefined;
  for (let page = 0; page < DELIVERY_PAGES_MAX; page += 1) {
    const query = {
      after: new Date(from - 1).toISOString(),
      before: new Date(to + 1).toISOString(),
      limit: 250,
      iterator,
    };
    const found = (await ok(
      api.GET('/api/v1/app/{app_id}/delivery', { params: { path: { app_id: app }, query } }),
    )) as Page<Delivery>;
    rows.push(...found.data);
    if (found.done || !found.iterator) return { data: rows, complete: true };
    iterator = found.iterator;
  }
  return { data: rows, complete: false };
}

/** The deliveries of a page of messages, by message: one read for the whole page. */
export const fanQuery = (app: string, messages: Pick<Message, 'id' | 'timestamp'>[]) => {
  const times = messages.map(({ timestamp }) => Date.parse(timestamp));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  return queryOptions({
    queryKey: ['deliveries', 'fan', app, from, to],
    queryFn: async () => {
      const { data, complete } = await deliveriesBetween(app, from, to);
      const byMessage = new Map<string, Delivery[]>();
      for (const row of data) byMessage.set(row.msgId, [...(byMessage.get(row.msgId) ?? []), row]);
      return { byMessage, complete };
    },
    enabled: messages.length > 0 && app !== '',
  });
};

/** The deliveries of one message. */
export const messageDeliveriesQuery = (app: string, msg: string, timestamp: string | undefined) =>
  queryOptions({
    queryKey: ['deliveries', 'message', app, msg],
    queryFn: async () => {
      const at = Date.parse(timestamp ?? '');
      const { data } = await deliveriesBetween(app, at, at);
      return data.filter((row) => row.msgId === msg);
    },
    enabled: timestamp !== undefined,
    placeholderData: undefined,
  });

export const deliveryQuery = (app: string, msg: string, ep: string) =>
  queryOptions({
    queryKey: ['deliveries', 'one', app, msg, ep],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}', {
          params: { path: { app_id: app, msg_id: msg, endpoint_id: ep } },
        }),
      ),
    placeholderData: undefined,
  });

/** Open deliveries over all applications, or every delivery of one. */
export const deliveriesQuery = (app: string, query: Query) => {
  const all = {
    limit: PAGE_ROWS,
    iterator: query.cursor,
    state: query.state,
    class: query.class,
    endpoint_id: query.endpoint,
    before: query.before,
    after: query.after,
    tag: query.tag,
    channel: query.channel,
    event_types: query.type ? query.type.split(',') : undefined,
  };
  return queryOptions({
    queryKey: ['deliveries', 'list', app, query],
    queryFn: () =>
      (app
        ? ok(api.GET('/api/v1/app/{app_id}/delivery', { params: { path: { app_id: app }, query: all } }))
        : ok(api.GET('/api/v1/delivery', { params: { query: all } }))) as Promise<Page<Delivery>>,
  });
};

export const attemptsQuery = (app: string, msg: string, ep: string) =>
  queryOptions({
    queryKey: ['attempts', 'message', app, msg, ep],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/attempt/msg/{msg_id}', {
          params: {
            path: { app_id: app, msg_id: msg },
            query: { endpoint_id: ep, limit: 250, expanded_statuses: true },
          },
        }),
      ) as Promise<Page<Attempt>>,
    placeholderData: undefined,
  });

/** One attempt, with its request. Lists leave requests out. */
export const attemptQuery = (app: string, msg: string, attempt: string) =>
  queryOptions({
    queryKey: ['attempts', 'one', app, msg, attempt],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}', {
          params: { path: { app_id: app, msg_id: msg, attempt_id: attempt }, query: { expanded_statuses: true } },
        }),
      ) as Promise<Attempt>,
    staleTime: 10_000,
    placeholderData: undefined,
  });

export const endpointAttemptsQuery = (
  app: string,
  ep: string,
  query: {
    limit: number;
    iterator?: string;
    status?: number;
    with_msg?: boolean;
    with_content?: boolean;
    after?: string;
    before?: string;
  },
) =>
  queryOptions({
    queryKey: ['attempts', 'endpoint', app, ep, query],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id}', {
          params: { path: { app_id: app, endpoint_id: ep }, query },
        }),
      ) as Promise<Page<Attempt>>,
  });

export const endpointsQuery = (app: string, iterator?: string, limit = PAGE_ROWS) =>
  queryOptions({
    queryKey: ['endpoints', app, iterator, limit],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/endpoint', { params: { path: { app_id: app }, query: { limit, iterator } } }),
      ) as Promise<Page<Endpoint>>,
    enabled: app !== '',
  });

/** The endpoints of all applications. */
export const allEndpointsQuery = (iterator?: string) =>
  queryOptions({
    queryKey: ['endpoints', 'all', iterator],
    queryFn: () =>
      raw<Page<PlacedEndpoint>>('GET', '/api/v1/endpoint', { query: { limit: String(PAGE_ROWS), iterator } }),
  });

export const filterTestQuery = (app: string, ep: string, msg: string) =>
  queryOptions({
    queryKey: ['endpoints', 'filter', app, ep, msg],
    queryFn: () =>
      raw<FilterTest>('POST', `/api/v1/app/${encodeURIComponent(app)}/endpoint/${ep}/filter/test`, {
        body: { msgId: msg },
      }),
    staleTime: 60_000,
    retry: false,
  });

export const endpointQuery = (app: string, ep: string) =>
  queryOptions({
    queryKey: ['endpoints', 'one', app, ep],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/endpoint/{endpoint_id}', { params: { path: { app_id: app, endpoint_id: ep } } }),
      ) as Promise<Endpoint>,
    staleTime: 10_000,
    placeholderData: undefined,
  });

export const endpointStatsQuery = (app: string, ep: string, since?: number) =>
  queryOptions({
    // The start is rounded to a minute, so that a poll finds its cached answer.
    queryKey: ['attempts', 'stats', app, ep, since],
    queryFn: () =>
      ok(
        api.GET('/api/v1/app/{app_id}/endpoint/{endpoint_id}/stats', {
          params: {
            path: { app_id: app, endpoint_id: ep },
            query: { since: since === undefined ? undefined : new Date(Date.now() - since).toISOString() },
          },
        }),
      ),
    staleTime: 15_000,
  });

export const eventTypesQuery = (archived = false) =>
  queryOptions({
    queryKey: ['eventTypes', archived],
    queryFn: () =>
      ok(
        api.GET('/api/v1/event-type', {
          params: { query: { limit: 250, include_archived: archived, with_content: true } },
        }),
      ),
    staleTime: 30_000,
  });

export const backgroundTaskQuery = (id: string) =>
  queryOptions({
    queryKey: ['bulk', 'one', id],
    queryFn: () =>
      ok(
        api.GET('/api/v1/background-task/{task_id}', { params: { path: { task_id: id } } }),
      ) as Promise<BackgroundTask>,
    refetchInterval: (query) => (query.state.data?.status === 'running' ? 1000 : false),
    placeholderData: undefined,
  });

/** A change, after which every query of `nouns` is read again. */
export function useChange<A, R>(run: (input: A) => Promise<R>, nouns: string[], done?: (result: R, input: A) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: run,
    onSuccess: (result, input) => {
      for (const noun of nouns) void client.invalidateQueries({ queryKey: [noun] });
      done?.(result, input);
    },
  });
}

/**
 * Holds back new rows while the person looks at old ones: a list must not move under the pointer. Returns the rows to
 * show, and how many new ones wait.
 */
export function useHeld<T>(
  rows: T[] | undefined,
  id: (row: T) => string,
  hold: boolean,
): { rows: T[] | undefined; waiting: number; release: () => void } {
  const [held, setHeld] = useState(rows);
  const known = new Set(held?.map(id));
  const waiting = hold && held ? (rows ?? []).filter((row) => !known.has(id(row))).length : 0;
  useEffect(() => {
    if (!hold) setHeld(rows);
  }, [hold, rows]);
  if (!hold || !held) return { rows, waiting: 0, release: () => undefined };
  // Values of visible rows change in place.
  const fresh = new Map((rows ?? []).map((row) => [id(row), row]));
  return { rows: held.map((row) => fresh.get(id(row)) ?? row), waiting, release: () => setHeld(rows) };
}
