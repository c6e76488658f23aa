// Pausing endpoints, their policy, the messages of all applications, live updates, and the look of the portal.

import { base, call, check, settled, until } from './world.mjs';

async function a_paused_endpoint_holds_its_deliveries_and_resumes({ page, receiver, signIn, shot }) {
  const app = await call('POST', '/app?get_if_exists=true', { name: 'Pauses', uid: 'pauses' });
  const path = `/paused-${Date.now()}`;
  const endpoint = await call('POST', `/app/${app.id}/endpoint`, { url: receiver.url(path), policy: { timeoutSeconds: 7 } });
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
  await page.getByLabel('Settings by event type').fill('{"invoice.paid": {"timeoutSeconds": 5}}');
  await page.getByRole('button', { name: 'Save policy' }).click();
  await until('the policy is stored', async () => {
    const { retryBudget, whileDisabled, eventTypes } = await stored();
    return retryBudget === 2 && whileDisabled === 'hold' && eventTypes['invoice.paid'].timeoutSeconds === 5;
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
  const [one, two] = [await call('POST', '/app?get_if_exists=true', { name: 'Alpha', uid: 'alpha' }), await call('POST', '/app?get_if_exists=true', { name: 'Beta', uid: 'beta' })];
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

async function the_portal_has_the_look_of_the_operator({ page, signIn, shot }) {
  await signIn();
  await page.goto(`${base}/settings`);
  await page.getByLabel('Accent').fill('red');
  await page.getByRole('button', { name: 'Save portal' }).click();
  await page.getByText('must be a colour such as #5b5bd6').waitFor();
  await page.getByLabel('Accent').fill('#0b6e4f');
  await page.getByRole('textbox', { name: /^Name/ }).fill('Osprey Hooks');
  await page.getByLabel('Link back').fill('https://osprey.example/app');
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><script>window.__xss=1</script><rect width="8" height="8" fill="#0b6e4f"/></svg>';
  await page.locator('input[type=file]').setInputFiles({ name: 'logo.svg', mimeType: 'image/svg+xml', buffer: Buffer.from(svg) });
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

export default [
  a_paused_endpoint_holds_its_deliveries_and_resumes,
  the_policy_shows_the_origin_of_each_setting,
  a_new_message_appears_in_the_list_of_all_applications,
  the_portal_has_the_look_of_the_operator,
];
