// Reads and states of queues.

import { queryOptions } from '@tanstack/react-query';
import { api, ok } from '../../api/client';
import type { Page, Queue, Worker } from '../../api/types';
import type { Shown } from '../../lib/state';

export const queuesQuery = (iterator?: string) =>
  queryOptions({
    queryKey: ['queues', 'list', iterator],
    queryFn: () =>
      ok(api.GET('/api/v1/queue', { params: { query: { limit: 50, iterator, with_stats: true } } })) as Promise<
        Page<Queue>
      >,
  });

export const queueQuery = (name: string) =>
  queryOptions({
    queryKey: ['queues', 'one', name],
    queryFn: () => ok(api.GET('/api/v1/queue/{queue}', { params: { path: { queue: name } } })) as Promise<Queue>,
    placeholderData: undefined,
  });

export const workersQuery = () =>
  queryOptions({ queryKey: ['workers'], queryFn: async () => (await ok(api.GET('/api/v1/worker'))).data as Worker[] });

export function queueState(queue: Queue): Shown {
  if (queue.state === 'paused') return { look: 'paused', word: 'Paused' };
  if (queue.state === 'stopped') return { look: 'dead', word: 'Stopped' };
  const { stats, limit } = queue;
  if (stats && limit && stats.running >= limit && stats.due > 0) return { look: 'limited', word: 'At its limit' };
  return { look: 'delivered', word: 'Open' };
}
