// Retry schedules on an axis. Pure.

export type Point = { attempt: number; delay: number; after: number; x: number };

/** The position of `after` on a fourth-root axis that ends at `total`: 5 seconds and 3 days are both visible. */
export function position(after: number, total: number): number {
  return total <= 0 ? 0 : Math.pow(Math.min(after, total) / total, 0.25);
}

/** Attempts of a schedule of delays in seconds. The first attempt is at once, unless the first delay is not 0. */
export function points(delays: number[]): Point[] {
  const total = delays.reduce((sum, delay) => sum + delay, 0);
  let after = 0;
  return delays.map((delay, index) => {
    after += delay;
    return { attempt: index + 1, delay, after, x: position(after, total) };
  });
}

/** Seconds as a label: `5 s`, `5 min`, `2 h`, `1 d 8 h`. */
export function delayLabel(seconds: number): string {
  if (seconds === 0) return 'at once';
  if (seconds < 60) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 3600) return split(seconds, 60, 'min', 1, 's');
  if (seconds < 86_400) return split(seconds, 3600, 'h', 60, 'min');
  return split(seconds, 86_400, 'd', 3600, 'h');
}

function split(seconds: number, big: number, bigName: string, small: number, smallName: string): string {
  const first = Math.floor(seconds / big);
  const second = Math.round((seconds % big) / small);
  return second === 0 ? `${first} ${bigName}` : `${first} ${bigName} ${second} ${smallName}`;
}

/** Percentiles of durations; null without values. */
export function percentile(values: number[], share: number): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? null;
}
