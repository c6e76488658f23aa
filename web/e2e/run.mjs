// Browser tests against a running server: EVERHOOK_URL and EVERHOOK_KEY, best with an empty store, a short
// EVERHOOK_RETRY_SCHEDULE and EVERHOOK_EGRESS_ALLOW=127.0.0.0/8.
//
//   node e2e/run.mjs [part of a test's name]
//
// EVERHOOK_EXTENT is `journeys`, `usual` or `everything`, which is the default.

import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { launch } from './browser.mjs';
import { startReceiver } from './receiver.mjs';
import { base, extent, signIn, watch } from './world.mjs';
import accessibility from './accessibility.mjs';
import alerts from './alerts.mjs';
import attacks from './attacks.mjs';
import chat from './chat.mjs';
import find from './find.mjs';
import jobs from './jobs.mjs';
import journey from './journey.mjs';
import operate from './operate.mjs';
import portal from './portal.mjs';
import speed from './speed.mjs';

const out = process.env.EVERHOOK_SHOTS ?? fileURLToPath(new URL('./out', import.meta.url));
mkdirSync(out, { recursive: true });
const wanted = process.argv[2] ?? '';
// The journey is first: it needs an empty environment for the first start.
const journeys = [journey, jobs, find].flat();
const usual = [journeys, operate, alerts, chat, portal, attacks, accessibility.usual, speed].flat();
const extents = { journeys, usual, everything: [usual, accessibility.rest].flat() };
const tests = extents[extent].filter((test) => test.name.includes(wanted));

const browser = await launch();
const receiver = await startReceiver();
let failed = 0;
for (const test of tests) {
    const { name } = test;
    const problems = [];
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    watch(page, problems);
    const shot = (label) => page.screenshot({ path: `${out}/${name}-${label}.png` });
    const started = Date.now();
    try {
        await test({ page, browser, context, receiver, shot, out, problems, base, signIn: () => signIn(page) });
        if (problems.length > 0) throw new Error(problems.join('\n'));
        console.log(`ok   ${name.replaceAll('_', ' ')} (${Date.now() - started} ms)`);
    } catch (error) {
        failed += 1;
        await shot('failed').catch(() => undefined);
        console.log(`FAIL ${name.replaceAll('_', ' ')}\n${error.stack ?? error}\n${problems.join('\n')}`);
    }
    await context.close();
}
await browser.close();
receiver.stop();
console.log(`${tests.length - failed} of ${tests.length} browser tests passed`);
process.exit(failed > 0 ? 1 : 0);
