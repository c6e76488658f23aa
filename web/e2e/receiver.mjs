// A receiver whose answers a test chooses by path.

import { createServer } from 'node:http';

export async function startReceiver() {
    const answers = new Map();
    const seen = [];
    const server = createServer((request, response) => {
        const parts = [];
        request.on('data', (part) => parts.push(part));
        request.on('end', () => {
            const path = new URL(request.url, 'http://receiver').pathname;
            seen.push({ path, headers: request.headers, body: Buffer.concat(parts).toString() });
            const { status = 200, headers = {}, body = '{"ok":true}' } = answers.get(path) ?? {};
            response.writeHead(status, { 'content-type': 'application/json', ...headers });
            response.end(body);
        });
    });
    await new Promise((resolve) => server.listen(Number(process.env.RECEIVER_PORT ?? 0), '127.0.0.1', resolve));
    const { port } = server.address();
    return {
        url: (path) => `http://127.0.0.1:${port}${path}`,
        answer: (path, answer) => answers.set(path, answer),
        seen: (path) => seen.filter((one) => one.path === path),
        stop: () => server.close(),
    };
}
