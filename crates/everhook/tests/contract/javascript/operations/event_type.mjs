// Event types, also from an OpenAPI document; export and import of an environment; the health of the server.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

import { World, check, empty, eventTypeOut, exercise, fails, pages, recent } from "../harness.mjs";
import { same, sameList, unique } from "../harness.mjs";

// A document in YAML, which is no JSON.
const SHOP = new URL("../../shop.yaml", import.meta.url);

const SCHEMA = { 1: { type: "object", properties: { amount: { type: "integer" } } } };

exercise("health.get", async (world) => {
  assert.equal(await world.client.health.get(), undefined);
});

exercise("event_type.create", async (world) => {
  const fields = { description: "Paid", schemas: SCHEMA, groupName: "invoices", deprecated: true };
  const wanted = { name: unique("invoice"), ...fields, archived: false, featureFlags: ["beta"] };
  const made = await world.client.eventType.create(wanted);
  check(made, eventTypeOut({ ...wanted, featureFlag: "beta" }));
  const bare = { name: "bare", description: "" };
  check(await world.client.eventType.create(bare), eventTypeOut(bare));
  await fails(409, () => world.client.eventType.create(wanted), "event_type_exists");
  await fails(422, () => world.client.eventType.create({ name: "not a name", description: "" }));
  const broken = { name: "broken", description: "", schemas: { 1: { type: 12 } } };
  await fails(422, () => world.client.eventType.create(broken));
});

exercise("event_type.get", async (world) => {
  const made = await world.eventType({ schemas: SCHEMA });
  same(await world.client.eventType.get(made.name), made);
  await fails(404, () => world.client.eventType.get("no.such.type"), "not_found");
});

exercise("event_type.list", async (world) => {
  const made = [];
  for (let n = 0; n < 5; n++) made.push(await world.eventType({ name: `type.${n}`, schemas: SCHEMA }));
  await world.client.eventType.delete("type.4");
  const ask = (query) => world.client.eventType.list(query);
  sameList(await pages(2, (query) => ask({ ...query, withContent: true })), made.slice(0, 4));
  const first = await ask({ limit: 2 });
  check(first, { data: first.data, iterator: "type.1", prevIterator: "-type.0", done: false });
  check(first.data[0], eventTypeOut({ name: "type.0", description: "An invoice" }));
  const archived = (await ask({ includeArchived: true })).data.at(-1);
  assert.deepEqual([archived.name, archived.archived], ["type.4", true]);
  assert.equal((await ask({ limit: 1, order: "descending" })).data[0].name, "type.3");
});

exercise("event_type.upsert", async (world) => {
  const made = await world.eventType({ schemas: SCHEMA, groupName: "invoices" });
  const after = await world.client.eventType.upsert(made.name, { description: "After" });
  check(after, eventTypeOut({ name: made.name, description: "After", createdAt: made.createdAt }));
  same(await world.client.eventType.get(made.name), after);
  const [name, fields] = [unique("invoice"), { description: "New", schemas: SCHEMA }];
  check(await world.client.eventType.upsert(name, fields), eventTypeOut({ name, ...fields }));
});

exercise("event_type.patch", async (world) => {
  const made = await world.eventType({ schemas: SCHEMA, groupName: "invoices" });
  const change = (fields) => world.client.eventType.patch(made.name, fields);
  const expected = { name: made.name, description: "After", deprecated: true, groupName: "invoices" };
  const after = await change({ description: "After", deprecated: true });
  check(after, eventTypeOut({ schemas: SCHEMA, ...expected }));
  const cleared = await change({ schemas: null });
  check(cleared, eventTypeOut(expected));
  same(await world.client.eventType.get(made.name), cleared);
  await fails(404, () => world.client.eventType.patch("no.such.type", { description: "x" }), "not_found");
});

exercise("event_type.delete", async (world) => {
  const [made, other] = [await world.eventType(), await world.eventType()];
  await world.client.eventType.delete(made.name);
  assert.equal((await world.client.eventType.get(made.name)).archived, true);
  assert.deepEqual((await world.client.eventType.list()).data.map(({ name }) => name), [other.name]);
  const revived = await world.client.eventType.create({ name: made.name, description: "Back" });
  assert.deepEqual([revived.archived, revived.description], [false, "Back"]);
  await world.client.eventType.delete(made.name, { expunge: true });
  await fails(404, () => world.client.eventType.get(made.name), "not_found");
  await fails(404, () => world.client.eventType.delete("no.such.type"), "not_found");
});

function document(webhooks) {
  const schemas = { Invoice: { type: "object", properties: { amount: { type: "integer" } } } };
  return { openapi: "3.1.0", info: { title: "Shop", version: "1" }, webhooks, components: { schemas } };
}

function webhook(description, operation) {
  const content = { "application/json": { schema: { $ref: "#/components/schemas/Invoice" } } };
  return { post: { description, requestBody: { content }, responses: {}, ...operation } };
}

exercise("event_type.import_openapi", async (world) => {
  const [known, gone] = [await world.eventType({ name: "invoice.known" }), await world.eventType()];
  const extensions = { "x-svix-group-name": "invoices", "x-svix-feature-flags": ["beta"] };
  const spec = document({ "invoice.new": webhook("New", extensions), "invoice.known": webhook("After") });
  const { data } = await world.client.eventType.importOpenapi({ spec });
  assert.deepEqual(data.modified.sort(), ["invoice.known", "invoice.new"]);
  assert.equal(data.toModify ?? null, null);
  const flags = { featureFlags: ["beta"], featureFlag: "beta" };
  const schemas = (value) => "amount" in value["1"].properties;
  const expected = { name: "invoice.new", description: "New", groupName: "invoices", schemas, ...flags };
  check(await world.client.eventType.get("invoice.new"), eventTypeOut(expected));
  assert.equal((await world.client.eventType.get(known.name)).description, "After");
  assert.equal((await world.client.eventType.get(gone.name)).archived, false);
  await world.client.eventType.importOpenapi({ spec, replaceAll: true });
  assert.equal((await world.client.eventType.get(gone.name)).archived, true);
});

exercise("event_type.import_openapi", async function fromText(world) {
  const load = async (specRaw) => (await world.client.eventType.importOpenapi({ specRaw })).data.modified;
  assert.deepEqual(await load(JSON.stringify(document({ "invoice.paid": webhook("Paid") }))), ["invoice.paid"]);
  assert.deepEqual(await load(await readFile(SHOP, "utf8")), ["invoice.sent"]);
  assert.equal((await world.client.eventType.get("invoice.sent")).description, "Sent");
});

exercise("event_type.import_openapi", async function asARehearsal(world) {
  const load = (fields) => world.client.eventType.importOpenapi(fields);
  const spec = document({ "invoice.paid": webhook("Paid", { deprecated: true }) });
  const { data } = await load({ spec, dryRun: true });
  assert.deepEqual([data.modified, data.toModify.length], [[], 1]);
  const schemas = (value) => "1" in value;
  const unset = { groupName: null, featureFlags: empty };
  check(data.toModify[0], { name: "invoice.paid", description: "Paid", deprecated: true, schemas, ...unset });
  assert.deepEqual((await world.client.eventType.list()).data, []);
  await fails(400, () => load({}));
  await fails(400, () => load({ spec, specRaw: "{}" }));
  await fails(422, () => load({ spec: { openapi: "3.1.0", info: { title: "", version: "1" } } }));
});

exercise("environment.export", async (world) => {
  const fields = { description: "Paid", schemas: SCHEMA, groupName: "invoices", deprecated: true };
  const kind = await world.eventType(fields);
  const answer = await world.client.environment.export();
  const eventTypes = (found) => found.length === 1;
  check(answer, { version: 1, createdAt: recent, eventTypes, settings: null, connectors: [] });
  check(answer.eventTypes[0], eventTypeOut({ name: kind.name, ...fields }));
});

exercise("environment.import_", async (world) => {
  const [kept, changed] = [await world.eventType(), await world.eventType({ description: "Before" })];
  const added = { name: unique("invoice"), description: "New", schemas: SCHEMA };
  const eventTypes = [added, { name: changed.name, description: "After" }];
  await world.client.environment.import({ eventTypes, settings: { any: "thing" } });
  const names = (await world.client.eventType.list()).data.map(({ name }) => name);
  assert.deepEqual(names.sort(), [kept.name, changed.name, added.name].sort());
  check(await world.client.eventType.get(added.name), eventTypeOut(added));
  assert.equal((await world.client.eventType.get(changed.name)).description, "After");
});

exercise("environment.import_", async function allOrNothing(world) {
  const [good, bad] = [{ name: "good", description: "Good" }, { name: "not a name", description: "Bad" }];
  await fails(422, () => world.client.environment.import({ eventTypes: [good, bad] }));
  assert.deepEqual((await world.client.eventType.list()).data, []);
});

exercise("environment.import_", async function ofAnExport(world) {
  const kind = await world.eventType({ description: "Moved", schemas: SCHEMA });
  const exported = (await world.client.environment.export()).eventTypes[0];
  const fields = { name: kind.name, description: "Moved", schemas: exported.schemas };
  const other = new World(world.server, world.svix);
  await other.client.environment.import({ eventTypes: [fields] });
  check(await other.client.eventType.get(kind.name), eventTypeOut(fields));
});
