// Applications.

import assert from "node:assert/strict";

import { Receiver, applicationOut, check, exercise, fails, ids, pages, same, sameList, unique } from "../harness.mjs";

exercise("application.create", async (world) => {
  const fields = { name: "Acme Ltd", uid: unique("app"), throttleRate: 50, metadata: { plan: "gold" } };
  const made = await world.client.application.create(fields);
  check(made, applicationOut(fields));
  assert.ok(made.updatedAt >= made.createdAt);
  check(await world.client.application.create({ name: "Bare" }), applicationOut({ name: "Bare" }));
  await fails(409, () => world.client.application.create(fields), "conflict");
  const error = await fails(422, () => world.client.application.create({ name: "" }));
  assert.deepEqual(error.body.detail[0].loc, ["body", "name"]);
});

exercise("application.create", async function twiceWithOneKey(world) {
  const idempotencyKey = unique("key");
  const create = (name) => world.client.application.create({ name }, { idempotencyKey });
  const first = await create("Once");
  assert.equal((await create("Once")).id, first.id);
  await fails(409, () => create("Other"));
  assert.equal((await world.client.application.list()).data.length, 1);
});

exercise("application.get_or_create", async (world) => {
  const uid = unique("app");
  const first = await world.client.application.getOrCreate({ name: "First", uid });
  check(first, applicationOut({ name: "First", uid }));
  same(await world.client.application.getOrCreate({ name: "Second", uid }), first);
});

exercise("application.get", async (world) => {
  const made = await world.application({ metadata: { a: "b" } });
  same(await world.client.application.get(made.id), made);
  same(await world.client.application.get(made.uid), made);
  await fails(404, () => world.client.application.get("no-such-application"), "not_found");
});

exercise("application.list", async (world) => {
  const made = [];
  for (let n = 0; n < 5; n++) made.push(await world.application({ name: `Number ${n}` }));
  const ask = (query) => world.client.application.list(query);
  sameList(await pages(2, ask), made);
  const first = await ask({ limit: 2 });
  check(first, { data: first.data, iterator: made[1].id, prevIterator: `-${made[0].id}`, done: false });
  const second = await ask({ limit: 2, iterator: first.iterator });
  assert.deepEqual(ids((await ask({ limit: 2, iterator: second.prevIterator })).data), ids(made.slice(0, 2)));
  assert.deepEqual(ids((await ask({ limit: 1, order: "descending" })).data), [made[4].id]);
  await fails(422, () => ask({ limit: 251 }));
});

exercise("application.list", async function withoutUnusedOnes(world) {
  const [none, off, used] = [await world.application(), await world.application(), await world.application()];
  await world.endpoint(off, new Receiver(), { disabled: true });
  await world.endpoint(used, new Receiver());
  const ask = async (query) => ids((await world.client.application.list(query)).data);
  assert.deepEqual(await ask(), ids([none, off, used]));
  assert.deepEqual(await ask({ excludeAppsWithNoEndpoints: true }), ids([off, used]));
  assert.ok(!(await ask({ excludeAppsWithDisabledEndpoints: true })).includes(off.id));
});

exercise("application.upsert", async (world) => {
  const made = await world.application({ name: "Before", metadata: { a: "b" }, throttleRate: 5 });
  const after = await world.client.application.upsert(made.uid, { name: "After", uid: made.uid });
  check(after, applicationOut({ id: made.id, name: "After", uid: made.uid, createdAt: made.createdAt }));
  same(await world.client.application.get(made.id), after);
  const uid = unique("app");
  const created = await world.client.application.upsert(uid, { name: "New", uid });
  check(created, applicationOut({ name: "New", uid }));
  const taken = { name: "Taken", uid: made.uid };
  await fails(409, () => world.client.application.upsert(created.id, taken), "conflict");
});

exercise("application.patch", async (world) => {
  const made = await world.application({ throttleRate: 5, metadata: { a: "b" } });
  const change = (fields) => world.client.application.patch(made.id, fields);
  const kept = { id: made.id, name: "Renamed", uid: made.uid, throttleRate: 5, metadata: { a: "b" } };
  check(await change({ name: "Renamed" }), applicationOut(kept));
  const cleared = { uid: null, throttleRate: null, metadata: { c: "d" } };
  const after = await change(cleared);
  check(after, applicationOut({ ...kept, ...cleared }));
  same(await world.client.application.get(made.id), after);
  await fails(404, () => world.client.application.get(made.uid));
  await fails(404, () => world.client.application.patch("no-such-application", { name: "x" }), "not_found");
});

exercise("application.delete", async (world) => {
  const made = await world.application();
  await world.client.application.delete(made.uid);
  await fails(404, () => world.client.application.get(made.id), "not_found");
  assert.deepEqual((await world.client.application.list()).data, []);
  assert.notEqual((await world.client.application.create({ name: "Again", uid: made.uid })).id, made.id);
  await fails(404, () => world.client.application.delete("no-such-application"), "not_found");
});
