// Takes screenshots of paths: node dev/shots.mjs <out> <name>=<path>... [--size=1440,390] [--theme=light,dark] [--wait=ms]
// [--tall]. The path `all` stands for every screen.
import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { paths as everyPath } from '../e2e/screens.mjs';

const args = process.argv.slice(2);
const option = (name, fallback) =>
    (args.find((arg) => arg.startsWith(`--${name}=`))?.slice(name.length + 3) ?? fallback).split(',');
const [out, ...given] = args.filter((arg) => !arg.startsWith('--'));
const label = (path) =>
    path
        .slice(1)
        .replace(/_[0-9A-Za-z]{20,}/g, '')
        .replace(/[^a-z]+/gi, '-') || 'home';
const paths = given[0] === 'all' ? (await everyPath()).map((path) => `${label(path)}=${path}`) : given;
const base = process.env.BASE ?? 'http://127.0.0.1:8090';
const key = process.env.EVERHOOK_KEY ?? '';
mkdirSync(out, { recursive: true });
const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
    ],
});
for (const size of option('size', '1440,390')) {
    for (const theme of option('theme', 'light,dark')) {
        const width = Number(size);
        const context = await browser.newContext({
            viewport: { width, height: width < 700 ? 844 : 900 },
            colorScheme: theme,
            hasTouch: width < 700,
        });
        const page = await context.newPage();
        page.on(
            'console',
            (message) =>
                ['error', 'warning'].includes(message.type()) && console.log(`[${size} ${theme}]`, message.text()),
        );
        page.on('pageerror', (error) => console.log(`[${size} ${theme}] ${error}`));
        await page.request.post(`${base}/auth/session`, { data: { key } });
        for (const pair of paths) {
            const [label, path] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)];
            await page.goto(base + path, { waitUntil: 'load' });
            await page.waitForTimeout(Number(option('wait', '1500')[0]));
            const name = `${label}-${size}-${theme}.png`;
            await page.screenshot({ path: `${out}/${name}`, fullPage: args.includes('--tall') });
            const wide = await page.evaluate(
                () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
            );
            if (wide) console.log(`[${size}] ${path} scrolls sideways`);
            console.log(name);
        }
        await context.close();
    }
}
await browser.close();
