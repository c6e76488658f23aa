// Pausing endpoints, their policy, the messages of all applications, live updates, and the look of the portal.

import { base, call, check, settled, until, watch } from './world.mjs';

async function a_paused_endpoint_holds_its_deliveries_and_resumes({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Pauses', uid: 'pauses' });
    const path = `/paused-${Date.now()}`;
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, {
        url: receiver.url(path),
        policy: { timeoutSeconds: 7 },
    });
    await signIn();
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/health`);
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByText('This endpoint is paused.').waitFor();
    const { policy } = await call('GET', `/app/${app.id}/endpoint/${endpoint.id}`);
    check(policy.paused === true && policy.timeoutSeconds === 7, 'the other settings of the policy stay');
    const message = await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: {} });
    await page.goto(`${base}/apps/${app.id}/messages/${message.id}/endpoints/${endpoint.id}`);
    await page.getByText('The endpoint is paused; the delivery waits until it is resumed').first().waitFor();
    await shot('waits');
    const unwanted = await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: {} });
    await page.goto(`${base}/messages?app=${app.id}&status=held`);
    await page.getByLabel(`Select ${unwanted.id}/${endpoint.id}`).check();
    await page
        .getByRole('region', { name: 'Selected rows' })
        .getByRole('button', { name: 'Cancel deliveries' })
        .click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel deliveries' }).click();
    await until(
        'the delivery is cancelled',
        async () =>
            (await call('GET', `/app/${app.id}/msg/${unwanted.id}/endpoint/${endpoint.id}`)).state === 'cancelled',
    );
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/health`);
    await page.getByRole('button', { name: 'Resume' }).click();
    await until('the delivery arrived', () => receiver.seen(path).length === 1);
}

async function the_policy_shows_the_origin_of_each_setting({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Policies', uid: 'policies' });
    await call('PATCH', `/app/${app.id}`, { policy: { retryBudget: 4 } });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url('/policy') });
    const stored = async () => (await call('GET', `/app/${app.id}/endpoint/${endpoint.id}`)).policy ?? {};
    await signIn();
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/policy`);
    await page.getByText('4 · application').waitFor();
    await page.getByLabel('Retry budget').selectOption('own');
    await page.getByLabel('Retries', { exact: true }).fill('many');
    await page.getByText('Retries must be a whole number').waitFor();
    await page.getByLabel('Retries', { exact: true }).fill('2');
    await page.getByLabel('Messages while disabled').selectOption('hold');
    await page.getByLabel(/^Order/).selectOption('own');
    await page.getByLabel('Key', { exact: true }).fill('customerId');
    await page.getByText('Key must be a JSON pointer, such as /customerId').waitFor();
    await page.getByLabel('Key', { exact: true }).fill('/customerId');
    await page.getByLabel('Concurrency limit').selectOption('own');
    await page.getByLabel('Attempts at once').fill('4');
    await page.getByLabel('Settings by event type').fill('{"invoice.paid": {"timeoutSeconds": 5}}');
    await page.getByRole('button', { name: 'Save policy' }).click();
    await until('the policy is stored', async () => {
        const { retryBudget, whileDisabled, eventTypes, concurrency, ordering } = await stored();
        return (
            retryBudget === 2 &&
            concurrency === 4 &&
            ordering.key === '/customerId' &&
            whileDisabled === 'hold' &&
            eventTypes['invoice.paid'].timeoutSeconds === 5
        );
    });
    await page.getByText('2 · set here').waitFor();
    await page.getByLabel('In force for').selectOption('invoice.paid');
    await page.getByPlaceholder('5', { exact: true }).waitFor();
    await shot('policy');
    await page.getByRole('button', { name: 'A payload' }).click();
    await page.getByLabel('Expression').fill('payload.amount > 100');
    await page.getByRole('button', { name: 'Try the payload' }).click();
    await page.getByText('1 match').waitFor();
}

async function a_new_message_appears_in_the_list_of_all_applications({ page, signIn, shot }) {
    const [one, two] = [
        await call('POST', '/app?get_if_exists=true', { name: 'Alpha', uid: 'alpha' }),
        await call('POST', '/app?get_if_exists=true', { name: 'Beta', uid: 'beta' }),
    ];
    const tag = `t${Date.now()}`;
    await call('POST', `/app/${one.id}/msg`, { eventType: 'live.first', payload: {}, tags: [tag] });
    await signIn();
    const listening = page.waitForResponse((answer) => answer.url().endsWith('/auth/stream'));
    await page.goto(`${base}/messages?tag=${tag}`);
    check((await listening).status() === 200, 'the page listens');
    await page.getByRole('link', { name: 'live.first' }).waitFor();
    await call('POST', `/app/${two.id}/msg`, { eventType: 'live.second', payload: {}, tags: [tag] });
    await page.getByRole('link', { name: 'live.second' }).waitFor();
    await page.getByRole('cell', { name: 'Beta' }).waitFor();
    await shot('all');
    await page.getByRole('row').filter({ hasText: 'live.second' }).click();
    await page.getByRole('complementary').or(page.getByRole('dialog')).first().waitFor();
    await settled(page);
}

async function messages_of_several_applications_are_replayed_together({ page, receiver, signIn }) {
    const tag = `r${Date.now()}`;
    const paths = ['alpha', 'beta'].map((uid) => `/${uid}-${tag}`);
    await call('POST', '/event-type', { name: tag, description: 'Replayed' });
    for (const [index, uid] of ['alpha', 'beta'].entries()) {
        const app = await call('POST', '/app?get_if_exists=true', { name: uid, uid });
        await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url(paths[index]), eventTypes: [tag] });
        await call('POST', `/app/${app.id}/msg`, {
            eventType: tag,
            payload: { text: `of ${uid} ${tag}` },
            tags: [tag],
        });
    }
    await until('both arrived', () => paths.every((path) => receiver.seen(path).length === 1));
    await signIn();
    await page.goto(`${base}/messages?tag=${tag}`);
    await page.goto(`${base}/messages?text=of%20beta%20${tag}`);
    await page
        .getByRole('cell', { name: /^beta$/i })
        .first()
        .waitFor();
    check(
        (await page.getByRole('link', { name: tag, exact: true }).count()) === 1,
        'a text finds the message of one application',
    );
    await page.goto(`${base}/messages?tag=${tag}`);
    await page.getByLabel('Select all rows of this page').check();
    await page.getByRole('region', { name: 'Selected rows' }).getByRole('button', { name: 'Replay' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replay 2 messages' }).click();
    await until('both arrived again', () => paths.every((path) => receiver.seen(path).length === 2));
}

async function quotas_are_set_and_their_use_is_shown({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Limited', uid: 'limited' });
    await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url('/limited') });
    await signIn();
    await page.goto(`${base}/settings`);
    await page.getByRole('link', { name: 'Quotas' }).click();
    const each = page.locator('.card').filter({ has: page.getByRole('heading', { name: 'Each application' }) });
    await each.getByLabel('Endpoints', { exact: true }).selectOption('own');
    await each.getByLabel('Endpoints, at most').fill('many');
    await each.getByText('Must be a whole number').waitFor();
    await each.getByLabel('Endpoints, at most').fill('7');
    await each.getByRole('button', { name: 'Save limits' }).click();
    await until(
        'the quota is stored',
        async () => (await call('GET', '/environment/quota')).eachApplication?.endpoints === 7,
    );
    await shot('environment');

    await page.goto(`${base}/apps/${app.id}?tab=quota`);
    await page.getByText('1 of 7', { exact: true }).waitFor();
    await page.getByLabel('New messages').selectOption('own');
    await page.getByLabel('Messages', { exact: true }).fill('100');
    await page.getByLabel('At once').fill('500');
    await page.getByRole('button', { name: 'Save limits' }).click();
    await until(
        'the rate is stored',
        async () => (await call('GET', `/app/${app.id}/quota`)).messageRate?.burst === 500,
    );
    await page.getByText('100 in a second, 500 at once').waitFor();
    await shot('application');
    await call('PUT', '/environment/quota', {});
    await call('DELETE', `/app/${app.id}`);
}

async function a_breaker_is_set_in_the_policy_and_shown_while_it_is_open({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Breakers', uid: 'breakers' });
    const path = `/breaker-${Date.now()}`;
    receiver.answer(path, { status: 503 });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, {
        url: receiver.url(path),
        policy: { retry: { backoff: [600], jitterPercent: 0 } },
    });
    const stored = async () => call('GET', `/app/${app.id}/endpoint/${endpoint.id}`);
    await signIn();
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/policy`);
    await page.getByLabel('Circuit breaker').selectOption('own');
    for (const [label, value] of [
        ['Failed attempts', '50'],
        ['At least', '1'],
        ['Within', '60'],
        ['Open for', '300'],
        ['At most', '600'],
    ])
        await page.getByLabel(label, { exact: true }).fill(value);
    await page.getByRole('button', { name: 'Save policy' }).click();
    await until('the breaker is stored', async () => (await stored()).policy.breaker?.minAttempts === 1);
    for (let sent = 0; sent < 3; sent += 1)
        await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: {} });
    await until('the breaker is open', async () => (await stored()).breaker?.state === 'open');
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/health`);
    await page.getByText('Breaker open', { exact: true }).first().waitFor();
    await page.getByText('The circuit breaker is open. Nothing is sent until').waitFor();
    await shot('open');
    await call('DELETE', `/app/${app.id}`);
}

async function the_portal_has_the_look_of_the_operator({ page, signIn, shot }) {
    await signIn();
    await page.goto(`${base}/settings`);
    await page.getByLabel('Accent').fill('red');
    await page.getByRole('button', { name: 'Save portal' }).click();
    await page.getByText('must be a colour such as #5b5bd6').waitFor();
    await page.getByLabel('Accent').fill('#0b6e4f');
    await page.getByRole('textbox', { name: /^Name/ }).fill('Osprey Hooks');
    await page.getByLabel('Link back').fill('https://osprey.example/app');
    const svg =
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><script>window.__xss=1</script><rect width="8" height="8" fill="#0b6e4f"/></svg>';
    await page
        .locator('input[type=file]')
        .setInputFiles({ name: 'logo.svg', mimeType: 'image/svg+xml', buffer: Buffer.from(svg) });
    await page.getByRole('button', { name: 'Save portal' }).click();
    await until('the look is stored', async () => (await call('GET', '/portal-settings')).name === 'Osprey Hooks');
    await shot('settings');
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Alpha', uid: 'alpha' });
    const { url } = await call('POST', `/auth/app-portal-access/${app.id}`, { capabilities: ['ViewBase'] });
    const { pathname, hash } = new URL(url);
    await page.goto(base + pathname + hash);
    await page.getByRole('link', { name: 'Back to Osprey Hooks' }).waitFor();
    check((await page.locator('img.p-logo').count()) === 1, 'the logo is shown');
    check((await page.evaluate(() => window.__xss)) === undefined, 'scripts of a logo do not run');
    const brand = await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue('--brand'));
    check(brand.trim() === '#0b6e4f', `the accent is used, not ${brand}`);
    await shot('portal');
    await call('PUT', '/portal-settings', {});
}

async function a_paused_application_holds_the_deliveries_of_its_endpoints({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Paused customer', uid: 'paused-customer' });
    const path = `/app-pause-${Date.now()}`;
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url(path) });
    await signIn();
    await page.goto(`${base}/apps/${app.id}`);
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause application' }).click();
    await page.getByText('Application Paused customer is paused.').waitFor();
    const message = await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: {} });
    await page.goto(`${base}/apps/${app.id}/messages/${message.id}/endpoints/${endpoint.id}`);
    await page.getByText('The application is paused; the delivery waits until it is resumed').first().waitFor();
    await shot('waits');
    await page.goto(`${base}/apps/${app.id}`);
    await page.getByRole('button', { name: 'Resume' }).click();
    await until('the delivery arrived', () => receiver.seen(path).length === 1);
}

async function a_key_is_shown_once_and_a_read_only_key_sees_no_button({ page, context, problems, signIn, shot }) {
    await signIn();
    await page.goto(`${base}/keys`);
    await page.getByRole('button', { name: 'New key' }).click();
    const dialog = page.getByRole('dialog');
    const name = `reader ${Date.now()}`;
    await dialog.getByRole('textbox', { name: /^Name/ }).fill(name);
    await dialog.getByLabel('Scope').selectOption('read');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await dialog.getByText('This is the only time that the key is shown.').waitFor();
    const text = await dialog.locator('.secret .mono').innerText();
    check(text.startsWith('ehk_'), 'the key is shown');
    await shot('created');
    await dialog.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByText(name).waitFor();
    check(!(await page.content()).includes(text), 'the key is not shown again');

    const app = await call('POST', '/app?get_if_exists=true', { name: 'Alpha', uid: 'alpha' });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: 'https://example.com/read-only-key' });
    const reader = await context.browser().newContext({ viewport: { width: 1440, height: 900 } });
    const seen = await reader.newPage();
    watch(seen, problems);
    await seen.goto(`${base}/sign-in`);
    await seen.getByLabel('API key').fill(text);
    await seen.getByRole('button', { name: 'Sign in' }).click();
    await seen.waitForURL((url) => url.pathname !== '/sign-in');
    const screens = [
        ['/messages', 'Send message'],
        [`/endpoints?app=${app.id}`, 'New endpoint'],
        ['/apps', 'New application'],
        [`/apps/${app.id}`, 'Pause'],
        [`/apps/${app.id}`, 'Make a portal link'],
        [`/apps/${app.id}/endpoints/${endpoint.id}/health`, 'Pause'],
        [`/apps/${app.id}/endpoints/${endpoint.id}/secret`, 'Reveal the secret'],
        ['/settings', 'Save portal'],
        ['/jobs', 'Enqueue job'],
        ['/schedules', 'New schedule'],
    ];
    for (const [path, button] of screens) {
        await seen.goto(base + path);
        await seen.locator('main h1').first().waitFor();
        await settled(seen);
        check(
            (await seen.getByRole('button', { name: button }).count()) === 0,
            `${path} has no button ${button} for a key that reads`,
        );
    }
    check((await seen.getByRole('link', { name: 'Keys' }).count()) === 0, 'the screen of keys is not offered');
    await reader.close();

    await page.getByRole('row').filter({ hasText: name }).getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click();
    await until(
        'the key is refused',
        async () =>
            (await fetch(`${base}/api/v1/app`, { headers: { authorization: `Bearer ${text}` } })).status === 401,
    );
    await call('DELETE', `/app/${app.id}/endpoint/${endpoint.id}`);
}

async function a_chat_endpoint_is_previewed_before_it_exists({ page, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Alpha', uid: 'alpha' });
    await signIn();
    await page.goto(`${base}/endpoints?app=${app.id}`);
    await page.getByRole('button', { name: 'New endpoint' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Kind').selectOption('slack');
    await dialog.getByRole('textbox', { name: /^Title/ }).fill('Deployed {{ payload.amount }}');
    await dialog.getByRole('button', { name: 'Preview' }).click();
    await dialog.getByText('Deployed 42').first().waitFor();
    await shot('preview');
    await dialog.getByRole('textbox', { name: /^Title/ }).fill('{{ payload.missing.member }}');
    await dialog.getByRole('button', { name: 'Preview' }).click();
    await dialog.getByText('The default text is used.').waitFor();
}

async function credentials_of_an_endpoint_are_set_and_never_shown({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Alpha', uid: 'alpha' });
    const path = `/credentials-${Date.now()}`;
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url(path) });
    await signIn();
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/settings`);
    const row = page.getByRole('listitem').filter({ hasText: 'User name and password' });
    await row.getByRole('button', { name: 'Set' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('User name').fill('hooks');
    await dialog.getByLabel('Password').fill('open sesame');
    await dialog.getByRole('button', { name: 'Save credentials' }).click();
    await row.getByText('User hooks').waitFor();
    check(!(await page.content()).includes('open sesame'), 'the password is not in the page');
    await shot('set');
    await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: {} });
    await until(
        'the delivery carries the credentials',
        () =>
            receiver.seen(path)[0]?.headers.authorization ===
            `Basic ${Buffer.from('hooks:open sesame').toString('base64')}`,
    );
    await row.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove credentials' }).click();
    await row.getByText('Not set').waitFor();
    await call('DELETE', `/app/${app.id}/endpoint/${endpoint.id}`);
}

export default [
    a_paused_endpoint_holds_its_deliveries_and_resumes,
    the_policy_shows_the_origin_of_each_setting,
    a_new_message_appears_in_the_list_of_all_applications,
    messages_of_several_applications_are_replayed_together,
    quotas_are_set_and_their_use_is_shown,
    a_breaker_is_set_in_the_policy_and_shown_while_it_is_open,
    the_portal_has_the_look_of_the_operator,
    a_paused_application_holds_the_deliveries_of_its_endpoints,
    a_key_is_shown_once_and_a_read_only_key_sees_no_button,
    a_chat_endpoint_is_previewed_before_it_exists,
    credentials_of_an_endpoint_are_set_and_never_shown,
];
