// Ids of objects, and where they are shown. Pure.

export type Target = {
  kind: string;
  to?: string;
  params?: Record<string, string>;
  search?: Record<string, string>;
  needsApp?: boolean;
};

const kinds: Record<string, (id: string, app: string) => Target> = {
  msg: (id, app) => ({ kind: 'Message', to: '/apps/$app/messages/$msg', params: { app, msg: id }, needsApp: true }),
  ep: (id, app) => ({
    kind: 'Endpoint',
    to: '/apps/$app/endpoints/$ep/$tab',
    params: { app, ep: id, tab: 'health' },
    needsApp: true,
  }),
  app: (id) => ({ kind: 'Application', to: '/apps/$app', params: { app: id } }),
  job: (id) => ({ kind: 'Job', to: '/jobs/$job', params: { job: id } }),
  batch: (id) => ({ kind: 'Batch', to: '/batches/$id', params: { id } }),
  qtask: () => ({ kind: 'Bulk task', to: '/bulk' }),
};

/** What a pasted text names; null for words. */
export function targetOf(text: string, app: string): Target | null {
  const id = text.trim();
  const match = /^([a-z]+)_[0-9A-Za-z]{10,}$/.exec(id);
  const name = match?.[1] ?? '';
  const make = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
  return make ? make(id, app) : null;
}
