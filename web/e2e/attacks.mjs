// Payloads that try to run code, in everything that a customer or a receiver can write. Nothing may run.

import { base, call, check, settled, until } from './world.mjs';

const corpus = [
    `<script>window.__xss=1</script>`,
    `"><img src=x onerror="window.__xss=1">`,
    `'><svg/onload=window.__xss=1>`,
    `</textarea><script>window.__xss=1</script>`,
    `javascript:window.__xss=1//`,
    `{{constructor.constructor('window.__xss=1')()}}`,
    `\${window.__xss=1}`,
    `<iframe srcdoc="<script>parent.__xss=1</script>">`,
    `<math><mtext></form><form><mglyph><style></math><img src onerror=window.__xss=1>`,
    `</title><script>window.__xss=1</script>`,
    `\u202e<b onmouseover=window.__xss=1>x</b>`,
    `<a href="javascript:window.__xss=1" id=xss-link>link</a>`,
    `<style>@import 'https://attacker.example/x.css'</style>`,
    `<base href="https://attacker.example/">`,
];
const all = corpus.join('\n');

async function attempt(problems, what, work) {
    try {
        return await work();
    } catch (error) {
        // The server may refuse a name; then it cannot be shown.
        if (!/ 4\d\d /.test(String(error))) problems.push(`${what}: ${error}`);
        return null;
    }
}

async function clean(page, where) {
    const found = await page.evaluate(() => ({
        ran: window.__xss,
        foreign: [
            ...document.querySelectorAll(
                'img[src="x"], iframe, base, svg[onload], style:not([data-vite-dev-id]), #xss-link, [onerror], [onload], [onmouseover]',
            ),
        ].map((node) => node.outerHTML.slice(0, 120)),
        links: [...document.querySelectorAll('a[href]')]
            .map((link) => link.getAttribute('href'))
            .filter((href) => /^\s*(javascript|data|vbscript):/i.test(href)),
        scripts: [...document.scripts].filter((script) => !script.src.startsWith(location.origin)).length,
    }));
    check(found.ran === undefined, `${where}: code of a customer ran`);
    check(found.foreign.length === 0, `${where}: markup of a customer became elements: ${found.foreign.join(' ')}`);
    check(found.links.length === 0, `${where}: a link runs code: ${found.links.join(' ')}`);
    check(found.scripts === 0, `${where}: a foreign script element`);
}

async function markup_of_customers_and_receivers_stays_text({ page, receiver, signIn, shot, problems }) {
    const name = corpus.slice(0, 4).join(' ').slice(0, 200);
    const app = await call('POST', '/app', { name });
    const path = `/attack-${Date.now()}`;
    receiver.answer(path, {
        status: 500,
        headers: { 'content-type': 'text/html', 'x-attack': corpus[1], server: corpus[2], 'x-request-id': corpus[0] },
        body: all,
    });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, {
        url: receiver.url(`${path}?q=%22%3E%3Cscript%3Ewindow.__xss%3D1%3C/script%3E`),
        description: all.slice(0, 500),
        filter: `eventType == "attack.sent" || eventType == ${JSON.stringify(corpus[0])}`,
    });
    await call('PUT', '/portal-settings', {
        name: corpus[1].slice(0, 64),
        backUrl: 'https://example.com/"><script>window.__xss=1</script>',
    });
    const payload = Object.fromEntries(corpus.map((text, index) => [`${text} ${index}`, { [text]: [text, all] }]));
    const message = await call('POST', `/app/${app.id}/msg`, { eventType: 'attack.sent', payload });
    const queue = await attempt(
        problems,
        'queue',
        async () =>
            (await call('POST', '/job', {
                queue: 'attack',
                kind: 'attack.run',
                name: corpus[1],
                payload,
                tags: ['attack'],
            })) && 'attack',
    );
    await attempt(problems, 'type', () =>
        call('POST', '/event-type', { name: `attack.t${Date.now()}`, description: all, groupName: 'attack' }),
    );
    const alert = `attack-${Date.now()}`;
    await call('POST', '/operational-webhook/endpoint', {
        url: receiver.url('/attack-alert'),
        description: all.slice(0, 500),
    });
    await call('POST', '/alert', { name: alert, signal: 'dead', threshold: 9000, description: all.slice(0, 900) });
    await call('PUT', '/chat-app/wecom', { clientId: corpus[2], secret: 'not-a-secret', agentId: 1 });
    await call('POST', '/key', { name: corpus[1], scope: 'read' });
    const batch = await call('POST', '/batch', { application: app.id, name: corpus[1], prefix: 'attack' });
    const worker = await call('POST', '/worker', { name: corpus[0].slice(0, 60), queues: ['attack'] });
    const job = (await call('POST', `/worker/${worker.id}/lease`, { limit: 1 })).data[0];
    if (job)
        await call('POST', `/job/${job.id}/fail`, { workerId: worker.id, epoch: job.epoch, error: all, log: corpus });
    await until(
        'an attempt failed',
        async () => (await call('GET', `/app/${app.id}/attempt/msg/${message.id}`)).data.length > 0,
    );

    await signIn();
    const object = `/apps/${app.id}/messages/${message.id}`;
    const pages = [
        '/overview',
        '/messages',
        '/endpoints',
        '/settings',
        `/messages?open=${app.id}/${message.id}`,
        `/messages?app=${app.id}`,
        `/messages?app=${app.id}&open=${message.id}`,
        object,
        `${object}?view=raw`,
        `${object}/endpoints/${endpoint.id}`,
        `/endpoints?app=${app.id}`,
        ...['health', 'deliveries', 'policy', 'settings', 'secret', 'test'].map(
            (tab) => `/apps/${app.id}/endpoints/${endpoint.id}/${tab}`,
        ),
        '/alerts',
        `/alerts?open=${alert}`,
        '/alerts?tab=endpoints',
        '/settings?tab=chat',
        '/keys',
        '/audit',
        '/batches',
        `/batches/${batch.id}`,
        '/dead',
        '/apps',
        `/apps/${app.id}`,
        `/apps/${app.id}?tab=policy`,
        '/event-types',
        '/jobs',
        job ? `/jobs/${job.id}` : '/jobs',
        `/jobs?open=${job?.id ?? ''}`,
        '/queues',
        `/queues/${queue ?? ''}`,
        // Values of the address bar are attacker-controlled, too.
        `/messages?app=${app.id}&text=${encodeURIComponent(corpus[1])}`,
        `/messages?app=${encodeURIComponent(corpus[1])}&tag=${encodeURIComponent(corpus[0])}`,
        `/jobs?error=${encodeURIComponent(corpus[2])}`,
        `/queues/${encodeURIComponent(corpus[1])}`,
        `/sign-in?next=javascript:window.__xss=1`,
    ];
    for (const at of pages) {
        await page.goto(base + at);
        await page.locator('main').first().waitFor();
        await settled(page);
        await clean(page, at);
    }
    await page.goto(`${base}${object}/endpoints/${endpoint.id}`);
    await page.getByText('<script>window.__xss=1</script>').first().waitFor();
    await page.locator('.hdrs').getByText(corpus[2]).waitFor();
    await shot('reply-as-text');

    const portal = await call('POST', `/auth/app-portal-access/${app.id}`, {});
    const { pathname, hash } = new URL(portal.url);
    await page.goto(base + pathname + hash);
    await page.getByRole('heading', { name: 'Endpoints' }).waitFor();
    await clean(page, 'portal');
    await page.goto(`${base}${pathname}/logs`);
    await page.getByRole('button', { name: 'attack.sent' }).first().click();
    await page.getByRole('dialog').getByText('<script>window.__xss=1</script>').first().waitFor();
    await clean(page, 'portal log');
    await call('PUT', '/portal-settings', {});
    await call('DELETE', `/worker/${worker.id}`);
    await call('DELETE', `/app/${app.id}`);
}

async function requests_without_the_csrf_token_are_refused({ page, signIn }) {
    await signIn();
    const status = await page.evaluate(() =>
        fetch('/api/v1/app', {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: '{"name":"csrf"}',
        }).then((answer) => answer.status),
    );
    check(status === 403, `a change without the token gets 403, not ${status}`);
    const cookie = await page.evaluate(() => document.cookie);
    check(!cookie.includes('everhook_session'), 'scripts do not see the cookie');
}

async function pages_have_a_strict_policy({ page, base: address }) {
    const answer = await page.goto(`${address}/sign-in`);
    const headers = answer.headers();
    const policy = headers['content-security-policy'] ?? '';
    check(policy.includes("default-src 'none'") && !policy.includes('unsafe'), `a strict policy, not ${policy}`);
    check(policy.includes("frame-ancestors 'none'"), 'no frames around the dashboard');
    check(headers['x-content-type-options'] === 'nosniff', 'nosniff');
}

export default [
    markup_of_customers_and_receivers_stays_text,
    requests_without_the_csrf_token_are_refused,
    pages_have_a_strict_policy,
];
