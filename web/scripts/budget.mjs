// Fails if the built files exceed their budgets: 300 kB compressed for the first load, 1 MB for everything.
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const FIRST_LOAD_BYTES_MAX = 300_000;
const ALL_BYTES_MAX = 1_000_000;
const dist = fileURLToPath(new URL('../dist', import.meta.url));
const files = (folder) =>
    readdirSync(folder).flatMap((name) =>
        statSync(join(folder, name)).isDirectory() ? files(join(folder, name)) : [join(folder, name)],
    );
const size = (path) => gzipSync(readFileSync(path), { level: 9 }).length;

const html = readFileSync(join(dist, 'index.html'), 'utf8');
const first = [...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, path]) => join(dist, path));
const sum = (paths) => paths.reduce((total, path) => total + size(path), 0);
const [load, all] = [sum([join(dist, 'index.html'), ...first]), sum(files(dist))];
console.log(`first load ${load} B, all ${all} B (gzip)`);
if (load > FIRST_LOAD_BYTES_MAX || all > ALL_BYTES_MAX) process.exit(1);
