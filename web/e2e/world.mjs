// What every test has: the API, a signed-in page, and a watch over the page.

export const base = process.env.EVERHOOK_URL ?? 'http://127.0.0.1:8071';
export const key = process.env.EVERHOOK_KEY ?? '';
/** `journeys`, `usual`, or `everything` with pictures of all screens. */
export const extent = process.env.EVERHOOK_EXTENT ?? 'everything';

export async function call(method, path, body) {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const answer = await fetch(`${base}/api/v1${path}`, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 300)}`);
    return text ? JSON.parse(text) : null;
}

/** Longer than any successful step takes, even on a slow, busy machine. */
const PATIENCE_SECONDS = 60;

/** Waits until `probe` returns something; the page and the server work meanwhile. */
export async function until(what, probe, seconds = PATIENCE_SECONDS) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
        const found = await probe();
        if (found) return found;
        if (Date.now() > end) throw new Error(`did not happen within ${seconds} s: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 150));
    }
}

/** Fails a test if the page throws, breaks the policy, or runs code of a customer. */
export function watch(page, problems) {
    page.setDefaultTimeout(PATIENCE_SECONDS * 1000);
    page.on('pageerror', (error) => problems.push(`exception: ${error}`));
    page.on('dialog', (dialog) => {
        problems.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
    });
    page.on('console', (message) => {
        if (/Content Security Policy|Content-Security-Policy/i.test(message.text()))
            problems.push(`policy: ${message.text()}`);
    });
}

export async function signIn(page) {
    await page.goto(`${base}/sign-in`);
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL((url) => url.pathname !== '/sign-in');
}

/** Waits until no part of the page is loading. */
export async function settled(page) {
    try {
        await page.waitForFunction(() => document.querySelector('.skels, [aria-busy="true"]') === null);
    } catch {
        throw new Error(
            `${page.url()} keeps loading: ${await page.evaluate(() => document.querySelector('.skels, [aria-busy="true"]')?.parentElement?.innerText.slice(0, 200))}`,
        );
    }
}

export function check(condition, what) {
    if (!condition) throw new Error(what);
}
