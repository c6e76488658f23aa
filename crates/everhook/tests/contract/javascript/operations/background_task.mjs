// Background tasks. Expunging an application is the shortest of them.

import assert from "node:assert/strict";

import { check, exercise, fails, ids, pages, recent, sameList } from "../harness.mjs";

async function purge(world, messages) {
  const application = await world.application();
  for (let n = 0; n < messages; n++) await world.message(application);
  return world.client.message.expungeAllContents(application.id);
}

exercise("background_task.list", async (world) => {
  const tasks = [];
  for (let n = 0; n < 3; n++) tasks.push(await world.finished(await purge(world, n)));
  const ask = (query) => world.client.backgroundTask.list(query);
  sameList(await pages(2, (query) => ask({ ...query, order: "ascending" })), tasks);
  assert.deepEqual(ids((await ask({ limit: 1, order: "descending" })).data), [tasks[2].id]);
  assert.equal((await ask({ task: "application.purge_content" })).data.length, 3);
  assert.deepEqual((await ask({ task: "endpoint.recover" })).data, []);
  assert.equal((await ask({ status: "finished" })).data.length, 3);
  assert.deepEqual((await ask({ status: "failed" })).data, []);
});

exercise("background_task.get", async (world) => {
  const task = await purge(world, 2);
  assert.equal((await world.client.backgroundTask.get(task.id)).id, task.id);
  const ended = await world.finished(task);
  check(await world.client.backgroundTask.get(task.id), {
    id: task.id,
    status: "finished",
    task: "application.purge_content",
    updatedAt: recent,
    data: (data) => data.messagesPurged === 2,
  });
  assert.ok(ended.updatedAt >= task.updatedAt);
  await fails(404, () => world.client.backgroundTask.get(`qtask_${"1".repeat(27)}`), "not_found");
});

exercise("background_task.get", async function ofAnApplication(world) {
  const [application, other] = [await world.application(), await world.application()];
  const task = await world.client.message.expungeAllContents(application.id);
  const get = async (owner) => (await world.portal(owner)).backgroundTask.get(task.id);
  assert.equal((await get(application)).id, task.id);
  await fails(404, () => get(other));
});
