// Made-up series for looking at the overview, with real nodes, queues and failing endpoints where the API has them.

const seconds = { '15m': 900, '1h': 3600, '6h': 21_600, '24h': 86_400, '7d': 604_800 };

export async function overview(upstream, key, params) {
    const range = params.get('range') ?? '1h';
    const get = async (path) => {
        const answer = await fetch(`${upstream}/api/v1${path}`, { headers: { authorization: `Bearer ${key}` } });
        return answer.ok ? (await answer.json()).data : [];
    };
    const [nodes, queues, dead] = await Promise.all([
        get('/node'),
        get('/queue?with_stats=true'),
        get('/delivery?state=dead&limit=50'),
    ]);
    const points = 90;
    const step = Math.ceil(seconds[range] / points);
    const now = Math.floor(Date.now() / 1000);
    const t = Array.from({ length: points }, (_, index) => now - (points - index) * step);
    const wave = (base, spread, phase) =>
        t.map((_, i) => Math.max(0, base + spread * (Math.sin(i / 7 + phase) + Math.sin(i / 2.3 + phase) * 0.4)));
    const bump = (i) => Math.exp(-((i - 55) ** 2) / 60);
    const accepted = wave(412, 18, 0).map((v) => Math.round(v * step));
    const delivered = wave(1036, 46, 1).map((v) => Math.round(v * step));
    const failed = t.map((_, i) => Math.round((0.6 + 30 * bump(i)) * step));
    const endpoints = new Map();
    for (const row of dead) {
        const id = `${row.appId}/${row.endpointId}`;
        const known = endpoints.get(id) ?? {
            appId: row.appId,
            endpointId: row.endpointId,
            url: '',
            failures: 0,
            class: row.lastAttempt?.class ?? 'status',
            lastFailureAt: row.lastAttempt?.timestamp ?? row.timestamp,
        };
        known.failures += 1;
        endpoints.set(id, known);
    }
    const topEndpoints = [...endpoints.values()].sort((a, b) => b.failures - a.failures).slice(0, 5);
    for (const row of topEndpoints) {
        const answer = await fetch(`${upstream}/api/v1/app/${row.appId}/endpoint/${row.endpointId}`, {
            headers: { authorization: `Bearer ${key}` },
        });
        row.url = answer.ok ? (await answer.json()).url : '';
        const app = await fetch(`${upstream}/api/v1/app/${row.appId}`, { headers: { authorization: `Bearer ${key}` } });
        row.appName = app.ok ? (await app.json()).name : undefined;
    }
    return {
        now: new Date().toISOString(),
        range,
        stepSeconds: step,
        series: {
            t,
            accepted,
            delivered,
            failed,
            dead: t.map((_, i) => Math.round(3 * bump(i))),
            p50: wave(38, 2, 2),
            p95: t.map((_, i) => 150 + 120 * bump(i) + 8 * Math.sin(i)),
            p99: t.map((_, i) => 900 + 1900 * bump(i) + 40 * Math.sin(i / 2)),
        },
        totals: {
            pending: 3418,
            due: 912,
            retrying: 1904,
            leased: 142,
            dead: dead.length,
            deliveredPerMinute: 62_160,
            successRate: 0.9991,
            oldestDueSeconds: 134,
        },
        failures: [
            { class: '5xx', count: 1882 },
            { class: 'timeout', count: 641 },
            { class: '429', count: 418 },
            { class: 'connect', count: 96 },
            { class: '4xx', count: 87 },
            { class: 'tls', count: 31 },
            { class: 'dns', count: 12 },
            { class: 'blocked', count: 3 },
        ],
        topEndpoints,
        nodes: nodes
            .filter((node) => node.state === 'open')
            .map((node) => ({
                id: node.node,
                version: node.version,
                startedAt: node.since,
                lastSeenAt: node.heartbeatAt,
                leases: node.held,
            })),
        queues: queues.map((queue) => ({
            name: queue.name,
            pending: queue.stats?.pending ?? 0,
            leased: queue.stats?.running ?? 0,
            limit: queue.limit ?? null,
            paused: queue.state !== 'open',
        })),
    };
}
