// Burns down a backlog of no-op jobs with other job queues on PostgreSQL, for the scenario `jobs`.
//
// node jobs.mjs <peer> <database URL> <jobs> prints one line of JSON: jobs enqueued and run a second, and how many ran.
// Peers: graphile-fast (local queue, batched completion, 24 at once), graphile-default, pg-boss-10 and pg-boss-12 (1,000 at a time).
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/`);
const [peer, url, jobs] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const { Pool } = require("pg");
const BULK = 1000;

const since = (began) => Number(process.hrtime.bigint() - began) / 1e9;
const now = () => process.hrtime.bigint();

async function graphile(options, counted) {
  const { run, makeWorkerUtils } = require("graphile-worker");
  const utils = await makeWorkerUtils({ connectionString: url, preset: { worker: options } });
  await utils.migrate();
  await utils.release();
  const pool = new Pool({ connectionString: url, max: 4 });
  let began = now();
  // Two connections at a time, as ours.
  const portions = Array.from({ length: Math.ceil(counted / BULK) }, (_, n) => Math.min(BULK, counted - n * BULK));
  const enqueue = async () => {
    for (let size = portions.pop(); size !== undefined; size = portions.pop()) {
      const specs = JSON.stringify(Array.from({ length: size }, (_, id) => ({ identifier: "noop", payload: { id } })));
      await pool.query(
        "select from graphile_worker.add_jobs(array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))",
        [specs],
      );
    }
  };
  await Promise.all([enqueue(), enqueue()]);
  const enqueued = counted / since(began);
  await pool.query("vacuum analyze");
  let ran = 0;
  let done;
  const finished = new Promise((resolve) => (done = resolve));
  began = now();
  const runner = await run({
    connectionString: url,
    preset: { worker: options },
    noHandleSignals: true,
    logger: new (require("graphile-worker").Logger)(() => () => {}),
    taskList: {
      noop: () => {
        if (++ran === counted) done();
      },
    },
  });
  await finished;
  const run_rate = counted / since(began);
  await runner.stop();
  await pool.end();
  return { enqueued, ran: run_rate, count: ran };
}

async function pgBoss(release, counted) {
  const module = require(release);
  const PgBoss = module.PgBoss ?? module.default ?? module;
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue("noop");
  let began = now();
  for (let sent = 0; sent < counted; sent += BULK) {
    const size = Math.min(BULK, counted - sent);
    const jobs = Array.from({ length: size }, (_, id) => ({ name: "noop", data: { id } }));
    await (release === "pg-boss-10" ? boss.insert(jobs) : boss.insert("noop", jobs));
  }
  const enqueued = counted / since(began);
  const pool = new Pool({ connectionString: url, max: 1 });
  await pool.query("vacuum analyze");
  began = now();
  let ran = 0;
  while (ran < counted) {
    const fetched = await boss.fetch("noop", { batchSize: BULK });
    if (fetched.length === 0) throw new Error(`${ran} of ${counted} jobs were there`);
    await boss.complete("noop", fetched.map((job) => job.id));
    ran += fetched.length;
  }
  const run_rate = counted / since(began);
  await pool.end();
  await boss.stop({ graceful: false });
  return { enqueued, ran: run_rate, count: ran };
}

const FAST = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0, maxPoolSize: 10 };
const peers = {
  "graphile-fast": () => graphile(FAST, jobs),
  "graphile-default": () => graphile({ concurrentJobs: 24, maxPoolSize: 25, pollInterval: 2000 }, jobs),
  "pg-boss-10": () => pgBoss(peer, jobs),
  "pg-boss-12": () => pgBoss(peer, jobs),
};
if (!(peer in peers)) throw new Error(`unknown peer ${peer}: use ${Object.keys(peers).join(", ")}`);
console.log(JSON.stringify(await peers[peer]()));
process.exit(0);
