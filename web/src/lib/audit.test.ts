import { expect, it } from 'vitest';
import { actionText, resultOf } from './audit';

it('says actions in words', () => {
  expect(actionText('v1.endpoint.rotate-secret')).toBe('endpoint: rotate secret');
  expect(actionText('v1.queue.pause')).toBe('queue: pause');
  expect(actionText('later')).toBe('later');
});

it('says results in words', () => {
  expect(resultOf({ phase: 'begun' }).word).toBe('Begun');
  expect(resultOf({ phase: 'ended', status: 204 }).word).toBe('Done');
  expect(resultOf({ phase: 'ended' }).word).toBe('Done');
  expect(resultOf({ phase: 'ended', status: 422 }).word).toBe('Refused, 422');
  expect(resultOf({ phase: 'ended', status: 503 }).look).toBe('dead');
});
