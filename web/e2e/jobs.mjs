// Jobs, queues and schedules.

import { base, call, check, until } from './world.mjs';

async function job_runs_fails_and_is_retried({ page, signIn, shot }) {
    await signIn();
    const queue = `browser-${Date.now()}`;
    await page.goto(`${base}/jobs`);
    await page.getByRole('button', { name: 'Enqueue job' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Queue').fill(queue);
    await dialog.getByLabel('Kind').fill('report.render');
    await dialog.getByLabel('Payload').fill('{"month":"2026-10"}');
    await dialog.getByRole('button', { name: 'Enqueue job' }).click();
    await page.waitForURL(/\/jobs\/job_/);
    const id = /job_[0-9A-Za-z]+/.exec(page.url())[0];
    const worker = await call('POST', '/worker', { name: 'browser-worker', queues: [queue] });
    const [leased] = (await call('POST', `/worker/${worker.id}/lease`, { limit: 1, waitSeconds: 15 })).data;
    check(leased.id === id, 'the worker got the job');
    await page.getByText('Leased', { exact: true }).first().waitFor();
    await call('POST', `/job/${id}/fail`, {
        workerId: worker.id,
        epoch: leased.epoch,
        error: 'no such template',
        log: ['render started', 'template missing'],
    });
    await page.getByText('no such template').first().waitFor();
    await page.getByText('template missing').first().waitFor();
    await shot('failed-attempt');
    await page
        .getByRole('button', { name: /Run now|Retry/ })
        .first()
        .click();
    await until('the job is due again', async () => ['pending'].includes((await call('GET', `/job/${id}`)).state));
    const [again] = await until('the worker gets the job again', async () => {
        const { data } = await call('POST', `/worker/${worker.id}/lease`, { limit: 1 });
        return data.length > 0 ? data : null;
    });
    await call('POST', `/job/${id}/complete`, { workerId: worker.id, epoch: again.epoch, result: { pages: 3 } });
    await page.getByText('Succeeded', { exact: true }).first().waitFor();
    await page.goto(`${base}/queues/${queue}`);
    await page.getByRole('button', { name: 'Pause' }).click();
    await until('the queue is paused', async () => (await call('GET', `/queue/${queue}`)).state === 'paused');
    await page.getByText('Paused', { exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Resume' }).first().click();
    await until('the queue is open', async () => (await call('GET', `/queue/${queue}`)).state === 'open');
    await shot('queue');
    await call('DELETE', `/worker/${worker.id}`);
}

async function schedule_shows_its_next_runs_and_runs_now({ page, signIn, shot }) {
    await signIn();
    const name = `nightly-${Date.now()}`;
    await page.goto(`${base}/schedules`);
    await page.getByRole('button', { name: 'New schedule' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByLabel('Cron rule').fill('20 10,15 * * 1-5');
    await dialog.getByText('At 10:20 and 15:20, Monday through Friday').waitFor();
    await dialog.getByLabel('Queue').fill('reports');
    await dialog.getByLabel('Kind').fill('report.daily');
    await dialog.getByRole('button', { name: 'Create schedule' }).click();
    await until(
        'the schedule is stored',
        async () => (await call('GET', `/schedule/${name}`).catch(() => null))?.upcoming.length === 5,
    );
    await page.goto(`${base}/schedules?open=${name}`);
    const panel = page.getByRole('complementary', { name: 'Schedule' });
    await panel.getByText('Next five').waitFor();
    check((await panel.locator('.list').first().getByRole('listitem').count()) === 5, 'five run times are shown');
    await panel.getByRole('button', { name: 'Run now' }).click();
    await panel.getByText('Started by hand').waitFor();
    await page
        .getByRole('row', { name: new RegExp(name) })
        .getByRole('img', { name: '1 started by hand' })
        .waitFor();
    await panel.getByRole('button', { name: 'Pause' }).click();
    await panel.getByText('Paused').waitFor();
    await shot('panel');
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
}

async function palette_jumps_to_a_pasted_id({ page, signIn, shot }) {
    const app = await call('POST', '/app?get_if_exists=true', { name: 'Journey', uid: 'journey' });
    const message = await call('POST', `/app/${app.id}/msg`, { eventType: 'palette.test', payload: {} });
    await signIn();
    await page.getByRole('button', { name: /Search or paste an id/ }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByPlaceholder('Search or paste an id').fill(message.id);
    await page.getByRole('option', { name: /Message/ }).waitFor();
    await shot('palette');
    await page.keyboard.press('Enter');
    await page.waitForURL(new RegExp(message.id));
    await page.getByRole('heading', { name: /palette\.test/ }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('j');
    await page.waitForURL(/\/jobs/);
}

export default [job_runs_fails_and_is_retried, schedule_shows_its_next_runs_and_runs_now, palette_jumps_to_a_pasted_id];
