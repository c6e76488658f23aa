import { expect, it } from 'vitest';
import { targetOf } from './ids';

it('knows the screen of an id', () => {
  expect(targetOf(' msg_2yHbT1mSDzZqCBtLaB3vMCgW4zRf ', 'app_1')).toMatchObject({
    kind: 'Message',
    params: { app: 'app_1', msg: 'msg_2yHbT1mSDzZqCBtLaB3vMCgW4zRf' },
    needsApp: true,
  });
  expect(targetOf('job_2yHbT1mSDzZqCBtLaB3v', '')?.to).toBe('/jobs/$job');
  expect(targetOf('payment.succeeded', '')).toBeNull();
  expect(targetOf('constructor_aaaaaaaaaaaaaaaa', '')).toBeNull();
});
