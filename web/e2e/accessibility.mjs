// axe finds no serious problem on any screen, in both themes and widths; nothing scrolls sideways.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dialogs, first, paths } from './screens.mjs';
import { base, call, extent, settled, signIn, watch } from './world.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Waits until what fades or moves has come to its end; a colour in between has too little contrast. */
async function still(page) {
    await page.evaluate(() => {
        const ending = document
            .getAnimations()
            .filter((one) => Number.isFinite(one.effect?.getComputedTiming().endTime));
        return Promise.all(ending.map((one) => one.finished.catch(() => undefined)));
    });
}

async function examine(page, where, problems) {
    await still(page);
    await page.evaluate(axe);
    const result = await page.evaluate(() =>
        window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }),
    );
    for (const violation of result.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')) {
        const nodes = violation.nodes
            .slice(0, 3)
            .map((node) => `${node.target.join(' ')} ${node.failureSummary?.split('\n')[1]?.trim() ?? ''}`);
        problems.push(`${where}: ${violation.id}: ${nodes.join(' | ')}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) problems.push(`${where}: scrolls sideways by ${wide} px`);
    const cut = await page.evaluate(() =>
        [...document.querySelectorAll('.empty > *')]
            .filter((part) => part.getBoundingClientRect().right > window.innerWidth)
            .map((part) => part.innerText),
    );
    if (cut.length > 0) problems.push(`${where}: an empty state is cut off: ${cut.join(' | ')}`);
}

async function everyScreen(width, theme, { browser, problems, out }) {
    const context = await browser.newContext({
        viewport: { width, height: width < 700 ? 844 : 900 },
        colorScheme: theme,
        hasTouch: width < 700,
        reducedMotion: 'reduce',
    });
    const page = await context.newPage();
    watch(page, problems);
    await page.goto(`${base}/sign-in`);
    await page.getByLabel('API key').waitFor();
    await examine(page, `${theme} ${width} /sign-in`, problems);
    await signIn(page);
    for (const path of await paths()) {
        await page.goto(base + path);
        await page.locator('main').first().waitFor();
        await settled(page);
        await examine(page, `${theme} ${width} ${path}`, problems);
        const name = path.replace(/[^a-z]+/gi, '-').slice(0, 40);
        if (extent === 'everything') await page.screenshot({ path: `${out}/screen${name}-${width}-${theme}.png` });
    }
    await context.close();
}

async function paletteAndPortal({ page, signIn: enter, problems, shot }) {
    await enter();
    await page.getByRole('button', { name: /Search or paste an id/ }).click();
    await page.getByPlaceholder('Search or paste an id').fill('end');
    await page.getByRole('option').first().waitFor();
    await examine(page, 'palette', problems);
    await shot('palette');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await examine(page, 'shortcuts', problems);
    const app = await first('/app');
    if (!app) return;
    const endpoint = await first(`/app/${app.id}/endpoint`);
    const { url } = await call('POST', `/auth/app-portal-access/${app.id}`, {});
    const { pathname, hash } = new URL(url);
    await page.goto(base + pathname + hash);
    for (const path of ['', '/logs', '/events', endpoint ? `/endpoints/${endpoint.id}` : '']) {
        if (path) await page.goto(base + pathname + path);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await settled(page);
        await examine(page, `portal${path}`, problems);
    }
}

/** Every dialog is accessible, and has its buttons in sight on a narrow screen. */
async function every_dialog_is_accessible_and_fits_a_narrow_screen({ page, signIn: enter, problems, shot }) {
    await call('POST', '/app?get_if_exists=true', { name: 'Osprey Outdoor', uid: 'osprey-portal' });
    await enter();
    for (const [path, button] of await dialogs()) {
        for (const width of [390, 1440]) {
            await page.setViewportSize({ width, height: 844 });
            await page.goto(base + path);
            await settled(page);
            await page.getByRole('button', { name: button }).first().click();
            const dialog = page.getByRole('dialog');
            await dialog
                .getByRole('button', { name: /^(Cancel|Close)$/ })
                .last()
                .waitFor();
            await still(page);
            const box = await dialog.boundingBox();
            const foot = await dialog.locator('footer button').last().boundingBox();
            if (box.x < 0 || box.x + box.width > width || foot.x + foot.width > width || foot.y + foot.height > 844)
                problems.push(`${width} ${path}: the dialog is not in sight`);
            await examine(page, `${width} ${path} ${button}`, problems);
        }
    }
    await shot('dialog');
}

const palette_and_portal_are_accessible = (world) => paletteAndPortal(world);
const every_screen_is_accessible_wide_and_light = (world) => everyScreen(1440, 'light', world);
const every_screen_is_accessible_wide_and_dark = (world) => everyScreen(1440, 'dark', world);
const every_screen_is_accessible_narrow_and_light = (world) => everyScreen(390, 'light', world);
const every_screen_is_accessible_narrow_and_dark = (world) => everyScreen(390, 'dark', world);

// The usual tests see every screen in both themes and both widths, but not in each combination of them.
export default {
    usual: [
        every_dialog_is_accessible_and_fits_a_narrow_screen,
        palette_and_portal_are_accessible,
        every_screen_is_accessible_wide_and_dark,
        every_screen_is_accessible_narrow_and_light,
    ],
    rest: [every_screen_is_accessible_wide_and_light, every_screen_is_accessible_narrow_and_dark],
};
