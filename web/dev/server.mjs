// A gateway for looking at the dashboard before the server embeds it: it serves dist/ with the policy of the server,
// keeps sessions in memory, forwards /api to a running Everhook with its key, and makes up GET /api/v1/overview if the
// server lacks it. Without a key it forwards sessions, too. Only for development: tests of behaviour run against the real binary (e2e/).
//
//   EVERHOOK_URL=http://127.0.0.1:8071 EVERHOOK_KEY=… node dev/server.mjs [port]

import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { overview } from './overview.mjs';

const upstream = process.env.EVERHOOK_URL ?? 'http://127.0.0.1:8071';
const key = process.env.EVERHOOK_KEY ?? '';
const role = process.env.EVERHOOK_ROLE ?? 'admin';
const port = Number(process.argv[2] ?? 8090);
const dist = process.env.DIST ?? fileURLToPath(new URL('../dist', import.meta.url));
const sessions = new Map();
const policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const types = {
    '.html': 'text/html; charset=utf-8',
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.svg': 'image/svg+xml',
};

createServer((request, response) => {
    handle(request, response).catch((error) => {
        response.writeHead(502, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ code: 'gateway', detail: String(error) }));
    });
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port} → ${upstream}`));

async function handle(request, response) {
    const url = new URL(request.url, 'http://gateway');
    if (url.pathname === '/auth/session') return key ? session(request, response) : forward(request, response, url);
    if (url.pathname === '/auth/stream') return key ? response.writeHead(404).end() : stream(request, response);
    if (url.pathname.startsWith('/api/')) return forward(request, response, url);
    return file(response, url.pathname);
}

async function session(request, response) {
    const send = (status, body, headers = {}) => {
        response.writeHead(status, { 'content-type': 'application/json', ...headers });
        response.end(body === undefined ? '' : JSON.stringify(body));
    };
    if (request.method === 'POST') {
        const { key: given, code } = JSON.parse((await read(request)).toString() || '{}');
        if (given !== key && code !== 'first')
            return send(401, { code: 'unauthenticated', detail: 'The key is not valid.' });
        const id = randomUUID();
        sessions.set(id, {
            environment: 'org_1',
            name: 'Default',
            keyName: 'First key',
            role,
            csrf: randomUUID(),
            expiresAt: new Date(Date.now() + 12 * 3_600_000).toISOString(),
        });
        return send(200, sessions.get(id), {
            'set-cookie': `everhook_session=${id}; HttpOnly; SameSite=Strict; Path=/`,
        });
    }
    const found = sessions.get(cookie(request));
    if (!found) return send(401, { code: 'unauthenticated', detail: 'Sign in.' });
    if (request.method === 'DELETE') {
        sessions.delete(cookie(request));
        return send(204);
    }
    return send(200, found);
}

async function forward(request, response, url) {
    const found = sessions.get(cookie(request));
    const headers = { ...request.headers };
    delete headers.host;
    if (key) delete headers.cookie;
    if (key && !headers.authorization && found) {
        if (request.method !== 'GET' && headers['x-csrf-token'] !== found.csrf) {
            response.writeHead(403, { 'content-type': 'application/json' });
            return response.end(
                JSON.stringify({ code: 'csrf', detail: 'The x-csrf-token header is missing or wrong.' }),
            );
        }
        headers.authorization = `Bearer ${key}`;
    }
    delete headers['content-length'];
    delete headers.connection;
    const body = request.method === 'GET' ? undefined : await read(request);
    const answer = await fetch(upstream + url.pathname + url.search, {
        method: request.method,
        headers,
        body: body?.length ? body : undefined,
    });
    if (answer.status === 404 && url.pathname === '/api/v1/overview' && found) {
        response.writeHead(200, { 'content-type': 'application/json' });
        return response.end(JSON.stringify(await overview(upstream, key, url.searchParams)));
    }
    const out = { 'content-type': answer.headers.get('content-type') ?? 'application/json' };
    if (answer.headers.get('retry-after')) out['retry-after'] = answer.headers.get('retry-after');
    if (answer.headers.get('set-cookie')) out['set-cookie'] = answer.headers.get('set-cookie');
    response.writeHead(answer.status, out);
    response.end(Buffer.from(await answer.arrayBuffer()));
}

async function stream(request, response) {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const answer = await fetch(`${upstream}/auth/stream`, {
        headers: { cookie: request.headers.cookie ?? '' },
        signal: gone.signal,
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
    Readable.fromWeb(answer.body)
        .on('error', () => response.end())
        .pipe(response);
}

async function file(response, path) {
    const name = normalize(path).replace(/^\/+/, '');
    let text;
    let type = types[extname(name)];
    try {
        if (!type) throw new Error('a route of the application');
        text = await readFile(join(dist, name));
    } catch {
        text = await readFile(join(dist, 'index.html'));
        type = types['.html'];
    }
    response.writeHead(200, {
        'content-type': type,
        'content-security-policy': policy,
        'x-content-type-options': 'nosniff',
    });
    response.end(text);
}

function cookie(request) {
    return /everhook_session=([^;]+)/.exec(request.headers.cookie ?? '')?.[1];
}

async function read(stream) {
    const parts = [];
    for await (const part of stream) parts.push(part);
    return Buffer.concat(parts);
}
