// Messages and their content.

import assert from "node:assert/strict";

import { Receiver, Status, applicationOut, check, exercise, fails, hoursAgo } from "../harness.mjs";
import { ids, messageOut, pages, taskOut, unique } from "../harness.mjs";

const EXPUNGED = { expired: true };
const WITH_CONTENT = { withContent: true };

async function payload(world, application, message) {
  return (await world.client.message.get(application.id, message.id, WITH_CONTENT)).payload;
}

exercise("message.create", async (world) => {
  const [application, receiver] = [await world.application(), new Receiver()];
  const endpoint = await world.endpoint(application, receiver);
  const { key } = await world.client.endpoint.getSecret(application.id, endpoint.id);
  const content = { name: "Zoë", amount: 12.5, list: [1, null, true] };
  const fields = { eventType: "invoice.paid", eventId: unique("event"), channels: ["red"], tags: ["a", "b"] };
  const wanted = { ...fields, payload: content, payloadRetentionPeriod: 10 };
  const sent = await world.client.message.create(application.uid, wanted, WITH_CONTENT);
  check(sent, messageOut({ payload: content, ...fields }));
  const delivery = await receiver.next();
  assert.deepEqual(world.verify(delivery, key), content);
  assert.equal(delivery.headers["webhook-id"], sent.id);
  await fails(409, () => world.client.message.create(application.id, wanted), "conflict");
  const error = await fails(422, () => world.message(application, { eventType: "not a name" }));
  assert.deepEqual(error.body.detail[0].loc, ["body", "eventType"]);
  await fails(404, () => world.message({ id: "no-such-application" }), "not_found");
});

exercise("message.create", async function twiceWithOneKey(world) {
  const [application, idempotencyKey] = [await world.application(), unique("key")];
  const create = (n) =>
    world.client.message.create(application.id, { eventType: "a", payload: { n } }, { idempotencyKey });
  const first = await create(1);
  assert.equal((await create(1)).id, first.id);
  await fails(409, () => create(2));
});

exercise("message.create", async function withAnApplication(world) {
  const application = { name: "On the fly", uid: unique("app") };
  const create = (uid) => world.client.message.create(uid, { eventType: "a", payload: {}, application });
  const sent = await create(application.uid);
  assert.equal((await world.client.message.get(application.uid, sent.id)).id, sent.id);
  check(await world.client.application.get(application.uid), applicationOut(application));
  await fails(422, () => create(unique("app")));
});

exercise("message.create", async function forLater(world) {
  const [application, receiver] = [await world.application(), new Receiver()];
  await world.endpoint(application, receiver);
  const deliverAt = hoursAgo(-1);
  const sent = await world.message(application, { deliverAt });
  assert.equal(sent.deliverAt.getTime(), deliverAt.getTime());
  await world.message(application, { payload: { n: 2 } });
  assert.deepEqual(JSON.parse((await receiver.next()).body), { n: 2 });
  assert.equal((await world.destination(application, sent)).status, Status.PENDING);
  receiver.nothing();
});

exercise("message.get", async (world) => {
  const [application, other] = [await world.application(), await world.application()];
  const fields = { eventId: unique("event"), tags: ["a"], channels: ["red"] };
  const sent = await world.message(application, fields);
  const expected = { id: sent.id, ...fields };
  for (const name of [sent.id, sent.eventId]) {
    const found = await world.client.message.get(application.id, name, WITH_CONTENT);
    check(found, messageOut({ payload: { amount: 12 }, ...expected }));
  }
  const without = await world.client.message.get(application.id, sent.id, { withContent: false });
  check(without, messageOut(expected));
  await fails(404, () => world.client.message.get(application.id, "no-such-message"), "not_found");
  await fails(404, () => world.client.message.get(other.id, sent.id), "not_found");
});

exercise("message.list", async (world) => {
  const application = await world.application();
  const sent = [];
  for (let n = 0; n < 5; n++) sent.unshift(await world.message(application, { payload: { n } }));
  await world.message(await world.application());
  const ask = (query) => world.client.message.list(application.id, query);
  const found = await pages(2, (query) => ask({ ...query, withContent: true }));
  assert.equal(found.length, 5);
  found.forEach((message, n) => check(message, messageOut({ id: sent[n].id, payload: { n: 4 - n } })));
  const first = await ask({ limit: 2, withContent: false });
  check(first, { data: first.data, iterator: sent[1].id, prevIterator: `-${sent[0].id}`, done: false });
  assert.deepEqual(first.data.map((message) => message.payload), [{}, {}]);
});

exercise("message.list", async function ofSome(world) {
  const application = await world.application();
  const paid = await world.message(application, { channels: ["red"] });
  const sent = await world.message(application, { eventType: "invoice.sent", tags: ["a"] });
  const ask = async (query) => ids((await world.client.message.list(application.id, query)).data);
  assert.deepEqual(await ask(), ids([sent, paid]));
  assert.deepEqual(await ask({ eventTypes: ["invoice.paid"] }), [paid.id]);
  assert.deepEqual(await ask({ eventTypes: ["invoice.paid", "invoice.sent"] }), ids([sent, paid]));
  assert.deepEqual(await ask({ channel: "red" }), [paid.id]);
  assert.deepEqual(await ask({ tag: "a" }), [sent.id]);
  assert.deepEqual(await ask({ before: hoursAgo(1) }), []);
  assert.deepEqual(await ask({ after: hoursAgo(1) }), ids([sent, paid]));
});

exercise("message.precheck", async (world) => {
  const [application, kind] = [await world.application(), await world.eventType()];
  const filters = { eventTypes: [kind.name], channels: ["red"] };
  const endpoint = await world.endpoint(application, new Receiver(), filters);
  const expect = async (active, eventType, channels) =>
    check(await world.client.message.precheck(application.id, { eventType, channels }), { active });
  await expect(true, kind.name, ["red"]);
  await expect(true, kind.name, ["red", "blue"]);
  await expect(false, kind.name, ["blue"]);
  await expect(false, "other", ["red"]);
  await world.client.endpoint.patch(application.id, endpoint.id, { disabled: true });
  await expect(false, kind.name, ["red"]);
  assert.deepEqual((await world.client.message.list(application.id)).data, []);
  await fails(404, () => world.client.message.precheck("no-such-application", { eventType: "a" }), "not_found");
});

exercise("message.expunge_content", async (world) => {
  const application = await world.application();
  const [sent, kept] = [await world.message(application), await world.message(application)];
  await world.client.message.expungeContent(application.id, sent.id);
  const found = await world.client.message.get(application.id, sent.id, WITH_CONTENT);
  check(found, messageOut({ id: sent.id, payload: EXPUNGED }));
  assert.deepEqual(await payload(world, application, kept), { amount: 12 });
  await fails(404, () => world.client.message.expungeContent(application.id, "no-such-message"), "not_found");
});

exercise("message.bulk_expunge_content", async (world) => {
  const application = await world.application();
  const messages = [];
  for (let n = 0; n < 3; n++) messages.push(await world.message(application, { eventId: unique("event") }));
  const [first, second, kept] = messages;
  const elsewhere = await world.message(await world.application());
  const expunge = (list) => world.client.message.bulkExpungeContent(application.id, { ids: list });
  const results = { [first.id]: "expunged", [second.eventId]: "expunged", [elsewhere.id]: "not-found" };
  results["no-such-message"] = "not-found";
  check(await expunge(Object.keys(results)), { results });
  assert.deepEqual(await payload(world, application, first), EXPUNGED);
  assert.deepEqual(await payload(world, application, second), EXPUNGED);
  assert.deepEqual(await payload(world, application, kept), { amount: 12 });
  check(await expunge([]), { results: {} });
  await fails(422, () => expunge(Array.from({ length: 251 }, (_, n) => `event-${n}`)));
});

exercise("message.expunge_all_contents", async (world) => {
  const [application, other] = [await world.application(), await world.application()];
  const sent = [];
  for (let n = 0; n < 3; n++) sent.push(await world.message(application));
  const kept = await world.message(other);
  const task = await world.client.message.expungeAllContents(application.id);
  check(task, taskOut("application.purge_content"));
  assert.equal((await world.finished(task)).data.messagesPurged, 3);
  for (const message of sent) assert.deepEqual(await payload(world, application, message), EXPUNGED);
  assert.deepEqual(await payload(world, other, kept), { amount: 12 });
  await fails(404, () => world.client.message.expungeAllContents("no-such-application"), "not_found");
});
