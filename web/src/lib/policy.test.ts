import { expect, it } from 'vitest';
import { delaysOf, parseDelays, parseStatuses } from './policy';

it('lists the delays of a policy', () => {
  expect(delaysOf([5, 60], 4)).toEqual([0, 5, 60, 60]);
  expect(delaysOf({ baseSeconds: 5, capSeconds: 30 }, 5)).toEqual([0, 5, 10, 20, 30]);
  expect(delaysOf([5], 1)).toEqual([0]);
});

it('reads lists', () => {
  expect(parseDelays('5, 60 3600')).toEqual([5, 60, 3600]);
  expect(parseDelays('5, soon')).toBeNull();
  expect(parseDelays('')).toBeNull();
  expect(parseStatuses('410, 4XX')).toEqual([410, '4xx']);
  expect(parseStatuses('teapot')).toBeNull();
});
