// Budgets of loading: the first load, and long tasks on the overview.

import { base, check } from './world.mjs';

const LONG_TASK_MS_MAX = 200;
/** The first visits fill the caches of the browser. A busy machine may disturb some, but a slow page is slow in all. */
const VISITS_MAX = 8;

async function overview_has_no_long_task({ page, signIn }) {
    await page.addInitScript(() => {
        window.__long = [];
        new PerformanceObserver((list) =>
            window.__long.push(...list.getEntries().map((entry) => entry.duration)),
        ).observe({ type: 'longtask', buffered: true });
    });
    await signIn();
    const has = await page.getByRole('link', { name: 'Overview' }).count();
    if (!has) return;
    const longest = [];
    for (let visit = 0; visit < VISITS_MAX; visit += 1) {
        await page.goto(`${base}/overview?range=7d`);
        await page.locator('.uchart canvas').nth(1).waitFor();
        longest.push(Math.max(0, ...(await page.evaluate(() => window.__long))));
        if (visit > 0 && longest.at(-1) <= LONG_TASK_MS_MAX) break;
    }
    check(Math.min(...longest) <= LONG_TASK_MS_MAX, `tasks took ${longest.join(', ')} ms`);
}

export default [overview_has_no_long_task];
