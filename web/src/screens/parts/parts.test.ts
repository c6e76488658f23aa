import { describe, expect, it } from 'vitest';
import { exampleOf } from './example';
import { messageCurl } from './message-curl';
import { parseLossless } from '../../lib/json';

describe('examples', () => {
  it('prefers an example over the properties', () => {
    expect(exampleOf({ schemas: { 1: { examples: [{ a: 1 }] } } })).toBe('{\n  "a": 1\n}');
    expect(
      JSON.parse(
        exampleOf({
          schemas: {
            1: {},
            2: { properties: { id: { type: 'string' }, list: { type: 'array', items: { type: 'integer' } } } },
          },
        }) ?? '',
      ),
    ).toEqual({ id: 'text', list: [1] });
    expect(exampleOf({ schemas: null })).toBeUndefined();
  });
});

describe('copy as curl', () => {
  it('keeps digits and quotes', () => {
    const text = messageCurl('a/b', { eventType: 'x', tags: ["it's"] }, parseLossless('{"n":12345678901234567890.10}'));
    expect(text).toContain('/app/a%2Fb/msg');
    expect(text).toContain('"payload":{"n":12345678901234567890.10}');
    expect(text).toContain(`"it'\\''s"`);
    expect(text).toContain('$KEY');
  });
});
