// Counts of dead tasks for badges and tabs.

import { useQuery } from '@tanstack/react-query';
import { screens } from '../capabilities';
import { count } from '../lib/text';
import { overviewQuery, usePoll } from './queries';

/** Dead deliveries and dead jobs of the environment as texts; undefined for none. The server stops counting at a bound. */
export function useDead(): { deliveries?: string; jobs?: string } {
  const totals = useQuery({
    ...overviewQuery('1h'),
    enabled: screens.overview,
    refetchInterval: usePoll(),
    staleTime: 10_000,
  }).data?.totals;
  if (!totals) return {};
  const { dead, deadJobs, countedMax = Infinity } = totals;
  const text = (number: number, capped: boolean) => (number > 0 ? `${count(number)}${capped ? '+' : ''}` : undefined);
  return { deliveries: text(dead - deadJobs, dead >= countedMax), jobs: text(deadJobs, deadJobs >= countedMax) };
}
