// The state of a bulk task.

import { Link } from '@tanstack/react-router';
import type { BackgroundTask } from '../../api/types';
import { count } from '../../lib/text';
import type { Shown } from '../../lib/state';
import { StateText } from '../../ui/atoms';
import { Meter } from '../../ui/figures';

export function taskState(task: Pick<BackgroundTask, 'status'>): Shown {
  if (task.status === 'running') return { look: 'leased', word: 'Running' };
  return task.status === 'finished' ? { look: 'delivered', word: 'Finished' } : { look: 'dead', word: 'Failed' };
}

/** The counts and the error of a task, in words. */
export function taskText(data: Record<string, unknown>): string {
  const parts = Object.entries(data).flatMap(([name, value]) => {
    const label = name.replace(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`);
    if (name === 'percent') return [`${String(value)} %`];
    if (typeof value === 'number') return [`${label} ${count(value)}`];
    if (typeof value === 'string') return [name === 'error' ? value : `${label} ${value}`];
    if (Array.isArray(value)) return [`${label} ${count(value.length)}`];
    return [];
  });
  return parts.join(' · ');
}

export function TaskProgress({ task }: { task: BackgroundTask }) {
  const { percent, ...rest } = task.data as { percent?: unknown } & Record<string, unknown>;
  return (
    <div className="callout st-leased" role="status">
      <StateText {...taskState(task)} />
      {typeof percent === 'number' && task.status === 'running' && (
        <Meter share={percent / 100} label={`${String(percent)} %`} />
      )}
      <span className="grow t2">{taskText(typeof percent === 'number' ? { percent, ...rest } : rest)}</span>
      <Link className="link" to="/bulk">
        Bulk tasks
      </Link>
    </div>
  );
}
