import { expect, it } from 'vitest';
import { endOf, grantable, scopeText } from './keys';

it('grants no more than the own scope', () => {
  expect(grantable('operate').map(([name]) => name)).toEqual(['read', 'write', 'operate']);
  expect(grantable('admin')).toHaveLength(4);
  expect(scopeText('write')).toBe('Write');
});

it('computes the end of a key', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  expect(endOf('', '', now)).toBeUndefined();
  expect(endOf('30', '', now)).toBe('2026-01-31T00:00:00.000Z');
  expect(endOf('at', '2026-02-01T00:00Z', now)).toBe('2026-02-01T00:00:00.000Z');
  expect(endOf('at', '2025-02-01T00:00Z', now)).toBeNull();
  expect(endOf('at', 'soon', now)).toBeNull();
});
