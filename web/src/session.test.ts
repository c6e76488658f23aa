import { expect, it } from 'vitest';
import { operations } from './api/operations';
import { mayCall } from './session';

it('asks for the right of an operation', () => {
  const known = [...operations].find(([, right]) => right === 'write');
  if (known) {
    expect(mayCall({ role: 'write', rights: ['read', 'write'] }, known[0])).toBe(true);
    expect(mayCall({ role: 'read', rights: ['read'] }, known[0])).toBe(false);
  }
  expect(mayCall({ role: 'read' }, 'POST /api/v1/later')).toBe(false);
  expect(mayCall({ role: 'read' }, 'GET /api/v1/later')).toBe(true);
  expect(mayCall({ role: 'operate' }, 'POST /api/v1/later')).toBe(true);
});
