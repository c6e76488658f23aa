import { describe, expect, it } from 'vitest';
import { rank } from './rank';

describe('rank', () => {
  it('puts the beginning of an entry first, then the beginning of a word', () => {
    expect(rank('Osprey Outdoor osprey-outdoor', 'os')).toBeGreaterThan(rank('go Once-slots os', 'os'));
    expect(rank('messages Osprey', 'osp')).toBeGreaterThan(rank('hospital', 'osp'));
  });

  it('needs every word', () => {
    expect(rank('messages Osprey Outdoor', 'osprey mess')).toBeGreaterThan(0);
    expect(rank('messages Osprey Outdoor', 'osprey dead')).toBe(0);
  });

  it('does not match letters in any order, nor read the words as a pattern', () => {
    expect(rank('go Schedules', 'os')).toBe(0);
    expect(rank('https://example.com/a+b(c', 'b(c')).toBeGreaterThan(0);
  });

  it('lists everything before a word is typed', () => {
    expect(rank('anything', ' ')).toBe(1);
  });
});
