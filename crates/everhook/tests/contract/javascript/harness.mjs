// Tools of the exercises: a fresh environment for each, a receiver of webhooks, and checks of typed answers.
//
// An exercise is a function that calls one operation of the package and checks every field of the answer. It gets a
// `World` of its own, in which nothing exists yet, so exercises neither depend on each other nor on their order.

import assert from "node:assert/strict";
import { createHmac, randomBytes, randomInt, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { isDeepStrictEqual } from "node:util";

const PATIENCE_MS = 60_000;
const POLL_MS = 100;
const RECEIVER_POLL_MS = 5;
const TOKEN_SECONDS = 3600;

// A server and this program share one clock; the margin covers rounding and a slow machine.
const CLOCK_MARGIN_MS = 90_000;

export const Status = { SUCCESS: 0, PENDING: 1, FAIL: 2, SENDING: 3, CANCELED: 4 };

// Exercises by the name of their operation, in the order of definition.
export const EXERCISES = new Map();

// Registers a function as an exercise of `operation`. An operation works if all its exercises pass.
export function exercise(operation, run) {
  EXERCISES.set(operation, [...(EXERCISES.get(operation) ?? []), run]);
}

// A new environment of the server, with a client that has all rights in it.
export class World {
  constructor(server, svix) {
    this.server = server;
    this.svix = svix;
    // An environment comes into being with its first token. The digit keeps the id within 160 bits.
    const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const random = Array.from({ length: 26 }, () => letters[randomInt(letters.length)]).join("");
    this.token = sign(server.jwtSecret, { sub: `org_1${random}` });
    this.client = this.clientWith(this.token);
  }

  clientWith(token) {
    return this.svix.client(token, this.server.url);
  }

  // Sends a request without the package, for routes that it lacks. Returns the decoded answer.
  async raw(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const answer = await fetch(`${this.server.url}/api/v1${path}`, { method, headers, body: JSON.stringify(body) });
    assert.ok(answer.ok, `${method} ${path} failed with ${answer.status}`);
    return answer.json();
  }

  application(fields) {
    return this.client.application.create({ name: "Acme", uid: unique("app"), ...fields });
  }

  endpoint(application, receiver, fields) {
    return this.client.endpoint.create(application.id, { url: receiver.url, ...fields });
  }

  eventType(fields) {
    return this.client.eventType.create({ name: unique("invoice"), description: "An invoice", ...fields });
  }

  message(application, fields) {
    const message = { eventType: "invoice.paid", payload: { amount: 12 }, ...fields };
    return this.client.message.create(application.id, message);
  }

  async attempts(application, message, filters) {
    return (await this.client.messageAttempt.listByMsg(application.id, message.id, filters)).data;
  }

  // Waits until a message has `count` attempts, and returns them, newest first.
  attempted(application, message, count = 1) {
    return until(`${message.id} has ${count} attempts`, async () => {
      const found = await this.attempts(application, message);
      return found.length >= count && found;
    });
  }

  async destination(application, message) {
    const { data } = await this.client.messageAttempt.listAttemptedDestinations(application.id, message.id);
    assert.equal(data.length, 1);
    return data[0];
  }

  // Waits until the delivery of a message to its only endpoint has failed for good.
  exhausted(application, message) {
    const isGivenUp = async () => (await this.destination(application, message)).status === Status.FAIL;
    return until(`${message.id} is given up`, isGivenUp);
  }

  // Waits until a background task has ended well, and returns it.
  async finished(task) {
    const ended = await until(`${task.id} ends`, async () => {
      const found = await this.client.backgroundTask.get(task.id);
      return found.status !== "running" && found;
    });
    check(ended, { id: task.id, status: "finished", task: task.task, updatedAt: recent, data: isObject });
    return ended;
  }

  // Checks the signature of a webhook with the package, and returns its content.
  verify({ headers, body }, key) {
    new this.svix.Webhook(key).verify(body, headers);
    return JSON.parse(body);
  }

  async portal(application, fields = {}) {
    return this.clientWith((await this.client.authentication.appPortalAccess(application.id, fields)).token);
  }
}

function sign(secret, claims) {
  const now = Math.floor(Date.now() / 1000);
  const encode = (part) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const content = { iat: now, exp: now + TOKEN_SECONDS, ...claims };
  const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(content)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

// An address that takes webhooks and hands them out in the order of their arrival.
export class Receiver {
  static #hooks = new Map();
  static #server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const hook = Receiver.#hooks.get(request.url);
    // The status first: an exercise that got the webhook may change it for the next one.
    response.writeHead(hook.status, { "content-length": "2" });
    hook.deliveries.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.end("ok");
  });

  static start() {
    return new Promise((started) => Receiver.#server.listen(0, "127.0.0.1", started));
  }

  static stop() {
    Receiver.#server.close();
    Receiver.#server.closeAllConnections();
  }

  constructor(status = 200) {
    this.status = status;
    this.deliveries = [];
    const path = `/${randomUUID()}`;
    Receiver.#hooks.set(path, this);
    this.url = `http://127.0.0.1:${Receiver.#server.address().port}${path}`;
  }

  // Returns the headers, with names in lower case, and the body of the next webhook.
  next() {
    return until("a webhook arrives", () => this.deliveries.shift(), RECEIVER_POLL_MS);
  }

  async ids(count) {
    const ids = [];
    while (ids.length < count) ids.push((await this.next()).headers["webhook-id"]);
    return ids.sort();
  }

  nothing() {
    assert.deepEqual(this.deliveries, [], "an unexpected webhook");
  }
}

export function unique(prefix) {
  return `${prefix}-${randomUUID()}`;
}

export function newKey() {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

export function hoursAgo(hours) {
  return new Date(Date.now() - hours * 3_600_000);
}

// Calls `look` until it returns something, and returns that.
export async function until(what, look, pollMs = POLL_MS) {
  const giveUp = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(performance.now() < giveUp, `waited in vain until ${what}`);
    await new Promise((wake) => setTimeout(wake, pollMs));
  }
}

// Awaits `call`, which has to fail with the error that the package has for `status`.
export async function fails(status, call, code) {
  try {
    await call();
  } catch (error) {
    if (error.body === undefined) throw error;
    assert.equal(error.code, status, JSON.stringify(error.body));
    if (code) assert.equal(error.body.code, code, JSON.stringify(error.body));
    if (status === 422) assert.ok(Array.isArray(error.body.detail), JSON.stringify(error.body));
    return error;
  }
  assert.fail(`the call did not fail with ${status}`);
}

// Reads a list to its end, `limit` items at a time, and returns the items.
export async function pages(limit, ask) {
  const items = [];
  let iterator;
  for (;;) {
    const page = await ask({ limit, iterator });
    assert.ok(page.data.length <= limit);
    assert.ok(page.iterator !== null || page.data.length === 0);
    items.push(...page.data);
    if (page.done) return items;
    iterator = page.iterator;
  }
}

// Checks of fields. A check is a value to be equal to, or a function of the value.

export function recent(value) {
  return value instanceof Date && Math.abs(value - Date.now()) < CLOCK_MARGIN_MS;
}

// An id of 27 letters and digits after its prefix, as the specification of the clients describes it.
export function anId(prefix) {
  return (value) => value.startsWith(prefix) && /^[0-9A-Za-z]{27}$/.test(value.slice(prefix.length));
}

export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function text(value) {
  return typeof value === "string" && value !== "";
}

export function empty(value) {
  return value === null || value.length === 0;
}

export function isAKey(value) {
  return value.startsWith("whsec_");
}

// Fields that only the 1.x package has, with the field of 2.x that has the same value, or with their only value.
const OLD_ANSWERS = { rateLimit: "throttleRate", filterTypes: "eventTypes" };
const OLD_VALUES = { version: 1, featureFlag: null };

// Compares every field of a typed answer. A field of the answer that is not listed is a mistake of the exercise.
export function check(answer, expected) {
  for (const field of Object.keys(answer)) {
    const want = wanted(field, expected);
    const value = answer[field] ?? null;
    const good = typeof want === "function" ? want(value) : isDeepStrictEqual(value, want);
    const described = typeof want === "function" ? want.name || String(want) : JSON.stringify(want);
    assert.ok(good, `${field} is ${JSON.stringify(value)}, expected ${described}`);
  }
  const missing = Object.keys(expected).filter((field) => !(field in answer) && !isOld(field, answer));
  assert.deepEqual(missing, [], `the answer lacks ${missing}`);
}

function wanted(field, expected) {
  if (field in expected) return expected[field];
  if (OLD_ANSWERS[field] in expected) return expected[OLD_ANSWERS[field]];
  if (field in OLD_VALUES) return OLD_VALUES[field];
  return assert.fail(`the exercise does not check ${field}`);
}

function isOld(field, answer) {
  return Object.entries(OLD_ANSWERS).some(([old, current]) => current === field && old in answer);
}

// Compares two typed answers for the same thing, field by field.
export function same(answer, expected) {
  check(answer, Object.fromEntries(Object.entries(expected).map(([field, value]) => [field, value ?? null])));
}

export function sameList(answers, expected) {
  assert.equal(answers.length, expected.length);
  answers.forEach((answer, index) => same(answer, expected[index]));
}

export function ids(things) {
  return things.map((thing) => thing.id);
}

const TIMES = { createdAt: recent, updatedAt: recent };

export function applicationOut(fields) {
  return { id: anId("app_"), name: "Acme", uid: null, throttleRate: null, metadata: {}, ...TIMES, ...fields };
}

export function operationalEndpointOut(fields) {
  const unset = { description: "", uid: null, disabled: false, throttleRate: null, eventTypes: null, metadata: {} };
  return { id: anId("ep_"), ...unset, ...TIMES, ...fields };
}

export function endpointOut(fields) {
  return { ...operationalEndpointOut(), channels: null, ...fields };
}

export function eventTypeOut(fields) {
  const unset = { schemas: null, groupName: null, featureFlags: empty, featureFlag: null };
  return { archived: false, deprecated: false, ...unset, ...TIMES, ...fields };
}

export function messageOut(fields) {
  const unset = { eventId: null, channels: null, tags: null, deliverAt: null };
  return { id: anId("msg_"), eventType: "invoice.paid", payload: {}, ...unset, timestamp: recent, ...fields };
}

export function attemptOut(receiver, fields) {
  return {
    id: anId("atmpt_"),
    msgId: anId("msg_"),
    endpointId: anId("ep_"),
    url: receiver.url,
    response: (value) => typeof value === "string",
    responseStatusCode: 200,
    responseDurationMs: (value) => value >= 0,
    status: Status.SUCCESS,
    statusText: "success",
    triggerType: 0,
    timestamp: recent,
    msg: null,
    ...fields,
  };
}

// The answer of an operation that starts a background task. A short task may have ended before the answer.
export function taskOut(task, fields) {
  const status = (value) => ["running", "finished"].includes(value);
  return { id: anId("qtask_"), status, task, updatedAt: recent, ...fields };
}
