import { expect, it } from 'vitest';
import { groupDead, hourly } from './groups';

const row = (endpointId: string, status: number, name = 'status', eventType = 'a') => ({
  appId: 'app',
  endpointId,
  eventType,
  msgId: Math.random().toString(),
  timestamp: '2026-01-01T00:00:00Z',
  lastAttempt: { class: name, status, timestamp: '2026-01-01T00:10:00Z' },
});

it('groups by endpoint and result, largest first', () => {
  const rows = [row('e1', 503), row('e2', 0, 'timeout'), row('e2', 0, 'timeout'), row('e2', 503)];
  expect(groupDead(rows, 'endpoint').map((group) => [group.endpointId, group.class, group.rows.length])).toEqual([
    ['e2', 'timeout', 2],
    ['e1', 'status', 1],
    ['e2', 'status', 1],
  ]);
  expect(groupDead(rows, 'type').map((group) => [group.label, group.rows.length])).toEqual([['a', 4]]);
});

it('counts by hour', () => {
  const now = 100 * 3_600_000;
  const counts = hourly([now, now - 3_600_000, now - 3_600_001, now - 25 * 3_600_000], now);
  expect([counts.length, counts[23], counts[22], counts.reduce((a, b) => a + b)]).toEqual([24, 1, 2, 3]);
});
