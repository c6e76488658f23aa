// Budgets of loading: the first load, and long tasks on the overview.

import { base, check } from './world.mjs';

const LONG_TASK_MS_MAX = 200;

async function overview_has_no_long_task({ page, signIn }) {
  await page.addInitScript(() => {
    window.__long = [];
    new PerformanceObserver((list) => window.__long.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask', buffered: true });
  });
  await signIn();
  const has = await page.getByRole('link', { name: 'Overview' }).count();
  if (!has) return;
  // The first visit fills the caches of the browser, so that the second measures the page.
  for (let visit = 0; visit < 2; visit += 1) {
    await page.goto(`${base}/overview?range=7d`);
    await page.locator('.uchart canvas').nth(1).waitFor();
  }
  const longest = Math.max(0, ...(await page.evaluate(() => window.__long)));
  check(longest <= LONG_TASK_MS_MAX, `a task took ${longest} ms`);
}

export default [
  overview_has_no_long_task,
];
