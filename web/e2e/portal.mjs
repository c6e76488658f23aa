// The consumer portal.

import { base, call, check, until } from './world.mjs';

const pathOf = (url) => {
    const { pathname, hash } = new URL(url);
    return base + pathname + hash;
};

async function portal_manages_endpoints_with_the_token_of_one_application({ page, receiver, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Osprey Outdoor', uid: 'osprey-portal' });
    const { url, token } = await call('POST', `/auth/app-portal-access/${app.id}`, {});
    await page.goto(pathOf(url));
    await page.getByRole('heading', { name: 'Endpoints' }).waitFor();
    check(!page.url().includes(token.slice(0, 20)), 'the token left the address bar');
    const path = `/portal-${Date.now()}`;
    await page.getByRole('button', { name: 'Add endpoint' }).first().click();
    await page.getByRole('dialog').getByLabel('URL').fill(receiver.url(path));
    await page.getByRole('dialog').getByRole('button', { name: 'Add endpoint' }).click();
    await page.waitForURL(/endpoints\/ep_/);
    await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: { id: 'inv_1' } });
    await until('the receiver got the message', () => receiver.seen(path).length > 0);
    await page.getByText('Delivered', { exact: true }).first().waitFor();
    await shot('endpoint');
    const seen = receiver.seen(path).length;
    await page.getByRole('button', { name: 'Resend' }).first().click();
    await until('the message was sent again', () => receiver.seen(path).length > seen);
    await page.getByRole('link', { name: 'Logs' }).click();
    await page.getByRole('button', { name: 'invoice.paid' }).first().click();
    await page.getByRole('dialog').getByText('webhook-id').waitFor();
    await shot('log');
}

async function read_only_portal_has_no_button_and_no_secret({ page, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Osprey Outdoor', uid: 'osprey-portal' });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: 'https://example.com/read-only' });
    const { url } = await call('POST', `/auth/app-portal-access/${app.id}`, { capabilities: ['ViewBase'] });
    await page.goto(pathOf(url));
    await page.getByRole('heading', { name: 'Endpoints' }).waitFor();
    check((await page.getByRole('button', { name: 'Add endpoint' }).count()) === 0, 'no button adds an endpoint');
    await page.goto(`${base}/portal/${app.id}/endpoints/${endpoint.id}`);
    await page.getByText('Recent deliveries').waitFor();
    for (const name of [
        'Edit',
        'Send test event',
        'Rotate',
        'Reveal the secret',
        'Recover failed',
        'Delete endpoint',
    ]) {
        check((await page.getByRole('button', { name }).count()) === 0, `no button ${name}`);
    }
    await shot('read-only');
    await call('DELETE', `/app/${app.id}/endpoint/${endpoint.id}`);
}

async function portal_without_a_token_says_what_to_do({ page }) {
    await page.goto(`${base}/portal/app_1srOrx2ZWZBpBUvZwXKQmoEYga2`);
    await page.getByText('Open this page again').waitFor();
}

export default [
    portal_manages_endpoints_with_the_token_of_one_application,
    read_only_portal_has_no_button_and_no_secret,
    portal_without_a_token_says_what_to_do,
];
