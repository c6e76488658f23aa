import { expect, test } from 'vitest';
import { phasesOf, spanText } from './phases';

const brief = (...args: Parameters<typeof phasesOf>) =>
  phasesOf(...args).map((phase) => `${phase.name} ${phase.ms}${phase.failed ? ' failed' : ''}`);

test('a reply is the steps that were measured', () => {
  expect(
    brief({ reused: false, dnsMs: 4, connectMs: 18, tlsMs: 41, firstByteMs: 236, bodyMs: 13 }, 312, 'reply'),
  ).toEqual(['DNS 4', 'Connect 18', 'TLS 41', 'First byte 236', 'Body 13']);
  expect(brief({ reused: true, firstByteMs: 2, bodyMs: 0 }, 2, 'reply')).toEqual(['First byte 2', 'Body 0']);
});

test('time that no step explains is shown', () => {
  expect(brief({ reused: true, firstByteMs: 100, bodyMs: 0 }, 300, 'reply')).toEqual([
    'First byte 100',
    'Body 0',
    'Other 200',
  ]);
});

test('a request without a reply fails in its last step or waits in vain', () => {
  expect(brief({ reused: false, connectMs: 5000 }, 5000, 'no reply')).toEqual(['Connect 5000 failed']);
  expect(brief({ reused: false, connectMs: 1 }, 15_000, 'no reply')).toEqual(['Connect 1', 'No reply 14999 failed']);
});

test('without measured steps there is one phase', () => {
  expect(brief(undefined, 12, 'reply')).toEqual(['Total 12']);
  expect(brief(null, 12, 'no reply')).toEqual(['Total 12 failed']);
});

test('short spans have fractions', () => {
  expect([0.123, 1.25, 312.4, 15_000].map(spanText)).toEqual(['0.12 ms', '1.3 ms', '312 ms', '15.0 s']);
});
