// Endpoints of the operator, which get signed webhooks about the environment itself.

import assert from "node:assert/strict";

import {
  Receiver,
  anId,
  check,
  exercise,
  fails,
  isAKey,
  newKey,
  operationalEndpointOut,
  pages,
  same,
  sameList,
  unique,
} from "../harness.mjs";

function operational(world, receiver, fields) {
  return world.client.operationalWebhook.endpoint.create({ url: receiver.url, ...fields });
}

// Returns the data of the next webhook of this kind. Before it, only general news of a change may come.
async function event(world, receiver, key, kind) {
  for (;;) {
    const { type, data } = world.verify(await receiver.next(), key);
    if (type === kind) return data;
    assert.equal(type, "endpoint.updated");
  }
}

// Checks the four fields that every event about an endpoint has.
function about(data, application, endpoint) {
  const { appId, appUid, endpointId, endpointUid } = data;
  const expected = [application.id, application.uid, endpoint.id, endpoint.uid];
  assert.deepEqual([appId, appUid, endpointId, endpointUid], expected);
}

exercise("operational_webhook.endpoint.create", async (world) => {
  const [receiver, secret] = [new Receiver(), newKey()];
  const fields = { url: receiver.url, description: "Alerts", uid: unique("alerts"), throttleRate: 10, disabled: false };
  Object.assign(fields, { eventTypes: ["endpoint.created"], metadata: { team: "on-call" } });
  const wanted = { ...fields, secret, headers: { "x-team": "on-call" } };
  check(await world.client.operationalWebhook.endpoint.create(wanted), operationalEndpointOut(fields));
  const application = await world.application();
  const endpoint = await world.endpoint(application, new Receiver(), { uid: unique("endpoint") });
  const delivery = await receiver.next();
  // The 1.x package does not send headers of operational endpoints.
  assert.ok(world.svix.old || delivery.headers["x-team"] === "on-call");
  const { type, data } = world.verify(delivery, secret);
  assert.equal(type, "endpoint.created");
  about(data, application, endpoint);
  await fails(409, () => world.client.operationalWebhook.endpoint.create(wanted), "conflict");
  await fails(422, () => operational(world, receiver, { url: "nonsense" }));
  const client = await world.portal(application);
  await fails(403, () => client.operationalWebhook.endpoint.list());
});

exercise("operational_webhook.endpoint.create", async function eventsOfAnEndpoint(world) {
  const [receiver, secret] = [new Receiver(), newKey()];
  await operational(world, receiver, { secret });
  const application = await world.application();
  const endpoint = await world.endpoint(application, new Receiver(), { uid: unique("endpoint") });
  about(await event(world, receiver, secret, "endpoint.created"), application, endpoint);
  const change = (fields) => world.client.endpoint.patch(application.id, endpoint.id, fields);
  await change({ description: "Changed" });
  about(await event(world, receiver, secret, "endpoint.updated"), application, endpoint);
  await change({ disabled: true });
  const disabled = await event(world, receiver, secret, "endpoint.disabled");
  about(disabled, application, endpoint);
  assert.equal(disabled.trigger, "manual");
  await change({ disabled: false });
  about(await event(world, receiver, secret, "endpoint.enabled"), application, endpoint);
  await world.client.endpoint.delete(application.id, endpoint.id);
  about(await event(world, receiver, secret, "endpoint.deleted"), application, endpoint);
});

exercise("operational_webhook.endpoint.create", async function eventsOfAttempts(world) {
  const [receiver, secret] = [new Receiver(), newKey()];
  const [failing, exhausted, recovered] = ["failing", "exhausted", "recovered"].map((n) => `message.attempt.${n}`);
  await operational(world, receiver, { secret, eventTypes: [failing, exhausted, recovered] });
  const [application, target] = [await world.application(), new Receiver(500)];
  const endpoint = await world.endpoint(application, target);
  const lost = await world.message(application, { eventId: unique("event") });
  for (const kind of [failing, exhausted]) {
    const { appId, appUid, endpointId, msgId, msgEventId, lastAttempt } = await event(world, receiver, secret, kind);
    const expected = [application.id, application.uid, endpoint.id, lost.id, lost.eventId];
    assert.deepEqual([appId, appUid, endpointId, msgId, msgEventId], expected);
    assert.ok(anId("atmpt_")(lastAttempt.id) && lastAttempt.responseStatusCode === 500 && lastAttempt.timestamp);
  }
  const late = await world.message(application);
  assert.equal((await event(world, receiver, secret, failing)).msgId, late.id);
  target.status = 200;
  assert.equal((await event(world, receiver, secret, recovered)).msgId, late.id);
});

exercise("operational_webhook.endpoint.create", async function eventOfATask(world) {
  const [receiver, secret] = [new Receiver(), newKey()];
  await operational(world, receiver, { secret, eventTypes: ["background_task.finished"] });
  const started = await world.client.message.expungeAllContents((await world.application()).id);
  const { taskId, task, status, data } = await event(world, receiver, secret, "background_task.finished");
  assert.deepEqual([taskId, task, status], [started.id, "application.purge_content", "finished"]);
  assert.equal(data.messagesPurged, 0);
});

exercise("operational_webhook.endpoint.get", async (world) => {
  const made = await operational(world, new Receiver(), { uid: unique("alerts") });
  same(await world.client.operationalWebhook.endpoint.get(made.id), made);
  same(await world.client.operationalWebhook.endpoint.get(made.uid), made);
  await fails(404, () => world.client.operationalWebhook.endpoint.get("no-such-endpoint"), "not_found");
});

exercise("operational_webhook.endpoint.list", async (world) => {
  const made = [];
  for (let n = 0; n < 5; n++) made.push(await operational(world, new Receiver(), { description: `Number ${n}` }));
  const ask = (query) => world.client.operationalWebhook.endpoint.list(query);
  sameList(await pages(2, (query) => ask({ ...query, order: "ascending" })), made);
  const newest = await ask({ limit: 1, order: "descending" });
  check(newest, { data: newest.data, iterator: made[4].id, prevIterator: `-${made[4].id}`, done: false });
});

exercise("operational_webhook.endpoint.upsert", async (world) => {
  const receiver = new Receiver();
  const before = { uid: unique("alerts"), metadata: { a: "b" }, throttleRate: 3 };
  const made = await operational(world, new Receiver(), before);
  const upsert = (id, fields) => world.client.operationalWebhook.endpoint.upsert(id, fields);
  const fields = { url: receiver.url, uid: made.uid, description: "After", disabled: true };
  const after = await upsert(made.uid, fields);
  check(after, operationalEndpointOut({ id: made.id, createdAt: made.createdAt, ...fields }));
  same(await world.client.operationalWebhook.endpoint.get(made.id), after);
  const created = { url: receiver.url, uid: unique("alerts") };
  check(await upsert(created.uid, created), operationalEndpointOut(created));
});

exercise("operational_webhook.endpoint.delete", async (world) => {
  const [receiver, witness] = [new Receiver(), new Receiver()];
  const made = await operational(world, receiver);
  await operational(world, witness);
  await world.client.operationalWebhook.endpoint.delete(made.id);
  await fails(404, () => world.client.operationalWebhook.endpoint.get(made.id), "not_found");
  await world.endpoint(await world.application(), new Receiver());
  assert.equal(JSON.parse((await witness.next()).body).type, "endpoint.created");
  receiver.nothing();
});

exercise("operational_webhook.endpoint.get_secret", async (world) => {
  const key = newKey();
  const chosen = await operational(world, new Receiver(), { secret: key });
  check(await world.client.operationalWebhook.endpoint.getSecret(chosen.id), { key });
  const made = await operational(world, new Receiver());
  check(await world.client.operationalWebhook.endpoint.getSecret(made.id), { key: isAKey });
});

exercise("operational_webhook.endpoint.rotate_secret", async (world) => {
  const [receiver, first, second] = [new Receiver(), newKey(), newKey()];
  const made = await operational(world, receiver, { secret: first });
  const current = async () => (await world.client.operationalWebhook.endpoint.getSecret(made.id)).key;
  await world.client.operationalWebhook.endpoint.rotateSecret(made.id, { key: second });
  assert.equal(await current(), second);
  await world.endpoint(await world.application(), new Receiver());
  const delivery = await receiver.next();
  assert.deepEqual(world.verify(delivery, first), world.verify(delivery, second));
  await world.client.operationalWebhook.endpoint.rotateSecret(made.id, {});
  assert.ok(![first, second].includes(await current()));
});

exercise("operational_webhook.endpoint.get_headers", async (world) => {
  const made = await operational(world, new Receiver());
  const get = () => world.client.operationalWebhook.endpoint.getHeaders(made.id);
  check(await get(), { headers: {}, sensitive: [] });
  const headers = { "x-team": "on-call", authorization: "Bearer abc" };
  await world.client.operationalWebhook.endpoint.setHeaders(made.id, { headers });
  check(await get(), { headers: { "x-team": "on-call" }, sensitive: ["authorization"] });
});

exercise("operational_webhook.endpoint.set_headers", async (world) => {
  const receiver = new Receiver();
  const made = await operational(world, receiver);
  const set = (headers) => world.client.operationalWebhook.endpoint.setHeaders(made.id, { headers });
  await set({ "x-old": "1" });
  await set({ "x-new": "2" });
  await world.endpoint(await world.application(), new Receiver());
  const { headers } = await receiver.next();
  assert.deepEqual([headers["x-old"], headers["x-new"]], [undefined, "2"]);
  await fails(422, () => set({ "svix-id": "x" }));
});
