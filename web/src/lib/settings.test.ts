import { expect, it } from 'vitest';
import { draftError, draftOf, rules, settingText, valueOf, type Rule } from './settings';

const rule = (key: string) => rules.find((one) => one.key === key) as Rule;

it('says settings in words', () => {
  expect(settingText('rate', { count: 10, seconds: 1 })).toBe('10 per second');
  expect(settingText('rate', { count: 30, seconds: 60 })).toBe('30 in 1 min');
  expect(settingText('rate', null)).toBe('no limit');
  expect(settingText('ordering', 'endpoint')).toBe('all deliveries');
  expect(settingText('ordering', { key: '/customerId' })).toBe('by /customerId');
  expect(settingText('disableAfterSeconds', 432_000)).toBe('5 d');
  expect(settingText('disableAfterSeconds', 'none')).toBe('never');
  expect(settingText('paused', true)).toBe('yes');
  expect(settingText('keepReplies', true)).toBe('stored, up to 16 KiB');
  expect(settingText('laterSetting', { a: 1 })).toBe('{"a":1}');
});

it('keeps a value through its form', () => {
  const check = (key: string, value: unknown) =>
    expect(valueOf(rule(key), draftOf(rule(key), value, null))).toEqual(value);
  check('rate', { count: 10, seconds: 1 });
  check('rate', 'none');
  check('concurrency', 4);
  check('ordering', 'endpoint');
  check('ordering', { key: '/customer/id' });
  check('onDead', 'block');
  check('retryBudget', 0);
  check('breaker', { failurePercent: 50, minAttempts: 20, windowSeconds: 60, openSeconds: 30, maxOpenSeconds: 300 });
  check('keepReplies', false);
  check('whileDisabled', undefined);
});

it('starts a form from the inherited value', () => {
  const draft = draftOf(rule('rate'), undefined, { count: 5, seconds: 2 });
  expect(draft.mode).toBe('inherit');
  expect(valueOf(rule('rate'), { ...draft, mode: 'own' })).toEqual({ count: 5, seconds: 2 });
});

it('takes a JSON pointer as the key of an order', () => {
  const check = (key: string, want: string | null) =>
    expect(draftError(rule('ordering'), { mode: 'own', parts: { key } })).toBe(want);
  check('', 'Key is required');
  check('customerId', 'Key must be a JSON pointer, such as /customerId');
  check('/a~2', 'Key must have ~0 for ~ and ~1 for / in a name');
  check('/customer/0/a~1b', null);
});

it('refuses a form without its values', () => {
  expect(draftError(rule('concurrency'), { mode: 'own', parts: { '': 'many' } })).toBe(
    'Attempts at once must be a whole number',
  );
  expect(draftError(rule('legacySignature'), { mode: 'own', parts: {} })).toBe('Header is required');
  expect(draftError(rule('ordering'), { mode: 'inherit', parts: {} })).toBeNull();
});
