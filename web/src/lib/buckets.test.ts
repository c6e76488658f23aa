import { expect, it } from 'vitest';
import { bucketize, failureClass } from './buckets';

const sample = (at: number, status: number, code: number, ms = 10) => ({
  timestamp: new Date(at).toISOString(),
  status,
  class: status === 0 ? 'success' : code ? 'status' : 'timeout',
  responseStatusCode: code,
  responseDurationMs: ms,
});

it('counts attempts by step and class', () => {
  const found = bucketize(
    [sample(0, 0, 200, 5), sample(999, 2, 503, 15), sample(1000, 2, 0), sample(4000, 0, 200), sample(-1, 0, 200)],
    0,
    4000,
    4,
  );
  expect(found.times).toEqual([0, 1, 2, 3]);
  expect(found.success).toEqual([1, 0, 0, 0]);
  expect(Object.fromEntries(found.failures)).toEqual({ '5xx': [1, 0, 0, 0], timeout: [0, 1, 0, 0] });
  expect(found.p95).toEqual([15, 10, null, null]);
});

it('names classes by status', () => {
  expect(
    [429, 500, 404, 302].map((responseStatusCode) => failureClass({ class: 'status', responseStatusCode })),
  ).toEqual(['429', '5xx', '4xx', '3xx']);
  expect(failureClass({ class: 'dns', responseStatusCode: 0 })).toBe('dns');
});
