// The three ways to send messages again: failed ones, missed ones, and sent ones.

import assert from "node:assert/strict";

import { Receiver, Status, check, exercise, fails, hoursAgo, ids, taskOut } from "../harness.mjs";

async function sentBy(world, task) {
  return (await world.finished(await task)).data.messagesSent;
}

exercise("endpoint.recover", async (world) => {
  const [application, receiver] = [await world.application(), new Receiver()];
  const endpoint = await world.endpoint(application, receiver);
  const delivered = await world.message(application);
  await world.attempted(application, delivered);
  receiver.status = 500;
  const failed = [await world.message(application), await world.message(application)];
  for (const message of failed) await world.exhausted(application, message);
  receiver.status = 200;
  receiver.deliveries.length = 0;
  const start = (fields) => world.client.endpoint.recover(application.id, endpoint.id, fields);
  const task = await start({ since: hoursAgo(1) });
  check(task, taskOut("endpoint.recover"));
  assert.deepEqual(await receiver.ids(2), ids(failed).sort());
  assert.equal(await sentBy(world, task), 2);
  for (const message of failed) {
    await world.attempted(application, message, 6);
    assert.equal((await world.destination(application, message)).status, Status.SUCCESS);
  }
  assert.equal((await world.attempts(application, delivered)).length, 1);
  assert.equal(await sentBy(world, start({ since: hoursAgo(1) })), 0, "a recovered message is not sent again");
  await fails(422, () => start({ since: hoursAgo(15 * 24) }));
  const unknown = { since: hoursAgo(1) };
  await fails(404, () => world.client.endpoint.recover(application.id, "no-such-endpoint", unknown), "not_found");
});

exercise("endpoint.recover", async function betweenTwoTimes(world) {
  const application = await world.application();
  const endpoint = await world.endpoint(application, new Receiver(500));
  const message = await world.message(application);
  await world.exhausted(application, message);
  const wanted = { since: hoursAgo(48), until: hoursAgo(24) };
  assert.equal(await sentBy(world, world.client.endpoint.recover(application.id, endpoint.id, wanted)), 0);
  assert.equal((await world.attempts(application, message)).length, 5);
});

exercise("endpoint.replay_missing", async (world) => {
  const [application, receiver, kind] = [await world.application(), new Receiver(), await world.eventType()];
  const send = () => world.message(application, { eventType: kind.name });
  const before = [await send(), await send()];
  await world.message(application, { eventType: "other" });
  const endpoint = await world.endpoint(application, receiver, { eventTypes: [kind.name] });
  const after = await send();
  assert.deepEqual(await receiver.ids(1), [after.id]);
  await world.attempted(application, after);
  const start = (fields) => world.client.endpoint.replayMissing(application.id, endpoint.id, fields);
  const task = await start({ since: hoursAgo(1) });
  check(task, taskOut("endpoint.replay"));
  assert.deepEqual(await receiver.ids(2), ids(before).sort());
  assert.equal(await sentBy(world, task), 2);
  for (const message of before) await world.attempted(application, message);
  assert.equal(await sentBy(world, start({ since: hoursAgo(1) })), 0);
  assert.equal(await sentBy(world, start({ since: hoursAgo(48), until: hoursAgo(24) })), 0);
  receiver.nothing();
  const unknown = { since: hoursAgo(1) };
  await fails(404, () => world.client.endpoint.replayMissing(application.id, "no-such-endpoint", unknown), "not_found");
});

exercise("endpoint.replay_missing", async function ofADisabledEndpoint(world) {
  const [application, receiver] = [await world.application(), new Receiver()];
  const endpoint = await world.endpoint(application, receiver, { disabled: true });
  const missed = await world.message(application);
  await world.client.endpoint.patch(application.id, endpoint.id, { disabled: false });
  const task = world.client.endpoint.replayMissing(application.id, endpoint.id, { since: hoursAgo(1) });
  assert.equal(await sentBy(world, task), 1);
  assert.deepEqual(await receiver.ids(1), [missed.id]);
});

exercise("endpoint.bulk_replay", async (world) => {
  const [application, receiver] = [await world.application(), new Receiver()];
  const endpoint = await world.endpoint(application, receiver);
  const paid = await world.message(application, { channels: ["red"], tags: ["a"] });
  const sent = await world.message(application, { eventType: "invoice.sent" });
  for (const message of [paid, sent]) await world.attempted(application, message);
  assert.deepEqual(await receiver.ids(2), ids([paid, sent]).sort());
  const start = (fields) =>
    world.client.endpoint.bulkReplay(application.id, endpoint.id, { since: hoursAgo(1), ...fields });
  const task = await start();
  check(task, taskOut("endpoint.bulk-replay"));
  assert.deepEqual(await receiver.ids(2), ids([paid, sent]).sort());
  assert.equal(await sentBy(world, task), 2);
  const chosen = [{ eventTypes: ["invoice.paid"] }, { channel: "red" }, { tag: "a", status: Status.SUCCESS }];
  for (const filters of chosen) {
    assert.equal(await sentBy(world, start(filters)), 1, JSON.stringify(filters));
    assert.deepEqual(await receiver.ids(1), [paid.id], JSON.stringify(filters));
  }
  const none = [{ status: Status.FAIL }, { statusCodeClass: 500 }, { since: hoursAgo(48), until: hoursAgo(24) }];
  for (const filters of none) assert.equal(await sentBy(world, start(filters)), 0, JSON.stringify(filters));
  receiver.nothing();
});
