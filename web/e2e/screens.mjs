// Every screen of the dashboard that the data of the server allows.

import { call } from './world.mjs';

export async function first(path) {
  return (await call('GET', path)).data[0];
}

export async function paths() {
  const app = (await first('/app'))?.id;
  const list = ['/overview', '/messages', '/endpoints', '/messages?status=dead', '/dead', '/apps', '/event-types', '/jobs', '/queues', '/schedules', '/schedules?builtin=1', '/batches', '/alerts', '/alerts?tab=endpoints', '/bulk', '/nodes', '/outboxes', '/keys', '/audit', '/settings', '/settings?tab=policy', '/no-such-page'];
  if (!app) return list;
  const [message, endpoint] = [await first(`/app/${app}/msg`), await first(`/app/${app}/endpoint`)];
  list.push(`/messages?app=${app}`, `/endpoints?app=${app}`, `/once?app=${app}`, `/apps/${app}`, `/apps/${app}?tab=policy`);
  if (message) list.push(`/messages?app=${app}&open=${message.id}`, `/apps/${app}/messages/${message.id}`);
  if (endpoint) list.push(...['health', 'deliveries', 'recover', 'policy', 'settings', 'secret', 'test'].map((tab) => `/apps/${app}/endpoints/${endpoint.id}/${tab}`));
  if (message && endpoint) list.push(`/apps/${app}/messages/${message.id}/endpoints/${endpoint.id}`);
  const job = await first('/job');
  if (job) list.push(`/jobs/${job.id}`, `/jobs?open=${job.id}`, `/queues/${job.queue}`);
  const schedule = await first('/schedule');
  if (schedule) list.push(`/schedules?open=${schedule.name}`);
  const batch = await first('/batch');
  if (batch) list.push(`/batches/${batch.id}`);
  return list;
}
