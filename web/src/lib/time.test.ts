import { describe, expect, it } from 'vitest';
import { ago, clock, duration, fraction, fromInput, fullTime, listTime, remaining, toInput } from './time';

const at = Date.parse('2026-11-16T09:42:07.318Z');

describe('times', () => {
  it('shows the clock today and the day before', () => {
    expect(listTime(at, at + 1000, 'utc')).toBe('09:42:07');
    expect(listTime(at - 3 * 86_400_000, at, 'utc')).toBe('13 Nov 09:42');
    expect(fullTime(Date.parse('2025-01-02T03:04:05Z'), at, 'utc')).toBe('2 Jan 2025 03:04:05 UTC');
    expect(clock(at, 'utc') + fraction(at)).toBe('09:42:07.318');
  });
  it('uses two units for durations', () => {
    const table: [number, string][] = [
      [12, '12 ms'],
      [1500, '1.5 s'],
      [2000, '2 s'],
      [59_000, '59 s'],
      [408_000, '6 m 48 s'],
      [7_200_000, '2 h'],
      [16_620_000, '4 h 37 m'],
      [180_000_000, '2 d 2 h'],
    ];
    for (const [ms, text] of table) expect(duration(ms)).toBe(text);
  });
  it('never counts below zero', () => {
    expect(remaining(at + 1500, at)).toBe('2 s');
    expect(remaining(at, at)).toBe('due now');
    expect(remaining(at - 60_000, at)).toBe('due now');
  });
  it('names past and future', () => {
    expect(ago(at - 29 * 60_000, at)).toBe('29 min ago');
    expect(ago(at + 4 * 3_600_000, at)).toBe('in 4 h');
    expect(ago(at, at)).toBe('now');
  });
  it('round-trips the inputs', () => {
    expect(toInput(at, 'utc')).toBe('2026-11-16T09:42');
    expect(fromInput('2026-11-16T09:42', 'utc')).toBe(Date.parse('2026-11-16T09:42:00Z'));
    expect(fromInput(toInput(at, 'local'), 'local')).toBe(at - (at % 60_000));
    expect(fromInput('soon', 'utc')).toBeNull();
  });
});
