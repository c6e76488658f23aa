// Chat apps: create, test, edit and delete, without a secret ever being shown.

import { base, call, check, settled } from './world.mjs';

async function a_chat_app_is_created_tested_changed_and_deleted({ page, receiver, signIn, shot }) {
    const token = `xoxb-${Date.now()}`;
    receiver.answer('/api/users.lookupByEmail', { body: '{"ok":true,"user":{"id":"U1"}}' });
    receiver.answer('/api/chat.postMessage', { body: '{"ok":true}' });
    await call('DELETE', '/chat-app/slack').catch(() => undefined);
    await signIn();
    await page.goto(`${base}/settings`);
    await page.getByRole('link', { name: 'Chat apps' }).click();
    await settled(page);
    await page.getByRole('button', { name: 'New chat app' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Platform').selectOption('wecom');
    await dialog.getByLabel('Corp id').fill('ww1');
    await dialog.getByLabel('Agent id').fill('many');
    await dialog.getByRole('button', { name: 'Save chat app' }).click();
    await dialog.getByText('Agent id must be a whole number').waitFor();
    await dialog.getByLabel('Platform').selectOption('slack');
    await dialog.getByRole('button', { name: 'Save chat app' }).click();
    await dialog.getByText('Bot token is required').waitFor();
    await dialog.getByLabel('Bot token').fill(token);
    await dialog.getByLabel('Server').fill('https://not-allowed.example');
    await dialog.getByRole('button', { name: 'Save chat app' }).click();
    await dialog.locator('.err').waitFor();
    await shot('refused');
    await dialog.getByLabel('Server').fill(receiver.url(''));
    await dialog.getByRole('button', { name: 'Save chat app' }).click();
    await dialog.waitFor({ state: 'detached' });

    const row = page.getByRole('row').filter({ hasText: 'Slack' });
    await row.getByRole('button', { name: 'Test' }).click();
    await dialog.getByLabel('E-mail address').fill('ann@example.com');
    await dialog.getByRole('button', { name: 'Write to this person' }).click();
    await dialog.locator('.callout').waitFor();
    check(receiver.seen('/api/chat.postMessage').length === 1, 'the person got a message');
    check(
        receiver.seen('/api/chat.postMessage')[0].headers.authorization === `Bearer ${token}`,
        'the platform got the token',
    );
    await shot('tested');
    await dialog.getByRole('button', { name: 'Close' }).last().click();

    await row.getByRole('button', { name: 'Slack', exact: true }).click();
    check((await dialog.getByLabel('Bot token').inputValue()) === '', 'the form does not have the secret');
    check(!(await page.content()).includes(token), 'the page does not have the secret');
    await dialog.getByRole('button', { name: 'Save chat app' }).click();
    await dialog.waitFor({ state: 'detached' });
    await row.getByRole('button', { name: 'Test' }).click();
    await dialog.getByLabel('E-mail address').fill('bob@example.com');
    await dialog.getByRole('button', { name: 'Write to this person' }).click();
    await dialog.locator('.callout').waitFor();
    check(
        receiver.seen('/api/chat.postMessage').at(-1).headers.authorization === `Bearer ${token}`,
        'a change without a secret keeps it',
    );
    await dialog.getByRole('button', { name: 'Close' }).last().click();

    await row.getByRole('button', { name: 'Delete Slack' }).click();
    await dialog.getByRole('button', { name: 'Delete chat app' }).click();
    await page.getByText('No chat apps yet').waitFor();
    check((await call('GET', '/chat-app')).data.length === 0, 'the app is gone');
}

export default [a_chat_app_is_created_tested_changed_and_deleted];
