import { expect, it, vi } from 'vitest';
import { eventNames, throttled } from './live';

it('reads the names of events', () => {
  expect(eventNames('retry: 5000\nevent: ready\ndata: {}\n\n: alive\n\nevent: change\nda')).toEqual({
    names: ['ready'],
    rest: 'event: change\nda',
  });
  expect(eventNames('event: change\ndata: {}\n\nevent: end\ndata: {}\n\n').names).toEqual(['change', 'end']);
  expect(eventNames('')).toEqual({ names: [], rest: '' });
});

it('runs at once, and then once in its time', () => {
  vi.useFakeTimers();
  const run = vi.fn();
  const hint = throttled(run, 1000);
  hint();
  hint();
  hint();
  expect(run).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(1000);
  expect(run).toHaveBeenCalledTimes(2);
  vi.advanceTimersByTime(5000);
  expect(run).toHaveBeenCalledTimes(2);
  vi.useRealTimers();
});
