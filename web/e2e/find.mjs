// Finding things: the steps of an attempt, texts in payloads, saved views, and policies of outer levels.

import { base, call, check, settled, until } from './world.mjs';

async function an_attempt_shows_its_steps_and_the_headers_of_the_reply({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Steps', uid: 'steps' });
    const path = `/steps-${Date.now()}`;
    receiver.answer(path, {
        status: 200,
        headers: { 'x-request-id': 'req-77', 'set-cookie': 'session=secret' },
        body: 'fine',
    });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url(path) });
    const message = await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: {} });
    await until(
        'the delivery succeeded',
        async () =>
            (await call('GET', `/app/${app.id}/msg/${message.id}/endpoint/${endpoint.id}`)).state === 'succeeded',
    );
    await signIn();
    await page.goto(`${base}/apps/${app.id}/messages/${message.id}/endpoints/${endpoint.id}`);
    await page.getByRole('img', { name: /First byte [\d.]+ ms/ }).waitFor();
    await page.getByText('req-77').waitFor();
    await page.locator('.prop').filter({ hasText: 'set-cookie' }).getByText('not stored').waitFor();
    check(!(await page.content()).includes('session=secret'), 'a credential of the reply is not shown');
    await shot('steps');
    await call('DELETE', `/app/${app.id}/endpoint/${endpoint.id}`);
}

async function a_waiting_delivery_shows_the_attempts_that_are_planned({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Plans', uid: 'plans' });
    const path = `/planned-${Date.now()}`;
    receiver.answer(path, { status: 503 });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, {
        url: receiver.url(path),
        policy: { retry: { backoff: [600, 3600, 7200], jitterPercent: 0 } },
    });
    const message = await call('POST', `/app/${app.id}/msg`, { eventType: 'invoice.paid', payload: {} });
    await until(
        'the first attempt failed',
        async () => (await call('GET', `/app/${app.id}/msg/${message.id}/endpoint/${endpoint.id}`)).tries === 1,
    );
    await signIn();
    await page.goto(`${base}/apps/${app.id}/messages/${message.id}/endpoints/${endpoint.id}`);
    await page.getByText('of the endpoint, 4 attempts').waitFor();
    await page.getByRole('img', { name: /^1 attempts, the next \+10 min.* and 2 more planned$/ }).waitFor();
    await page.getByText(/^\+3 h 10 min/).waitFor();
    await page.getByText(/if all attempts fail/).waitFor();
    await shot('planned');
    await call('DELETE', `/app/${app.id}/endpoint/${endpoint.id}`);
}

async function a_text_in_a_payload_is_found_and_the_view_is_saved({ page, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Search', uid: 'search' });
    const mark = `order-${Date.now()}`;
    await call('POST', `/app/${app.id}/msg`, { eventType: 'found.it', payload: { order: mark } });
    await call('POST', `/app/${app.id}/msg`, { eventType: 'other.one', payload: { order: 'another' } });
    await signIn();
    await page.goto(`${base}/messages?app=${app.id}`);
    await page.getByRole('link', { name: 'other.one' }).first().waitFor();
    await page.getByRole('button', { name: 'Text in payload' }).click();
    await page.getByRole('textbox', { name: 'Text in payload' }).fill(mark);
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.waitForURL((url) => url.searchParams.get('text') === mark);
    await page.getByRole('link', { name: 'other.one' }).first().waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'found.it' }).first().waitFor();
    check(
        (await page.getByRole('link', { name: 'found.it' }).count()) === 1,
        'only the message with the text is listed',
    );

    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByLabel('Name of this view').fill('Lost <b>orders</b>');
    await page.getByRole('button', { name: 'Save view' }).click();
    // The menu has the name, too, until it is closed.
    await page.getByRole('button', { name: 'Lost <b>orders</b>' }).first().waitFor();
    await shot('view');
    await page.goto(`${base}/messages`);
    await settled(page);
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('button', { name: 'Lost <b>orders</b>', exact: true }).click();
    await page.waitForURL((url) => url.searchParams.get('text') === mark && url.searchParams.get('app') === app.id);
    await page.getByRole('link', { name: 'found.it' }).waitFor();
    await page.getByRole('button', { name: 'Lost <b>orders</b>' }).first().click();
    await page.getByRole('button', { name: 'Delete view Lost <b>orders</b>' }).click();
    await page.getByText('No saved views in this browser').waitFor();
    await page.keyboard.press('Escape');
    await page.goto(`${base}/messages?app=${app.id}&text=${mark.toUpperCase()}`);
    await page.getByText('No messages match').waitFor();
}

async function policies_of_an_application_and_the_environment_are_edited({ page, receiver, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Outer policies', uid: 'outer-policies' });
    await call('PATCH', `/app/${app.id}`, { policy: { paused: true } });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url('/outer') });
    await signIn();
    await page.goto(`${base}/apps/${app.id}`);
    await page.getByRole('link', { name: 'Policy', exact: true }).click();
    await page.waitForURL(/tab=policy/);
    await page.getByLabel('Timeout of an attempt').fill('900');
    await page.getByRole('button', { name: 'Save policy' }).click();
    await page.getByText('must be 1 to 120').first().waitFor();
    await page.getByLabel('Timeout of an attempt').fill('9');
    check((await page.getByLabel('Messages while disabled').count()) === 0, 'a setting of endpoints is not offered');
    await page.getByRole('button', { name: 'Save policy' }).click();
    await until('the policy is stored', async () => {
        const { policy } = await call('GET', `/app/${app.id}`);
        return policy.timeoutSeconds === 9 && policy.paused === true;
    });
    await page.getByText('set here').first().waitFor();
    await shot('application');

    await page.goto(`${base}/settings`);
    await page.getByRole('link', { name: 'Delivery policy' }).click();
    await page.getByLabel('Retry budget').selectOption('own');
    await page.getByLabel('Retries', { exact: true }).fill('3');
    await page.getByRole('button', { name: 'Save policy' }).click();
    await until('the policy is stored', async () => (await call('GET', '/environment/policy')).retryBudget === 3);
    await page.getByText('3 · set here').waitFor();
    await shot('environment');
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/policy`);
    await page.getByText('3 · environment').waitFor();
    await call('PUT', '/environment/policy', {});
    await call('DELETE', `/app/${app.id}`);
}

async function a_narrow_screen_has_the_views_and_the_active_tab_in_sight({ page, receiver, signIn }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Search', uid: 'search' });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url('/narrow') });
    await page.setViewportSize({ width: 390, height: 844 });
    await signIn();
    const inSight = async (part, what) => {
        await part.waitFor();
        const { x, width } = await part.boundingBox();
        check(x >= 0 && x + width <= 390, `${what} is in sight`);
    };
    for (const path of [`/messages?app=${app.id}`, '/jobs', '/audit']) {
        await page.goto(base + path);
        await inSight(page.getByRole('button', { name: 'Views' }), `Views of ${path}`);
    }
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/test`);
    await inSight(page.getByRole('link', { name: 'Test', exact: true }), 'the active tab');
    await page.goto(`${base}/apps/${app.id}/endpoints/${endpoint.id}/no-such-tab`);
    await page.waitForURL(/\/health/);
    await call('DELETE', `/app/${app.id}/endpoint/${endpoint.id}`);
}

async function lists_leave_room_for_names_at_every_width({ page, receiver, signIn }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Search', uid: 'search' });
    const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url('/widths') });
    await call('POST', `/app/${app.id}/msg`, { eventType: 'found.it', payload: {} });
    await call('POST', '/job', { queue: 'widths', kind: 'width.measure', payload: {} });
    await signIn();
    for (const path of [
        '/messages',
        `/messages?app=${app.id}`,
        '/endpoints',
        '/apps',
        '/jobs',
        '/queues',
        '/keys',
        '/audit',
    ]) {
        await page.goto(base + path);
        await settled(page);
        await page.locator('.tbl.rows').first().waitFor();
        for (const width of [700, 960, 1280, 1920]) {
            await page.setViewportSize({ width, height: 900 });
            // The observer of the table runs before the next frame.
            await page.evaluate(
                () =>
                    new Promise((resolve) => window.requestAnimationFrame(() => window.requestAnimationFrame(resolve))),
            );
            const cut = await page.evaluate(() =>
                [...document.querySelectorAll('.tbl.rows th')]
                    .filter((head) => head.innerText.trim() && head.scrollWidth > head.clientWidth + 1)
                    .map((head) => head.innerText),
            );
            check(cut.length === 0, `${path} at ${width} px cuts off ${cut.join(', ')}`);
        }
    }
    await call('DELETE', `/app/${app.id}/endpoint/${endpoint.id}`);
}

async function the_palette_finds_an_application_by_the_beginning_of_its_name({ page, signIn }) {
    await call('POST', '/app?get_if_exists=true', { name: 'Zebra Goods', uid: 'zebra' });
    await signIn();
    await page.goto(`${base}/jobs`);
    // The shell listens to keys once it is shown.
    await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByPlaceholder('Search or paste an id').fill('zeb');
    await page.getByRole('option', { name: /^Zebra Goods/ }).waitFor();
    check((await page.getByRole('option').first().innerText()).startsWith('Zebra Goods'), 'the application is first');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Zebra Goods' }).waitFor();
}

export default [
    a_waiting_delivery_shows_the_attempts_that_are_planned,
    a_narrow_screen_has_the_views_and_the_active_tab_in_sight,
    lists_leave_room_for_names_at_every_width,
    the_palette_finds_an_application_by_the_beginning_of_its_name,
    an_attempt_shows_its_steps_and_the_headers_of_the_reply,
    a_text_in_a_payload_is_found_and_the_view_is_saved,
    policies_of_an_application_and_the_environment_are_edited,
];
