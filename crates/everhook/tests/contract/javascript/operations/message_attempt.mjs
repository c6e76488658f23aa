// Attempts, and the state of a message at its endpoints.

import assert from "node:assert/strict";

import { Receiver, Status, attemptOut, check, endpointOut, exercise, fails, hoursAgo } from "../harness.mjs";
import { ids, messageOut, pages, recent, same, until } from "../harness.mjs";

const FAILED = { status: Status.FAIL, statusText: "fail" };

// An application with an endpoint that has taken one message.
async function place(world) {
  const [application, receiver] = [await world.application(), new Receiver()];
  const endpoint = await world.endpoint(application, receiver);
  const message = await world.message(application, { channels: ["red"], tags: ["a"] });
  await world.attempted(application, message);
  return { application, endpoint, message, receiver };
}

exercise("message_attempt.list_by_endpoint", async (world) => {
  const { application, endpoint, message: first, receiver } = await place(world);
  receiver.status = 500;
  const second = await world.message(application, { eventType: "invoice.sent" });
  await world.exhausted(application, second);
  const ask = (query) => world.client.messageAttempt.listByEndpoint(application.id, endpoint.id, query);
  const found = await pages(2, ask);
  assert.equal(found.length, 6);
  const bad = { msgId: second.id, endpointId: endpoint.id, responseStatusCode: 500, ...FAILED };
  for (const attempt of found.slice(0, 5)) check(attempt, attemptOut(receiver, bad));
  check(found[5], attemptOut(receiver, { msgId: first.id, endpointId: endpoint.id }));
  const good = [{ status: Status.SUCCESS }, { statusCodeClass: 200 }, { channel: "red" }, { tag: "a" }];
  for (const filters of [...good, { eventTypes: ["invoice.paid"] }]) {
    assert.deepEqual(ids((await ask(filters)).data), [found[5].id], JSON.stringify(filters));
  }
  assert.equal((await ask({ status: Status.FAIL })).data.length, 5);
  assert.equal((await ask({ statusCodeClass: 500 })).data.length, 5);
  assert.equal((await ask({ before: hoursAgo(1) })).data.length, 0);
  assert.equal((await ask({ after: hoursAgo(1) })).data.length, 6);
  const [withMessage] = (await ask({ withMsg: true, withContent: true, status: Status.SUCCESS })).data;
  assert.equal(withMessage.response, "ok");
  const payload = (value) => ["{}", '{"amount":12}'].includes(JSON.stringify(value));
  check(withMessage.msg, messageOut({ id: first.id, channels: ["red"], tags: ["a"], payload }));
  const missing = () => world.client.messageAttempt.listByEndpoint(application.id, "no-such-endpoint");
  await fails(404, missing, "not_found");
});

exercise("message_attempt.list_by_msg", async (world) => {
  const [application, receiver, other] = [await world.application(), new Receiver(), new Receiver(404)];
  const [endpoint, failing] = [await world.endpoint(application, receiver), await world.endpoint(application, other)];
  const message = await world.message(application);
  const ask = (query) => world.client.messageAttempt.listByMsg(application.id, message.id, query);
  await until("all attempts are listed", async () => (await ask()).data.length === 6);
  const listed = ids(await pages(4, ask));
  assert.deepEqual(listed, [...listed].sort().reverse(), "newest first");
  const [good] = (await ask({ endpointId: endpoint.id })).data;
  check(good, attemptOut(receiver, { msgId: message.id, endpointId: endpoint.id }));
  const bad = { msgId: message.id, endpointId: failing.id, responseStatusCode: 404, ...FAILED };
  for (const attempt of (await ask({ endpointId: failing.id })).data) check(attempt, attemptOut(other, bad));
  assert.deepEqual(ids((await ask({ status: Status.SUCCESS })).data), [good.id]);
  assert.equal((await ask({ statusCodeClass: 400 })).data.length, 5);
  assert.equal((await ask({ withContent: true, status: Status.SUCCESS })).data[0].response, "ok");
  assert.equal((await ask({ before: hoursAgo(1) })).data.length, 0);
  assert.equal((await ask({ after: hoursAgo(1) })).data.length, 6);
  await fails(404, () => world.client.messageAttempt.listByMsg(application.id, "no-such-message"), "not_found");
  await fails(404, () => ask({ endpointId: "no-such-endpoint" }), "not_found");
});

exercise("message_attempt.list_attempted_messages", async (world) => {
  const { application, endpoint, message: first, receiver } = await place(world);
  receiver.status = 500;
  const second = await world.message(application, { eventType: "invoice.sent" });
  const ask = (query) => world.client.messageAttempt.listAttemptedMessages(application.id, endpoint.id, query);
  const retry = await until("a retry is due", async () => {
    const [newest] = (await ask({ withContent: true })).data;
    return newest.nextAttempt && newest;
  });
  const [sent, payload] = [{ id: second.id, eventType: "invoice.sent" }, { amount: 12 }];
  check(retry, messageOut({ ...sent, payload, status: Status.PENDING, statusText: "pending", nextAttempt: recent }));
  await world.exhausted(application, second);
  const [failed, delivered] = await pages(1, (query) => ask({ ...query, withContent: true }));
  check(failed, messageOut({ ...sent, ...FAILED, payload, nextAttempt: null }));
  const success = { status: Status.SUCCESS, statusText: "success", nextAttempt: null };
  check(delivered, messageOut({ id: first.id, channels: ["red"], tags: ["a"], payload, ...success }));
  const good = [{ status: Status.SUCCESS }, { channel: "red" }, { tag: "a" }, { eventTypes: ["invoice.paid"] }];
  for (const filters of good) assert.deepEqual(ids((await ask(filters)).data), [first.id], JSON.stringify(filters));
  assert.deepEqual(ids((await ask({ status: Status.FAIL })).data), [second.id]);
  assert.equal((await ask({ before: hoursAgo(1) })).data.length, 0);
  assert.equal((await ask({ after: hoursAgo(1) })).data.length, 2);
  const missing = () => world.client.messageAttempt.listAttemptedMessages(application.id, "no-such-endpoint");
  await fails(404, missing, "not_found");
});

exercise("message_attempt.list_attempted_destinations", async (world) => {
  const application = await world.application();
  const fields = { description: "One" };
  const good = await world.endpoint(application, new Receiver(), fields);
  const bad = await world.endpoint(application, new Receiver(500), fields);
  const message = await world.message(application);
  const ask = (query) => world.client.messageAttempt.listAttemptedDestinations(application.id, message.id, query);
  await world.attempted(application, message, 5);
  const waiting = await until("a retry is due", async () => {
    const [, second] = (await ask()).data;
    return second.nextAttempt && second;
  });
  assert.equal(waiting.status, Status.PENDING);
  await until("the delivery is given up", async () => (await ask()).data[1].status === Status.FAIL);
  const found = await pages(1, ask);
  const success = { status: Status.SUCCESS, statusText: "success" };
  const expected = [
    { id: good.id, url: good.url, ...success },
    { id: bad.id, url: bad.url, ...FAILED },
  ];
  assert.equal(found.length, 2);
  found.forEach((destination, n) => {
    const { metadata, ...endpoint } = endpointOut({ ...fields, ...expected[n], nextAttempt: null });
    check(destination, endpoint);
  });
  assert.equal((await ask({ limit: 1 })).done, false);
  await world.client.endpoint.delete(application.id, good.id);
  assert.deepEqual(ids((await ask()).data), ids([good, bad]), "a deleted endpoint stays in the history");
  const missing = () => world.client.messageAttempt.listAttemptedDestinations(application.id, "no-such-message");
  await fails(404, missing, "not_found");
});

exercise("message_attempt.get", async (world) => {
  const { application, endpoint, message, receiver } = await place(world);
  const [attempt] = await world.attempts(application, message, { withContent: true });
  const found = await world.client.messageAttempt.get(application.id, message.id, attempt.id);
  const expected = { id: attempt.id, msgId: message.id, endpointId: endpoint.id, response: "ok" };
  check(found, attemptOut(receiver, expected));
  same(found, attempt);
  const missing = `atmpt_${"1".repeat(27)}`;
  await fails(404, () => world.client.messageAttempt.get(application.id, message.id, missing), "not_found");
});

exercise("message_attempt.expunge_content", async (world) => {
  const { application, message } = await place(world);
  const [attempt] = await world.attempts(application, message);
  await world.client.messageAttempt.expungeContent(application.id, message.id, attempt.id);
  const found = await world.client.messageAttempt.get(application.id, message.id, attempt.id);
  assert.equal(found.response, "EXPUNGED");
  const { payload } = await world.client.message.get(application.id, message.id, { withContent: true });
  assert.deepEqual(payload, { amount: 12 }, "only the response is gone");
});

exercise("message_attempt.resend", async (world) => {
  const { application, endpoint, message, receiver } = await place(world);
  const first = await receiver.next();
  const resend = (from, to) => world.client.messageAttempt.resend(application.id, from, to);
  await resend(message.id, endpoint.id);
  const second = await receiver.next();
  assert.equal(first.body, second.body);
  assert.equal(second.headers["webhook-id"], message.id);
  const [newest, oldest] = await world.attempted(application, message, 2);
  check(newest, attemptOut(receiver, { msgId: message.id, endpointId: endpoint.id, triggerType: 1 }));
  assert.equal(oldest.triggerType, 0);
  await fails(404, () => resend("no-such-message", endpoint.id), "not_found");
  await fails(404, () => resend(message.id, "no-such-endpoint"), "not_found");
  await world.client.message.expungeContent(application.id, message.id);
  await fails(400, () => resend(message.id, endpoint.id), "missing_payload");
});
