// Dead deliveries in groups: one decision for each endpoint and class of error. Pure.

export type Dead = {
  appId: string;
  endpointId: string;
  eventType: string;
  msgId: string;
  timestamp: string;
  lastAttempt?: { class: string; status: number; timestamp: string } | null;
};
export type Group<T> = {
  id: string;
  appId: string;
  endpointId: string;
  label: string;
  class: string;
  status: number;
  rows: T[];
  last: number;
};

/** Groups deliveries by endpoint and result, the largest group first. */
export function groupDead<T extends Dead>(rows: T[], by: 'endpoint' | 'type'): Group<T>[] {
  const groups = new Map<string, Group<T>>();
  for (const row of rows) {
    const status = row.lastAttempt?.status ?? 0;
    const name = row.lastAttempt?.class ?? 'unknown';
    const result = status > 0 ? String(status) : name;
    const id = by === 'endpoint' ? `${row.appId}/${row.endpointId}/${result}` : row.eventType;
    const label = by === 'endpoint' ? row.endpointId : row.eventType;
    const group = groups.get(id) ?? {
      id,
      appId: row.appId,
      endpointId: row.endpointId,
      label,
      class: name,
      status,
      rows: [],
      last: 0,
    };
    group.rows.push(row);
    group.last = Math.max(group.last, Date.parse(row.lastAttempt?.timestamp ?? row.timestamp));
    groups.set(id, group);
  }
  return [...groups.values()].sort((a, b) => b.rows.length - a.rows.length || b.last - a.last);
}

/** Counts of the last 24 hours, by hour, oldest first. */
export function hourly(times: number[], now: number): number[] {
  const counts = Array.from({ length: 24 }, () => 0);
  for (const at of times) {
    const ago = Math.floor((now - at) / 3_600_000);
    if (ago >= 0 && ago < 24) counts[23 - ago] = (counts[23 - ago] ?? 0) + 1;
  }
  return counts;
}
