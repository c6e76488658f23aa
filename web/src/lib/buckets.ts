// Attempts as series. Pure.

import { percentile } from './retry';

export type Sample = {
  timestamp: string;
  status: number;
  class: string;
  responseStatusCode: number;
  responseDurationMs: number;
};

export type Buckets = {
  times: number[];
  success: number[];
  failures: Map<string, number[]>;
  p50: (number | null)[];
  p95: (number | null)[];
  p99: (number | null)[];
};

/** The class of a failure for charts: statuses by their hundreds, errors by their class. */
export function failureClass(sample: Pick<Sample, 'class' | 'responseStatusCode'>): string {
  const code = sample.responseStatusCode;
  if (code === 429) return '429';
  if (code >= 500) return '5xx';
  if (code >= 400) return '4xx';
  if (code >= 300) return '3xx';
  return sample.class;
}

/** Counts samples between two times in `count` steps. */
export function bucketize(samples: Sample[], from: number, to: number, count: number): Buckets {
  const step = (to - from) / count;
  const times = Array.from({ length: count }, (_, index) => Math.round((from + index * step) / 1000));
  const zeros = () => Array.from({ length: count }, () => 0);
  const success = zeros();
  const failures = new Map<string, number[]>();
  const durations: number[][] = Array.from({ length: count }, () => []);
  for (const sample of samples) {
    const index = Math.floor((Date.parse(sample.timestamp) - from) / step);
    if (index < 0 || index >= count) continue;
    durations[index]?.push(sample.responseDurationMs);
    if (sample.status === 0) {
      success[index] = (success[index] ?? 0) + 1;
      continue;
    }
    const name = failureClass(sample);
    const row = failures.get(name) ?? zeros();
    row[index] = (row[index] ?? 0) + 1;
    failures.set(name, row);
  }
  const share = (part: number) => durations.map((values) => percentile(values, part));
  return { times, success, failures, p50: share(0.5), p95: share(0.95), p99: share(0.99) };
}
