// Alert rules: create, trigger, page, edit, delete.

import { base, call, check, settled, until } from './world.mjs';

async function an_alert_is_created_tested_triggered_and_deleted({ page, receiver, signIn, shot }) {
    const path = `/alerts-${Date.now()}`;
    const phone = `On-call <b>phone</b> ${Date.now()}`;
    const endpoint = await call('POST', '/operational-webhook/endpoint', {
        url: receiver.url(path),
        description: phone,
    });
    const name = `due-${Date.now()}`;
    await signIn();
    await page.goto(`${base}/alerts`);
    await settled(page);
    await page.getByRole('button', { name: 'New alert' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Create alert' }).click();
    await dialog.getByText('The name is required').waitFor();
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByLabel('Watch').selectOption('queue-depth');
    await dialog.getByLabel('Queue').fill('alerts');
    await dialog.getByLabel('Threshold').fill('0');
    await dialog.getByLabel('Must hold for').fill('0');
    await dialog.getByLabel('Page again every').fill('0');
    await dialog.getByText('Waiting jobs of alerts above 0.').waitFor();
    await dialog.getByText(phone).click();
    await dialog.getByRole('button', { name: 'Create alert' }).click();
    await dialog.getByText('must be at least 1').first().waitFor();
    await dialog.getByLabel('Page again every').fill('3600');
    await shot('form');
    await dialog.getByRole('button', { name: 'Create alert' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('row').filter({ hasText: name }).click();
    const panel = page.getByRole('complementary', { name: 'Alert' });
    await panel.getByText(phone).waitFor();
    await panel.getByRole('button', { name: 'Send test page' }).click();
    await until('the test page arrived', () => receiver.seen(path).length === 1);
    const job = await call('POST', '/job', { queue: 'alerts', kind: 'alert.wait', payload: {}, delaySeconds: 0 });
    await until('the alert was triggered', async () => (await call('GET', `/alert/${name}`)).state === 'triggered');
    await panel.getByText('Triggered', { exact: true }).first().waitFor();
    await panel.getByText(/^Triggered, 1/).waitFor();
    await until('the page arrived', () => receiver.seen(path).length === 2);
    await page
        .getByRole('navigation', { name: 'Main' })
        .getByRole('link', { name: /^Alerts\s*\d/ })
        .waitFor();
    await shot('triggered');
    await panel.getByRole('button', { name: 'Edit' }).click();
    check((await dialog.getByLabel('Only this endpoint').count()) === 0, 'a queue has no endpoint');
    await dialog.getByLabel('Threshold').fill('5');
    await dialog.getByRole('button', { name: 'Save alert' }).click();
    await until('the rule is stored', async () => (await call('GET', `/alert/${name}`)).threshold === 5);
    await panel.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete alert' }).click();
    await page.getByText(`Alert ${name} deleted`, { exact: true }).waitFor();
    check(
        (await call('GET', '/alert')).data.every((alert) => alert.name !== name),
        'the rule is gone',
    );
    await call('DELETE', `/job/${job.id}`).catch(() => undefined);
    await call('DELETE', `/operational-webhook/endpoint/${endpoint.id}`);
}

export default [an_alert_is_created_tested_triggered_and_deleted];
