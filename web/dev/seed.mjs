// Fills a running Everhook with applications, endpoints, messages and jobs, and starts a receiver that answers by path.
//
//   EVERHOOK_URL=… EVERHOOK_KEY=… node dev/seed.mjs

import { createServer } from 'node:http';

const base = `${process.env.EVERHOOK_URL ?? 'http://127.0.0.1:8071'}/api/v1`;
const key = process.env.EVERHOOK_KEY ?? '';
const port = Number(process.env.RECEIVER_PORT ?? 8191);

createServer((request, response) => {
    request.resume();
    const answers = {
        '/ok': [200, 'application/json', '{"ok":true}'],
        '/fail': [503, 'application/json', '{"error":"upstream connect error","reason":"overflow","pool":"events"}'],
        '/gone': [410, 'text/plain', 'Gone'],
        '/limit': [429, 'text/plain', 'Slow down'],
        '/html': [
            500,
            'text/html',
            '<html><script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'"></html>',
        ],
    };
    const path = Object.keys(answers).find((start) => request.url.startsWith(start)) ?? '/ok';
    const [status, type, body] = answers[path];
    const delay = path === '/ok' ? Math.random() * 60 : 20;
    setTimeout(() => response.writeHead(status, { 'content-type': type }).end(body), delay);
}).listen(port, '127.0.0.1');

async function call(method, path, body) {
    const answer = await fetch(base + path, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) console.error(method, path, answer.status, text.slice(0, 200));
    return text ? JSON.parse(text) : null;
}

const apps = ['Osprey Outdoor', 'Nimbus Travel', 'Juniper Books', 'Kestrel Bikes', 'Lumen Health', 'Halden & Sons'];
const types = [
    'payment.succeeded',
    'payment.failed',
    'payment.refunded',
    'payout.paid',
    'dispute.created',
    'invoice.paid',
    'subscription.renewed',
];
for (const name of types) {
    await call('POST', '/event-type', {
        name,
        description: `Sent when ${name.replace('.', ' was ')}`,
        groupName: name.split('.')[0],
        schemas: {
            1: {
                type: 'object',
                required: ['id', 'amount'],
                properties: { id: { type: 'string' }, amount: { type: 'integer' }, currency: { type: 'string' } },
                examples: [{ id: 'pay_8Kc2vTq1', amount: 12840, currency: 'EUR' }],
            },
        },
    });
}
const hook = (path) => `http://127.0.0.1:${port}${path}`;
const plans = [
    [
        ['/ok/erp', null, 'ERP bookings'],
        ['/fail/hooks/events', ['payment.succeeded', 'payment.refunded'], 'Order and refund sync'],
        ['/gone/fulfil', ['payment.succeeded'], ''],
        ['/ok/crm', ['customer.created'], 'CRM'],
    ],
    [
        ['/limit/v2/payments', null, ''],
        ['/ok/ledger', null, 'Ledger'],
    ],
    [['/ok/books', null, '']],
    [
        ['/html/kestrel', null, 'Answers with markup'],
        ['/ok/webhooks', null, ''],
    ],
    [['/ok/in', ['payment.succeeded'], '']],
    [['/ok/events', null, '']],
];
for (const name of ['customer.created'])
    await call('POST', '/event-type', { name, description: 'Sent when a customer was created' });
const ids = [];
for (const [index, name] of apps.entries()) {
    const app = await call('POST', '/app?get_if_exists=true', {
        name,
        uid: name.toLowerCase().replace(/[^a-z]+/g, '-'),
    });
    ids.push(app.id);
    const have = await call('GET', `/app/${app.id}/endpoint`);
    if (have.data.length === 0) {
        for (const [path, eventTypes, description] of plans[index]) {
            const policy =
                path.startsWith('/html') || path.startsWith('/limit') ? { retry: { backoff: [1, 1] } } : undefined;
            await call('POST', `/app/${app.id}/endpoint`, {
                url: hook(path),
                description,
                eventTypes: eventTypes ?? undefined,
                policy,
            });
        }
    }
}
for (let i = 0; i < Number(process.env.MESSAGES ?? 120); i += 1) {
    const app = ids[i % 3 === 0 ? 0 : i % ids.length];
    const eventType = types[(i * 5) % types.length];
    await call('POST', `/app/${app}/msg`, {
        eventType,
        eventId: i % 4 === 0 ? `pay_${Date.now()}_${i}` : undefined,
        tags: i % 3 === 0 ? ['priority', 'eu'] : undefined,
        channels: i % 7 === 0 ? ['eu'] : undefined,
        payload: {
            id: `pay_8Kc2vTq${i}`,
            object: 'payment',
            amount: 12_840 + i,
            currency: 'EUR',
            status: 'succeeded',
            captured_at: new Date().toISOString(),
            merchant: 'osprey',
            customer: { id: 'cus_51Hx', country: 'DE', email: 'l…@posteo.example' },
            method: { type: 'card', brand: 'visa', last4: '4242' },
            fees: [
                { kind: 'scheme', amount: 12 },
                { kind: 'processing', amount: 30 },
            ],
            metadata: { order: 'OO-20771', channel: 'web' },
            livemode: true,
        },
    });
}
await call('POST', `/app/${ids[0]}/msg`, {
    eventType: 'invoice.paid',
    payload: { a: '<img src=x onerror=alert(1)>', big: 1 },
    once: { key: 'invoice-42' },
});
await call('POST', `/app/${ids[0]}/msg`, { eventType: 'invoice.paid', payload: { a: 2 }, once: { key: 'invoice-42' } });

const batch = await call('POST', '/batch', { application: ids[0], name: 'October statements', prefix: 'statements' });
const kinds = [
    ['settlements', 'settle.batch'],
    ['emails', 'receipt.send'],
    ['rates', 'fx.pull'],
    ['statements', 'statement.render'],
    ['risk', 'score.transaction'],
];
for (let i = 0; i < 40; i += 1) {
    const [queue, kind] = kinds[i % kinds.length];
    await call('POST', '/job', {
        queue,
        kind,
        name: `run ${i}`,
        payload: { run: i, scheme: 'SEPA' },
        tags: i % 2 ? ['nightly'] : [],
        delaySeconds: i > 30 ? 3600 : undefined,
        batchId: i % 10 === 3 ? batch.id : undefined,
        maxAttempts: 3,
    });
}
const worker = await call('POST', '/worker', { name: 'settle-fra-1', queues: ['emails', 'rates', 'statements'] });
for (let round = 0; round < 3; round += 1) {
    const leased = await call('POST', `/worker/${worker.id}/lease`, { limit: 20 });
    for (const [i, job] of (leased?.data ?? []).entries()) {
        const report = { workerId: worker.id, epoch: job.epoch };
        if (i % 4 === 1)
            await call('POST', `/job/${job.id}/fail`, {
                ...report,
                error: 'sftp: connection refused',
                log: ['connecting sftp.bank.example:22', 'error: connection refused', 'giving up after 1 try'],
            });
        else if (i % 6 === 2)
            await call('POST', `/job/${job.id}/progress`, { ...report, percent: 62, text: '744 of 1,200' });
        else await call('POST', `/job/${job.id}/complete`, { ...report, result: { sent: i } });
    }
}
await call('PATCH', '/queue/settlements', { limit: 20, keyLimit: 2, ratePerSecond: 50 });
await call('POST', '/queue/risk/pause');
const schedules = [
    {
        name: 'daily-settlement',
        cron: '0 2 * * *',
        timezone: 'Europe/Berlin',
        job: { queue: 'settlements', kind: 'settle.daily', payload: {} },
    },
    { name: 'fx-rates', everySeconds: 300, job: { queue: 'rates', kind: 'fx.pull', payload: {} } },
    {
        name: 'payout-files',
        cron: '20 10,15 * * 1-5',
        timezone: 'Europe/Berlin',
        overlap: 'skip',
        job: { queue: 'payout-files', kind: 'payout.file', payload: { scheme: 'SEPA' } },
    },
    {
        name: 'dispute-reminder',
        cron: '0 9 * * *',
        message: { application: ids[1], eventType: 'dispute.created', payload: { reminder: true } },
    },
];
for (const schedule of schedules) await call('POST', '/schedule', schedule);
for (let i = 0; i < 3; i += 1) await call('POST', '/schedule/fx-rates/run');
await call('POST', '/schedule/daily-settlement/pause');
await call('PATCH', '/queue/payout-files', { targetUrl: hook('/fail/payouts') });
for (let i = 0; i < 3; i += 1)
    await call('POST', '/job', { queue: 'payout-files', kind: 'payout.file', payload: { run: i }, maxAttempts: 4 });

const phone = await call('POST', '/operational-webhook/endpoint', {
    url: hook('/ok/on-call'),
    description: 'On-call phone',
});
await call('POST', '/operational-webhook/endpoint', {
    url: hook('/ok/ops-room'),
    kind: 'slack',
    description: 'Room #payments-ops',
});
await call('POST', '/alert', {
    name: 'dead-letters',
    signal: 'dead',
    threshold: 0,
    forSeconds: 0,
    destinations: [phone.id],
    description: 'Open the group in the dashboard, mend the receiver, then redrive.',
});
await call('POST', '/alert', { name: 'backlog-age', signal: 'oldest-due-age', threshold: 120 });
await call('POST', '/alert', {
    name: 'failure-rate',
    signal: 'failure-rate',
    threshold: 0.2,
    windowSeconds: 300,
    escalation: { afterSeconds: 900, destinations: [phone.id] },
});
await call('POST', '/alert', {
    name: 'risk-queue',
    signal: 'queue-depth',
    queue: 'risk',
    threshold: 5000,
    disabled: true,
});

await call('POST', `/app/${ids[0]}/endpoint`, {
    url: hook('/ok/slack'),
    kind: 'slack',
    description: 'Room #orders',
    eventTypes: ['payment.failed'],
    chat: { people: '/owner/email' },
});
await call('PUT', '/chat-app/slack', { secret: 'xoxb-not-a-token', apiUrl: hook('/ok') });
await call('PUT', '/chat-app/wecom', {
    clientId: 'ww6f1c0e5d',
    secret: 'not-a-secret',
    agentId: 1000002,
    apiUrl: hook('/ok'),
});

for (const [name, scope, days] of [
    ['Checkout service', 'write', 365],
    ['Grafana', 'read', undefined],
    ['On-call tooling', 'operate', 30],
]) {
    await call('POST', '/key', {
        name,
        scope,
        expiresAt: days && new Date(Date.now() + days * 86_400_000).toISOString(),
    });
}
const endpoints = (await call('GET', `/app/${ids[0]}/endpoint`)).data;
const since = new Date(Date.now() - 3_600_000).toISOString();
await call('POST', `/app/${ids[0]}/endpoint/${endpoints[0].id}/replay-missing`, { since });
const paused = (await call('GET', `/app/${ids[5]}/endpoint`)).data[0];
await call('PATCH', `/app/${ids[5]}/endpoint/${paused.id}`, { policy: { paused: true } });
for (let i = 0; i < 4; i += 1)
    await call('POST', `/app/${ids[5]}/msg`, { eventType: types[i], payload: { id: `pay_held_${i}`, amount: i } });
console.log('seeded; the receiver keeps running');
