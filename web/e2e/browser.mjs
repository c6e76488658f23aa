// Debian's Chromium, installed if it is missing. `npx playwright install` is not used: it downloads a browser.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const PATHS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

function find() {
    return PATHS.find((path) => path && existsSync(path));
}

export async function launch() {
    if (!find()) execFileSync('apt-get', ['install', '-y', 'chromium'], { stdio: 'inherit' });
    const executablePath = find();
    if (!executablePath) throw new Error('Chromium is missing: install it, or name it in CHROMIUM');
    const args = [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
    ];
    return chromium.launch({ executablePath, args });
}
