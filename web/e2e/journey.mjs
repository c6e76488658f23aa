// From the first start to a recovered delivery.

import { base, call, check, key, until } from './world.mjs';

async function first_start_leads_to_a_delivered_message({ page, receiver, shot }) {
    const apps = await call('GET', '/app');
    await page.goto(`${base}/`);
    await page.waitForURL(/\/sign-in/);
    await shot('sign-in');
    await page.getByLabel('API key').fill('ehk_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL((url) => url.pathname !== '/sign-in');
    if (apps.data.length > 0) return;
    await page.goto(`${base}/overview`);
    await page.getByRole('heading', { name: 'Send your first webhook' }).waitFor();
    await shot('first');
    await page.getByLabel('URL of the endpoint').fill(receiver.url('/first'));
    await page.getByRole('button', { name: 'Add endpoint' }).click();
    await page.getByRole('button', { name: 'Send it for me' }).click();
    await page.waitForURL(/\/endpoints\/ep_/);
    await page.getByText('Delivered', { exact: true }).first().waitFor();
    check(receiver.seen('/first').length >= 1, 'the receiver got the message');
    await shot('delivered');
}

async function failing_endpoint_is_seen_redriven_and_recovered({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Journey', uid: 'journey' });
    await signIn();
    await page.goto(`${base}/endpoints?app=${app.id}`);
    await page.getByRole('button', { name: 'New endpoint' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Create endpoint' }).click();
    await dialog.getByText('The URL is required').waitFor();
    const path = `/journey-${Date.now()}`;
    receiver.answer(path, { status: 503, body: '{"error":"overloaded"}' });
    await dialog.getByLabel('URL').fill(receiver.url(path));
    await dialog.getByRole('button', { name: 'Create endpoint' }).click();
    await page.waitForURL(/\/endpoints\/ep_[^/]+\/test/);
    const endpoint = /ep_[0-9A-Za-z]+/.exec(page.url())[0];

    await page.goto(`${base}/messages?app=${app.id}`);
    await page.getByRole('button', { name: 'Send message' }).first().click();
    await page.getByLabel('Event type').fill('invoice.paid');
    await page.getByRole('dialog').getByLabel('Payload').fill('{"id":"inv_1","amount":12345678901234567890.10}');
    await page.getByRole('dialog').getByRole('button', { name: 'Send message' }).click();
    await page.waitForURL(/\/messages\/msg_/);
    // Digits that a JavaScript number cannot hold are shown as they were sent.
    await page.getByText('12345678901234567890.10').waitFor();
    const message = /msg_[0-9A-Za-z]+/.exec(page.url())[0];
    await until('the receiver got the first attempt', () => receiver.seen(path).length > 0);
    check(receiver.seen(path)[0].body.includes('12345678901234567890.10'), 'the payload arrived byte for byte');

    await page.getByRole('link', { name: 'Timeline' }).click();
    await page.waitForURL(/\/endpoints\/ep_/);
    await page.getByText('503 Service Unavailable').first().waitFor();
    await page.getByText('{"error":"overloaded"}').first().waitFor();
    await until('the request is shown as it was sent', async () => {
        const shown = await page.locator('.hdrs').last().innerText();
        return receiver.seen(path).some(({ headers }) => shown.includes(headers['webhook-signature']));
    });
    await shot('failing');
    await until('the delivery is dead', async () => {
        const delivery = await call('GET', `/app/${app.id}/msg/${message}/endpoint/${endpoint}`);
        if (delivery.state === 'pending')
            await call('POST', `/app/${app.id}/msg/${message}/endpoint/${endpoint}/retry-now`).catch(() => undefined);
        return delivery.state === 'dead';
    });
    await page.getByText('Dead', { exact: true }).first().waitFor();

    await page.goto(`${base}/dead?app=${app.id}`);
    await page.getByText('503').first().waitFor();
    await shot('dead');
    await page.getByRole('button', { expanded: false }).filter({ hasText: path }).click();
    await page.getByLabel(`Select ${message}`).check();
    receiver.answer(path, { status: 200 });
    await page.getByRole('region', { name: 'Selected rows' }).getByRole('button', { name: 'Redrive' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Redrive 1' }).click();
    await until(
        'the delivery succeeded',
        async () => (await call('GET', `/app/${app.id}/msg/${message}/endpoint/${endpoint}`)).state === 'succeeded',
    );

    await page.goto(`${base}/apps/${app.id}/messages/${message}`);
    await page.getByText('1 delivered').waitFor();
    await shot('recovered');
    await page.getByRole('button', { name: 'Replay' }).click();
    const before = receiver.seen(path).length;
    await page.getByRole('dialog').getByRole('button', { name: 'Replay 1 message' }).click();
    await until('the message arrived again', () => receiver.seen(path).length > before);
}

async function settings_of_an_endpoint_are_changed_and_its_secret_rotated({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Settings', uid: 'settings' });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url('/settings') });
    const at = (tab) => `${base}/apps/${app.id}/endpoints/${endpoint.id}/${tab}`;
    await signIn();
    await page.goto(at('settings'));
    await page.getByLabel('Description').fill('Ledger');
    await page.getByRole('button', { name: 'Save endpoint' }).click();
    await until(
        'the description is stored',
        async () => (await call('GET', `/app/${app.id}/endpoint/${endpoint.id}`)).description === 'Ledger',
    );
    await page.getByLabel('Name', { exact: true }).fill('x-team');
    await page.getByLabel('Value', { exact: true }).fill('payments');
    await page.getByRole('button', { name: 'Add header' }).click();
    await until(
        'the header is stored',
        async () =>
            (await call('GET', `/app/${app.id}/endpoint/${endpoint.id}/headers`)).headers['x-team'] === 'payments',
    );

    await page.goto(at('secret'));
    const old = (await call('GET', `/app/${app.id}/endpoint/${endpoint.id}/secret`)).key;
    check(!(await page.content()).includes(old), 'the secret is not in the page before it is revealed');
    await page.getByRole('button', { name: 'Reveal the secret' }).click();
    await page.getByText(old).waitFor();
    await page.getByRole('button', { name: 'Rotate' }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate secret' }).click();
    await page.getByText('The old secret also signs for').waitFor();
    check((await call('GET', `/app/${app.id}/endpoint/${endpoint.id}/secret`)).key !== old, 'the secret changed');
    await shot('secret');

    await call('POST', '/event-type', { name: 'invoice.paid', description: 'Sent when an invoice was paid' }).catch(
        () => undefined,
    );
    await page.goto(at('test'));
    await page.getByLabel('Event type').fill('invoice.paid');
    await page.getByLabel('Payload').fill('{"id":"inv_9"}');
    await page.getByRole('tabpanel').or(page.locator('.two-cards')).getByRole('button', { name: 'Send test' }).click();
    await page.getByText('Delivered', { exact: true }).waitFor();
    await shot('test');
}

async function read_only_role_sees_no_button_that_fails({ page, signIn }) {
    await signIn();
    // The role comes from the session: a read-only key gets the same page without its buttons.
    await page.route('**/auth/session', async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: { ...(await answer.json()), role: 'read', rights: ['read'] } });
    });
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Journey', uid: 'journey' });
    for (const [path, name] of [
        [`/messages?app=${app.id}`, 'Send message'],
        [`/endpoints?app=${app.id}`, 'New endpoint'],
        ['/jobs', 'Enqueue job'],
        ['/schedules', 'New schedule'],
        ['/apps', 'New application'],
    ]) {
        await page.goto(base + path);
        await page.getByRole('heading', { level: 1 }).first().waitFor();
        await page.getByRole('contentinfo').or(page.locator('.foot')).first().waitFor();
        check((await page.getByRole('button', { name }).count()) === 0, `${path} has no button ${name}`);
    }
}

export default [
    first_start_leads_to_a_delivered_message,
    failing_endpoint_is_seen_redriven_and_recovered,
    settings_of_an_endpoint_are_changed_and_its_secret_rotated,
    read_only_role_sees_no_button_that_fails,
];
