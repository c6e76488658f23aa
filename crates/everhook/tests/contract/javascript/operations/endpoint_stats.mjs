// Counts of an endpoint's attempts, and example messages.

import assert from "node:assert/strict";

import { Receiver, check, exercise, fails, hoursAgo, messageOut, until } from "../harness.mjs";

// An endpoint with two successes and one delivery that failed five times.
async function placeWithAttempts(world) {
  const [application, receiver] = [await world.application(), new Receiver()];
  const endpoint = await world.endpoint(application, receiver);
  for (let n = 0; n < 2; n++) await world.attempted(application, await world.message(application));
  receiver.status = 500;
  await world.exhausted(application, await world.message(application));
  return [application, endpoint];
}

async function counted(ask, counts) {
  // Counters may be written a moment after the attempts.
  await until("all attempts are counted", async () => {
    const { success, fail } = await ask();
    return success + fail >= 7;
  });
  check(await ask(), counts);
  check(await ask({ since: hoursAgo(2), until: new Date() }), counts);
  const none = Object.fromEntries(Object.keys(counts).map((name) => [name, 0]));
  check(await ask({ since: hoursAgo(48), until: hoursAgo(24) }), none);
}

exercise("endpoint.get_stats", async (world) => {
  const [application, endpoint] = await placeWithAttempts(world);
  const ask = (query) => world.client.endpoint.getStats(application.id, endpoint.id, query);
  await counted(ask, { success: 2, pending: 0, sending: 0, fail: 5, canceled: 0 });
  await fails(400, () => ask({ since: hoursAgo(40 * 24) }), "invalid_range");
  await fails(404, () => world.client.endpoint.getStats(application.id, "no-such-endpoint"), "not_found");
});

exercise("endpoint.get_attempt_stats", async (world) => {
  const [application, endpoint] = await placeWithAttempts(world);
  const ask = (query) => world.client.endpoint.getAttemptStats(application.id, endpoint.id, query);
  await counted(ask, { success: 2, fail: 5, canceled: 0 });
  await fails(404, () => world.client.endpoint.getAttemptStats(application.id, "no-such-endpoint"), "not_found");
});

exercise("endpoint.send_example", async (world) => {
  const [application, receiver, other] = [await world.application(), new Receiver(), new Receiver()];
  const examples = [{ amount: 1 }, { amount: 2 }];
  const kind = await world.eventType({ schemas: { 1: { type: "object", title: "Invoice", examples } } });
  const endpoint = await world.endpoint(application, receiver);
  await world.endpoint(application, other);
  const { key } = await world.client.endpoint.getSecret(application.id, endpoint.id);
  const send = (fields) =>
    world.client.endpoint.sendExample(application.id, endpoint.id, { eventType: kind.name, ...fields });
  const sent = await send();
  const payload = (value) => ["{}", '{"amount":1}'].includes(JSON.stringify(value));
  check(sent, messageOut({ eventType: kind.name, payload }));
  const delivery = await receiver.next();
  assert.deepEqual(world.verify(delivery, key), { amount: 1 });
  assert.equal(delivery.headers["webhook-id"], sent.id);
  await send({ exampleIndex: 1 });
  assert.deepEqual(world.verify(await receiver.next(), key), { amount: 2 });
  await fails(422, () => send({ exampleIndex: 2 }));
  await fails(404, () => send({ eventType: "no.such.type" }), "not_found");
  // This type needs no definition.
  await send({ eventType: "svix.ping" });
  assert.deepEqual(world.verify(await receiver.next(), key), { success: true });
  other.nothing();
});

exercise("endpoint.send_example", async function withoutOne(world) {
  const application = await world.application();
  const endpoint = await world.endpoint(application, new Receiver());
  const send = ({ name }) => world.client.endpoint.sendExample(application.id, endpoint.id, { eventType: name });
  const bare = await world.eventType();
  await fails(400, () => send(bare), "invalid_scheme");
  await world.client.endpoint.patch(application.id, endpoint.id, { disabled: true });
  const kind = await world.eventType({ schemas: { 1: { type: "object", examples: [{ amount: 1 }] } } });
  await fails(400, () => send(kind));
});
