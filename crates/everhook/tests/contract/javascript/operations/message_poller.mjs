// Pollers: a consumer asks for messages instead of receiving them.

import assert from "node:assert/strict";

import { check, exercise, fails, hoursAgo, ids, isObject, messageOut, text, unique } from "../harness.mjs";

// Creates a polling endpoint. The route belongs to destinations, of which Everhook has only this type.
async function poller(world) {
  const application = await world.application();
  const wanted = { type: "pollingEndpoint", config: {} };
  return [application, (await world.raw("POST", `/app/${application.id}/destination`, wanted)).id];
}

function polled(fields) {
  return messageOut({ payload: { amount: 12 }, headers: (value) => value === null || isObject(value), ...fields });
}

exercise("message.poller.poll", async (world) => {
  const [application, sink] = await poller(world);
  const ask = (query) => world.client.message.poller.poll(application.id, sink, query);
  const start = await ask();
  check(start, { data: [], iterator: text, done: true });
  const fields = { eventId: unique("event"), channels: ["red"], tags: ["a"] };
  const sent = [await world.message(application, fields)];
  for (let n = 0; n < 2; n++) sent.push(await world.message(application, { eventType: "invoice.sent" }));
  const first = await ask({ limit: 2, iterator: start.iterator });
  assert.deepEqual([ids(first.data), first.done], [ids(sent.slice(0, 2)), false]);
  check(first.data[0], polled({ id: sent[0].id, ...fields }));
  const again = await ask({ limit: 2, iterator: start.iterator });
  assert.deepEqual(ids(again.data), ids(first.data), "a page can be read again");
  const second = await ask({ limit: 2, iterator: first.iterator });
  assert.deepEqual([ids(second.data), second.done], [[sent[2].id], true]);
  check(await ask({ iterator: second.iterator }), { data: [], iterator: text, done: true });
  for (const filters of [{ eventType: "invoice.paid" }, { channel: "red" }]) {
    assert.deepEqual(ids((await ask({ iterator: start.iterator, ...filters })).data), [sent[0].id]);
  }
  await fails(400, () => ask({ iterator: "nonsense" }), "invalid_iterator");
  await fails(404, () => world.client.message.poller.poll(application.id, "no-such-poller"), "not_found");
});

exercise("message.poller.consumer_poll", async (world) => {
  const [application, sink] = await poller(world);
  const ask = (query) => world.client.message.poller.consumerPoll(application.id, sink, "one", query);
  const start = await ask();
  const sent = [];
  for (let n = 0; n < 3; n++) sent.push(await world.message(application, { payload: { n } }));
  const page = await ask({ limit: 2, iterator: start.iterator });
  assert.deepEqual([ids(page.data), page.done], [ids(sent.slice(0, 2)), false]);
  check(page.data[1], polled({ id: sent[1].id, payload: { n: 1 } }));
  assert.deepEqual(ids((await ask({ limit: 2 })).data), ids(page.data), "an unconfirmed page comes again");
  const rest = await ask({ limit: 2, iterator: page.iterator });
  assert.deepEqual([ids(rest.data), rest.done], [[sent[2].id], true]);
  await ask({ iterator: rest.iterator });
  assert.deepEqual((await ask()).data, [], "a confirmed page does not come again");
  const missing = () => world.client.message.poller.consumerPoll(application.id, "no-such-poller", "one");
  await fails(404, missing, "not_found");
});

exercise("message.poller.consumer_seek", async (world) => {
  const [application, sink] = await poller(world);
  const ask = (query) => world.client.message.poller.consumerPoll(application.id, sink, "one", query);
  const seek = (after) => world.client.message.poller.consumerSeek(application.id, sink, "one", { after });
  const start = await ask();
  const sent = [await world.message(application), await world.message(application)];
  const page = await ask({ iterator: start.iterator });
  assert.equal(page.data.length, 2);
  await ask({ iterator: page.iterator });
  check(await seek(hoursAgo(1)), { iterator: text });
  await fails(400, () => ask({ iterator: page.iterator }), "invalid_iterator");
  assert.deepEqual(ids((await ask()).data), ids(sent));
  await seek(new Date());
  assert.deepEqual((await ask()).data, []);
});
