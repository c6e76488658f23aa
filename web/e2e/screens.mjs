// Every screen of the dashboard that the data of the server allows.

import { call } from './world.mjs';

export async function first(path) {
    return (await call('GET', path)).data[0];
}

export async function paths() {
    const app = (await first('/app'))?.id;
    const list = [
        '/overview',
        '/messages',
        '/endpoints',
        '/messages?status=dead',
        '/dead',
        '/apps',
        '/event-types',
        '/jobs',
        '/queues',
        '/schedules',
        '/schedules?builtin=1',
        '/batches',
        '/alerts',
        '/alerts?tab=endpoints',
        '/bulk',
        '/nodes',
        '/outboxes',
        '/keys',
        '/audit',
        '/settings',
        '/settings?tab=policy',
        '/settings?tab=quotas',
        '/settings?tab=chat',
        '/no-such-page',
    ];
    if (!app) return list;
    // Screens of an attempted delivery show more than those of the newest objects.
    const tried = (await call('GET', `/app/${app}/delivery`)).data.filter(({ lastAttempt }) => lastAttempt);
    const delivery = tried.find(({ state }) => state !== 'succeeded') ?? tried[0];
    const message = delivery ? { id: delivery.msgId } : await first(`/app/${app}/msg`);
    const endpoint = delivery ? { id: delivery.endpointId } : await first(`/app/${app}/endpoint`);
    list.push(
        `/messages?app=${app}`,
        `/endpoints?app=${app}`,
        `/once?app=${app}`,
        `/apps/${app}`,
        `/apps/${app}?tab=policy`,
        `/apps/${app}?tab=quota`,
    );
    if (message) list.push(`/messages?app=${app}&open=${message.id}`, `/apps/${app}/messages/${message.id}`);
    if (endpoint)
        list.push(
            ...['health', 'deliveries', 'recover', 'policy', 'settings', 'secret', 'test'].map(
                (tab) => `/apps/${app}/endpoints/${endpoint.id}/${tab}`,
            ),
        );
    if (message && endpoint) list.push(`/apps/${app}/messages/${message.id}/endpoints/${endpoint.id}`);
    const chat = (await call('GET', `/app/${app}/endpoint`)).data.find(({ kind }) => kind && kind !== 'http');
    if (chat) list.push(`/apps/${app}/endpoints/${chat.id}/chat`);
    const job = await first('/job');
    if (job) list.push(`/jobs/${job.id}`, `/jobs?open=${job.id}`, `/queues/${job.queue}`);
    const schedule = await first('/schedule');
    if (schedule) list.push(`/schedules?open=${schedule.name}`);
    const batch = await first('/batch');
    if (batch) list.push(`/batches/${batch.id}`);
    return list;
}

/** Dialogs that a button of a list opens. */
export async function dialogs() {
    const app = (await first('/app'))?.id;
    return [
        [`/endpoints?app=${app}`, 'New endpoint'],
        [`/messages?app=${app}`, 'Send message'],
        ['/apps', 'New application'],
        ['/event-types', 'New event type'],
        ['/jobs', 'Enqueue job'],
        ['/schedules', 'New schedule'],
        ['/alerts', 'New alert'],
        ['/alerts?tab=endpoints', 'New alert endpoint'],
        ['/keys', 'New key'],
        ['/settings?tab=chat', 'New chat app'],
    ];
}
