import { expect, it } from 'vitest';
import { chatBody, chatForm, emptyChat, hasPeople, hasSecret, isChat, parseFields } from './chat';

it('knows chat platforms', () => {
  expect([isChat('slack'), isChat('http'), isChat(null), hasSecret('lark'), hasSecret('slack')]).toEqual([
    true,
    false,
    false,
    true,
    false,
  ]);
});

it('keeps a text through its form', () => {
  const chat = {
    language: 'zh',
    template: {
      title: '{{ payload.name }}',
      mentions: ['all'],
      fields: [{ name: 'Amount', value: '{{ payload.amount }}' }],
    },
    eventTypes: { 'a.b': { title: 'x' } },
  };
  expect(chatBody(chatForm(chat), chat)).toEqual(chat);
  expect(chatBody(emptyChat)).toEqual({ language: 'en', template: {} });
  expect(chatBody({ ...emptyChat, secret: ' s ' }).secret).toBe('s');
  const direct = { language: 'en', template: {}, people: '/owner/email' };
  expect(chatBody(chatForm(direct), direct)).toEqual(direct);
  expect(chatBody(emptyChat, direct).people).toBeNull();
  expect([hasPeople('slack'), hasPeople('discord')]).toEqual([true, false]);
});

it('reads fields', () => {
  expect(parseFields('Amount: {{ a }}\n\nUrl: https://x:1')).toEqual([
    { name: 'Amount', value: '{{ a }}' },
    { name: 'Url', value: 'https://x:1' },
  ]);
  expect(parseFields('no colon')).toBeNull();
  expect(parseFields('')).toEqual([]);
});
