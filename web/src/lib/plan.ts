// The attempts that a waiting delivery still has, if all of them fail. Pure.

import { delaysOf, type Backoff } from './policy';

export type RetryRules = { backoff: Backoff; maxAttempts: number; retryBudget?: number | string | null };
export type Planned = { attempt: number; at: number };

/**
 * The planned attempts from the next one on. `tries` are the attempts that the policy has counted, `next` is the time of
 * the next attempt. Later times are means: each delay has its jitter, and a receiver may ask for more patience.
 */
export function planned({ backoff, maxAttempts, retryBudget }: RetryRules, tries: number, next: number): Planned[] {
  const budget = typeof retryBudget === 'number' ? retryBudget + 1 : Infinity;
  const delays = delaysOf(backoff, Math.min(maxAttempts, budget));
  // An attempt that is waiting is made, even if the policy has become shorter meanwhile.
  const list: Planned[] = [{ attempt: tries + 1, at: next }];
  let at = next;
  for (let attempt = tries + 2; attempt <= delays.length; attempt += 1) {
    at += (delays[attempt - 1] ?? 0) * 1000;
    list.push({ attempt, at });
  }
  return list;
}
