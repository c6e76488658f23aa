// The audit log: actions and results in words. Pure.

import type { Look } from './state';

/** An action such as `v1.endpoint.rotate-secret` in words: `endpoint, rotate secret`. */
export function actionText(action: string): string {
  const [noun, ...verb] = action.replace(/^v\d+\./, '').split('.');
  const words = (text: string) => text.replaceAll('-', ' ');
  return verb.length === 0 ? words(noun ?? action) : `${words(noun ?? '')}: ${words(verb.join(' '))}`;
}

/** The result of an entry. The entry before an operation has no status yet. */
export function resultOf(entry: { phase: string; status?: number | null }): { look: Look; word: string } {
  if (entry.phase === 'begun') return { look: 'leased', word: 'Begun' };
  // Commands end without a status.
  if (!entry.status || entry.status < 300) return { look: 'delivered', word: 'Done' };
  return entry.status < 500
    ? { look: 'cancelled', word: `Refused, ${entry.status}` }
    : { look: 'dead', word: `Failed, ${entry.status}` };
}
