// Cron rules in words. The library is loaded with the first rule.

import { useQuery } from '@tanstack/react-query';
import { duration } from '../../lib/time';

export function CronText({ cron, every }: { cron?: string | null; every?: number | null }) {
  const { data } = useQuery({
    queryKey: ['cron', cron],
    queryFn: async () => {
      const { default: cronstrue } = await import('cronstrue');
      try {
        return cronstrue.toString(cron ?? '', { use24HourTimeFormat: true });
      } catch {
        return cron ?? '';
      }
    },
    enabled: Boolean(cron),
    staleTime: Infinity,
  });
  if (every) return <>Every {duration(every * 1000)}</>;
  return <>{data ?? cron}</>;
}
