import { describe, expect, it } from 'vitest';
import { foldedBelow, parseLossless, toText, treeLines } from './json';

const text = (value: unknown, shut = new Set<string>()) =>
  treeLines(value, shut).map((line) => ' '.repeat(line.depth) + line.tokens.map((token) => token.text).join(''));

describe('payloads', () => {
  it('keeps the digits of numbers', () => {
    const source = '{"a":12345678901234567890,"b":1.10,"c":1e5}';
    expect(text(parseLossless(source))).toEqual(['{', ' "a": 12345678901234567890,', ' "b": 1.10,', ' "c": 1e5', '}']);
    expect(toText(parseLossless(source), 0)).toBe(source);
  });
  it('folds by path', () => {
    const value = { a: { b: 1 }, 'x y': [1, 2], e: [] };
    expect(text(value, new Set(['$.a', '$["x y"]']))).toEqual([
      '{',
      ' "a": { … },  1 key',
      ' "x y": [ … ],  2 items',
      ' "e": []',
      '}',
    ]);
    expect([...foldedBelow({ a: { b: { c: 1 } } }, 2)]).toEqual(['$.a.b']);
  });
  it('leaves markup as text', () => {
    expect(text({ '<img onerror=x>': '</script>' })).toEqual(['{', ' "<img onerror=x>": "</script>"', '}']);
  });
  it('gives up on text that is not JSON', () => expect(parseLossless('<html>')).toBeUndefined());
});
