import { describe, expect, it } from 'vitest';
import { planned } from './plan';

const seconds = (list: { attempt: number; at: number }[]) => list.map(({ attempt, at }) => [attempt, at / 1000]);

describe('planned', () => {
  it('goes on with the schedule after the attempts that were counted', () => {
    expect(seconds(planned({ backoff: [5, 60, 600], maxAttempts: 4 }, 2, 100_000))).toEqual([
      [3, 100],
      [4, 700],
    ]);
  });

  it('begins with the first attempt of a new delivery', () => {
    expect(seconds(planned({ backoff: [5, 60], maxAttempts: 3 }, 0, 0))).toEqual([
      [1, 0],
      [2, 5],
      [3, 65],
    ]);
  });

  it('doubles up to the cap', () => {
    expect(seconds(planned({ backoff: { baseSeconds: 10, capSeconds: 30 }, maxAttempts: 5 }, 1, 0))).toEqual([
      [2, 0],
      [3, 20],
      [4, 50],
      [5, 80],
    ]);
  });

  it('ends with the budget of retries', () => {
    expect(seconds(planned({ backoff: [5, 60, 600], maxAttempts: 4, retryBudget: 1 }, 1, 0))).toEqual([[2, 0]]);
    expect(seconds(planned({ backoff: [5], maxAttempts: 2, retryBudget: 'none' }, 0, 0))).toEqual([
      [1, 0],
      [2, 5],
    ]);
  });

  it('keeps the attempt that waits already', () => {
    expect(seconds(planned({ backoff: [5], maxAttempts: 2 }, 7, 1000))).toEqual([[8, 1]]);
  });
});
