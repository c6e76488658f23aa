// Integrations: named, lasting keys of one application.

import assert from "node:assert/strict";

import { Receiver, anId, check, empty, exercise, fails, pages, recent, same, sameList, text } from "../harness.mjs";

const MISSING = `integ_${"1".repeat(27)}`;

function integration(world, application, fields) {
  return world.client.integration.create(application.id, { name: "No-code tool", ...fields });
}

function integrationOut(fields) {
  return { id: anId("integ_"), featureFlags: empty, createdAt: recent, updatedAt: recent, ...fields };
}

exercise("integration.create", async (world) => {
  const application = await world.application();
  const fields = { name: "No-code tool", featureFlags: ["beta"] };
  check(await world.client.integration.create(application.uid, fields), integrationOut(fields));
  check(await integration(world, application, { name: "Bare" }), integrationOut({ name: "Bare" }));
  await fails(404, () => world.client.integration.create("no-such-application", fields), "not_found");
});

exercise("integration.get", async (world) => {
  const [application, other] = [await world.application(), await world.application()];
  const made = await integration(world, application);
  same(await world.client.integration.get(application.id, made.id), made);
  await fails(404, () => world.client.integration.get(application.id, MISSING), "not_found");
  await fails(404, () => world.client.integration.get(other.id, made.id), "not_found");
});

exercise("integration.list", async (world) => {
  const application = await world.application();
  const made = [];
  for (let n = 0; n < 5; n++) made.push(await integration(world, application, { name: `Tool ${n}` }));
  await integration(world, await world.application());
  const ask = (query) => world.client.integration.list(application.id, query);
  sameList(await pages(2, (query) => ask({ ...query, order: "ascending" })), made);
  const newest = await ask({ limit: 1, order: "descending" });
  check(newest, { data: newest.data, iterator: made[4].id, prevIterator: `-${made[4].id}`, done: false });
});

exercise("integration.update", async (world) => {
  const application = await world.application();
  const made = await integration(world, application, { featureFlags: ["beta"] });
  const fields = { name: "After", featureFlags: ["gamma"] };
  const after = await world.client.integration.update(application.id, made.id, fields);
  check(after, integrationOut({ id: made.id, createdAt: made.createdAt, ...fields }));
  same(await world.client.integration.get(application.id, made.id), after);
  await fails(404, () => world.client.integration.update(application.id, MISSING, fields), "not_found");
});

exercise("integration.delete", async (world) => {
  const application = await world.application();
  const made = await integration(world, application);
  const client = world.clientWith((await world.client.integration.rotateKey(application.id, made.id)).key);
  assert.deepEqual((await client.endpoint.list(application.id)).data, []);
  await world.client.integration.delete(application.id, made.id);
  await fails(404, () => world.client.integration.get(application.id, made.id), "not_found");
  await fails(401, () => client.endpoint.list(application.id));
  assert.deepEqual((await world.client.integration.list(application.id)).data, []);
});

exercise("integration.rotate_key", async (world) => {
  const [application, other] = [await world.application(), await world.application()];
  const made = await integration(world, application);
  const rotate = () => world.client.integration.rotateKey(application.id, made.id);
  const answer = await rotate();
  check(answer, { key: text });
  const client = world.clientWith(answer.key);
  const { url } = new Receiver();
  assert.equal((await client.endpoint.create(application.id, { url })).url, url);
  await fails(404, () => client.endpoint.list(other.id));
  await fails(403, () => client.application.list());
  const second = world.clientWith((await rotate()).key);
  assert.equal((await second.endpoint.list(application.id)).data.length, 1);
  await fails(401, () => client.endpoint.list(application.id));
});
