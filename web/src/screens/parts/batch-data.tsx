// Reads and the bar of batches.

import { queryOptions } from '@tanstack/react-query';
import { api, ok } from '../../api/client';
import type { Batch, Page } from '../../api/types';
import type { Shown } from '../../lib/state';
import { count } from '../../lib/text';

export const batchesQuery = (iterator?: string) =>
  queryOptions({
    queryKey: ['batches', 'list', iterator],
    queryFn: () =>
      ok(api.GET('/api/v1/batch', { params: { query: { limit: 50, iterator, order: 'descending' } } })) as Promise<
        Page<Batch>
      >,
  });

export const batchQuery = (id: string) =>
  queryOptions({
    queryKey: ['batches', 'one', id],
    queryFn: () => ok(api.GET('/api/v1/batch/{batch_id}', { params: { path: { batch_id: id } } })) as Promise<Batch>,
    placeholderData: undefined,
  });

export function batchState(batch: Batch): Shown {
  if (batch.announced === 'completed') return { look: 'delivered', word: 'Completed' };
  if (batch.announced === 'failed') return { look: 'dead', word: 'Failed' };
  return batch.state === 'open' ? { look: 'pending', word: 'Open' } : { look: 'leased', word: 'Sealed' };
}

const parts = [
  ['succeeded', '--delivered'],
  ['pending', '--pending'],
  ['dead', '--dead'],
  ['skipped', '--inert'],
  ['cancelled', '--inert'],
] as const;

export const totalOf = (batch: Batch): number => parts.reduce((sum, [name]) => sum + batch.counts[name], 0);

/** Jobs by state, as one bar. */
export function BatchBar({ batch }: { batch: Batch }) {
  const total = Math.max(1, totalOf(batch));
  const text = parts
    .filter(([name]) => batch.counts[name] > 0)
    .map(([name]) => `${count(batch.counts[name])} ${name}`)
    .join(', ');
  return (
    <span className="meter" role="img" aria-label={text || 'no jobs'}>
      {parts
        .filter(([name]) => batch.counts[name] > 0)
        .map(([name, color]) => (
          <i
            key={name}
            style={{ ['--w' as string]: `${(batch.counts[name] / total) * 100}%`, ['--c' as string]: `var(${color})` }}
          />
        ))}
    </span>
  );
}
