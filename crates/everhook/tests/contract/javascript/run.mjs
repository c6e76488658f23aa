// Exercises every operation of the npm package `svix` against a real server.
//
//     node run.mjs SERVER_URL JWT_SECRET NODE_MODULES [--package svix-1] [--report FILE] [OPERATION ...]
//
// Each exercise gets an environment of its own, whose token is signed with the server's JWT_SECRET. NODE_MODULES is a
// folder that has the packages `svix-1` and `svix-2`. Names of operations, spelt as in Python, choose their exercises;
// without a name all run. `--report` writes the results for `compatibility.py`, which compares them with `claims.json`.
//
// The server needs the retry schedule `0,0,0,5`: exercises watch deliveries that wait for a retry or are given up.

import { writeFile } from "node:fs/promises";
import { inspect, parseArgs } from "node:util";

import { Package } from "./dialect.mjs";
import { EXERCISES, Receiver, World } from "./harness.mjs";

import "./operations/application.mjs";
import "./operations/authentication.mjs";
import "./operations/background_task.mjs";
import "./operations/endpoint.mjs";
import "./operations/endpoint_replay.mjs";
import "./operations/endpoint_stats.mjs";
import "./operations/event_type.mjs";
import "./operations/integration.mjs";
import "./operations/message.mjs";
import "./operations/message_attempt.mjs";
import "./operations/message_poller.mjs";
import "./operations/operational_webhook.mjs";
import "./operations/statistics.mjs";

// Exercises mostly wait for the server.
const WORKERS = 12;

async function main() {
  const options = { package: { type: "string", default: "svix-2" }, report: { type: "string" } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [url, jwtSecret, modules, ...named] = positionals;
  const svix = await Package.load(modules, values.package);
  const methods = svix.methods();
  const chosen = named.length > 0 ? named : [...EXERCISES.keys()];
  await Receiver.start();
  const exists = (operation) => methods.includes(operation);
  const newResult = (operation) => ({ state: exists(operation) ? "passed" : "absent", problem: "", seconds: 0 });
  const results = Object.fromEntries(chosen.map((operation) => [operation, newResult(operation)]));
  const exercisesOf = (operation) => EXERCISES.get(operation).map((exercise) => [results[operation], exercise]);
  const waiting = chosen.filter(exists).flatMap(exercisesOf);
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [result, exercise] = next;
      await run(exercise, new World({ url, jwtSecret }, svix), result);
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  Receiver.stop();
  for (const operation of chosen) {
    const { state, seconds, problem } = results[operation];
    process.stdout.write(`${state.padEnd(7)} ${operation} (${seconds.toFixed(2)} s)\n${problem}`);
  }
  if (values.report) {
    const report = { package: "javascript", version: svix.version, methods, results };
    await writeFile(values.report, JSON.stringify(report, null, 1));
  }
  const passed = Object.values(results).filter(({ state }) => state === "passed").length;
  console.log(`svix ${svix.version}: ${passed} of ${chosen.length} operations passed`);
}

// Runs an exercise, and adds its outcome to the result of the operation.
async function run(exercise, world, result) {
  const started = performance.now();
  try {
    await exercise(world);
  } catch (error) {
    result.state = "failed";
    result.problem += `${inspect(error)}\n`;
  }
  result.seconds += (performance.now() - started) / 1000;
}

await main();
