// Endpoints, their secrets and their headers.

import assert from "node:assert/strict";

import {
  Receiver,
  check,
  endpointOut,
  exercise,
  fails,
  ids,
  isAKey,
  newKey,
  pages,
  same,
  sameList,
  unique,
} from "../harness.mjs";

exercise("endpoint.create", async (world) => {
  const [application, receiver, kind] = [await world.application(), new Receiver(), await world.eventType()];
  const fields = {
    url: receiver.url,
    description: "Invoices",
    uid: unique("endpoint"),
    disabled: false,
    throttleRate: 100,
    eventTypes: [kind.name],
    channels: ["blue", "red"],
    metadata: { team: "billing" },
  };
  const wanted = { ...fields, secret: newKey(), headers: { "x-team": "billing" } };
  check(await world.client.endpoint.create(application.uid, wanted), endpointOut(fields));
  await world.message(application, { eventType: kind.name, channels: ["red"] });
  const delivery = await receiver.next();
  assert.equal(delivery.headers["x-team"], "billing");
  assert.deepEqual(world.verify(delivery, wanted.secret), { amount: 12 });
  await fails(409, () => world.client.endpoint.create(application.uid, wanted), "conflict");
});

exercise("endpoint.create", async function withDefaults(world) {
  const [application, receiver] = [await world.application(), new Receiver()];
  const made = await world.client.endpoint.create(application.id, { url: receiver.url });
  check(made, endpointOut({ url: receiver.url }));
  const bad = (fields) => fails(422, () => world.endpoint(application, receiver, fields));
  assert.deepEqual((await bad({ url: "nonsense" })).body.detail[0].loc, ["body", "url"]);
  await bad({ eventTypes: ["no.such.type"] });
  await bad({ headers: { "content-length": "1" } });
  await bad({ secret: "whsec_dG9vIHNob3J0" });
  await fails(404, () => world.endpoint({ id: "no-such-application" }, receiver), "not_found");
});

exercise("endpoint.get", async (world) => {
  const application = await world.application();
  const made = await world.endpoint(application, new Receiver(), { uid: unique("endpoint") });
  same(await world.client.endpoint.get(application.id, made.id), made);
  same(await world.client.endpoint.get(application.uid, made.uid), made);
  await fails(404, () => world.client.endpoint.get(application.id, "no-such-endpoint"), "not_found");
  const other = await world.application();
  await fails(404, () => world.client.endpoint.get(other.id, made.id), "not_found");
});

exercise("endpoint.list", async (world) => {
  const application = await world.application();
  const made = [];
  for (let n = 0; n < 5; n++) made.unshift(await world.endpoint(application, new Receiver(), { description: `${n}` }));
  await world.endpoint(await world.application(), new Receiver());
  const ask = (query) => world.client.endpoint.list(application.id, query);
  sameList(await pages(2, ask), made);
  const first = await ask({ limit: 2 });
  check(first, { data: first.data, iterator: made[1].id, prevIterator: `-${made[0].id}`, done: false });
  assert.deepEqual(ids((await ask({ limit: 1, order: "ascending" })).data), [made[4].id]);
  await fails(404, () => world.client.endpoint.list("no-such-application"), "not_found");
});

exercise("endpoint.upsert", async (world) => {
  const [application, receiver] = [await world.application(), new Receiver()];
  const before = { uid: unique("endpoint"), channels: ["red"], metadata: { a: "b" } };
  const made = await world.endpoint(application, new Receiver(), before);
  const { key } = await world.client.endpoint.getSecret(application.id, made.id);
  const fields = { url: receiver.url, uid: made.uid, description: "After", disabled: true };
  const after = await world.client.endpoint.upsert(application.id, made.uid, fields);
  check(after, endpointOut({ id: made.id, createdAt: made.createdAt, ...fields }));
  same(await world.client.endpoint.get(application.id, made.id), after);
  assert.equal((await world.client.endpoint.getSecret(application.id, made.id)).key, key);
  const created = { url: receiver.url, uid: unique("endpoint") };
  check(await world.client.endpoint.upsert(application.id, created.uid, created), endpointOut(created));
});

exercise("endpoint.patch", async (world) => {
  const [application, receiver, kind] = [await world.application(), new Receiver(), await world.eventType()];
  const before = { url: receiver.url, uid: unique("endpoint"), eventTypes: [kind.name], throttleRate: 7 };
  const made = await world.endpoint(application, receiver, before);
  const change = (fields) => world.client.endpoint.patch(application.id, made.id, fields);
  const off = { description: "Off", disabled: true };
  check(await change(off), endpointOut({ id: made.id, ...before, ...off }));
  const cleared = { uid: null, eventTypes: null, throttleRate: null, channels: ["red"], metadata: { a: "b" } };
  const after = await change(cleared);
  check(after, endpointOut({ id: made.id, ...before, ...off, ...cleared }));
  same(await world.client.endpoint.get(application.id, made.id), after);
  await fails(404, () => world.client.endpoint.patch(application.id, "no-such-endpoint", off), "not_found");
});

exercise("endpoint.delete", async (world) => {
  const [application, receiver] = [await world.application(), new Receiver()];
  const made = await world.endpoint(application, receiver, { uid: unique("endpoint") });
  await world.client.endpoint.delete(application.id, made.uid);
  await fails(404, () => world.client.endpoint.get(application.id, made.id), "not_found");
  assert.deepEqual((await world.client.endpoint.list(application.id)).data, []);
  assert.notEqual((await world.endpoint(application, receiver, { uid: made.uid })).id, made.id);
  await fails(404, () => world.client.endpoint.delete(application.id, made.id), "not_found");
});

exercise("endpoint.get_secret", async (world) => {
  const [application, secret] = [await world.application(), newKey()];
  const chosen = await world.endpoint(application, new Receiver(), { secret });
  check(await world.client.endpoint.getSecret(application.id, chosen.id), { key: secret });
  const made = await world.endpoint(application, new Receiver());
  check(await world.client.endpoint.getSecret(application.id, made.id), { key: isAKey });
  await fails(404, () => world.client.endpoint.getSecret(application.id, "no-such-endpoint"), "not_found");
});

exercise("endpoint.rotate_secret", async (world) => {
  const [application, receiver] = [await world.application(), new Receiver()];
  const endpoint = await world.endpoint(application, receiver);
  const current = async () => (await world.client.endpoint.getSecret(application.id, endpoint.id)).key;
  const rotate = (fields) => world.client.endpoint.rotateSecret(application.id, endpoint.id, fields);
  const deliver = async () => {
    await world.message(application);
    return receiver.next();
  };
  const first = await current();
  await rotate({});
  const second = await current();
  assert.notEqual(second, first);
  const during = await deliver();
  assert.deepEqual(world.verify(during, first), world.verify(during, second));
  const key = newKey();
  await rotate({ key, gracePeriodSeconds: 0 });
  assert.equal(await current(), key);
  const after = await deliver();
  world.verify(after, key);
  assert.throws(() => world.verify(after, second), "a secret without a grace period still signs");
  await fails(422, () => rotate({ gracePeriodSeconds: 604_801 }));
});

async function place(world, headers) {
  const [application, receiver] = [await world.application(), new Receiver()];
  return { application, receiver, endpoint: await world.endpoint(application, receiver, { headers }) };
}

exercise("endpoint.get_headers", async (world) => {
  const wanted = { "x-team": "billing", authorization: "Bearer abc" };
  const { application, endpoint } = await place(world, wanted);
  const found = await world.client.endpoint.getHeaders(application.id, endpoint.id);
  check(found, { headers: { "x-team": "billing" }, sensitive: ["authorization"] });
  const other = await place(world, wanted);
  await fails(404, () => world.client.endpoint.getHeaders(application.id, other.endpoint.id), "not_found");
});

exercise("endpoint.set_headers", async (world) => {
  const { application, endpoint, receiver } = await place(world, { "x-old": "1" });
  const set = (headers) => world.client.endpoint.setHeaders(application.id, endpoint.id, { headers });
  await set({ "x-source": "2", "x-api-key": "secret" });
  const found = await world.client.endpoint.getHeaders(application.id, endpoint.id);
  check(found, { headers: { "x-source": "2" }, sensitive: ["x-api-key"] });
  await world.message(application);
  const { headers } = await receiver.next();
  assert.deepEqual([headers["x-source"], headers["x-api-key"], headers["x-old"]], ["2", "secret", undefined]);
  await fails(422, () => set({ "svix-id": "x" }));
});

exercise("endpoint.patch_headers", async (world) => {
  const { application, endpoint, receiver } = await place(world, { "x-one": "1", "x-region": "2", "x-service": "3" });
  const wanted = { headers: { "x-region": "changed", "x-version": "4" }, deleteHeaders: ["x-one"] };
  await world.client.endpoint.patchHeaders(application.id, endpoint.id, wanted);
  const found = await world.client.endpoint.getHeaders(application.id, endpoint.id);
  check(found, { headers: { "x-region": "changed", "x-service": "3", "x-version": "4" }, sensitive: [] });
  await world.message(application);
  const { headers } = await receiver.next();
  assert.deepEqual([headers["x-one"], headers["x-region"], headers["x-version"]], [undefined, "changed", "4"]);
});
