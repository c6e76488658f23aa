// Tokens of the portal: each belongs to one application.

import assert from "node:assert/strict";

import { Receiver, applicationOut, check, exercise, fails, text, unique, until } from "../harness.mjs";

async function works(client, application) {
  assert.deepEqual((await client.endpoint.list(application.id)).data, []);
}

// Waits until a token gets 401. A replica may learn of it a moment later.
function ended(client, application) {
  return until("the token has ended", async () => {
    try {
      await client.endpoint.list(application.id);
      return false;
    } catch (error) {
      assert.equal(error.code, 401);
      return true;
    }
  });
}

exercise("authentication.app_portal_access", async (world) => {
  const [application, other] = [await world.application(), await world.application()];
  const answer = await world.client.authentication.appPortalAccess(application.id, {});
  check(answer, { url: text, token: text });
  const link = new URL(answer.url);
  // A token in the path or in the query would end in the logs of servers.
  assert.ok(!(link.pathname + link.search).includes(answer.token));
  const client = world.clientWith(answer.token);
  await works(client, application);
  await fails(404, () => client.endpoint.list(other.id));
  await fails(403, () => client.application.list());
  await fails(422, () => world.portal(application, { expiry: 60 }));
  await fails(404, () => world.portal({ id: "no-such-application" }));
});

exercise("authentication.app_portal_access", async function withAnApplication(world) {
  const uid = unique("app");
  const client = await world.portal({ id: uid }, { application: { name: "On the fly", uid } });
  check(await client.application.get(uid), applicationOut({ name: "On the fly", uid }));
});

exercise("authentication.app_portal_access", async function withCapabilities(world) {
  const application = await world.application();
  const endpoint = await world.endpoint(application, new Receiver());
  const { key } = await world.client.endpoint.getSecret(application.id, endpoint.id);
  const reader = await world.portal(application, { capabilities: ["ViewBase"] });
  assert.equal((await reader.endpoint.get(application.id, endpoint.id)).id, endpoint.id);
  await fails(403, () => reader.endpoint.getSecret(application.id, endpoint.id));
  await fails(403, () => reader.endpoint.delete(application.id, endpoint.id));
  const viewer = await world.portal(application, { capabilities: ["ViewBase", "ViewEndpointSecret"] });
  assert.equal((await viewer.endpoint.getSecret(application.id, endpoint.id)).key, key);
  await fails(403, () => viewer.endpoint.rotateSecret(application.id, endpoint.id, {}));
  const readOnly = await world.portal(application, { readOnly: true });
  await fails(403, () => readOnly.endpoint.delete(application.id, endpoint.id));
});

exercise("authentication.app_portal_access", async function withFeatureFlags(world) {
  const application = await world.application();
  const [open, hidden] = [await world.eventType(), await world.eventType({ featureFlags: ["beta"] })];
  const names = async (fields) => {
    const { data } = await (await world.portal(application, fields)).eventType.list();
    return data.map(({ name }) => name).sort();
  };
  assert.deepEqual(await names(), [open.name]);
  assert.deepEqual(await names({ featureFlags: ["beta"] }), [open.name, hidden.name].sort());
});

exercise("authentication.logout", async (world) => {
  const application = await world.application();
  const [client, other] = [await world.portal(application), await world.portal(application)];
  await client.authentication.logout();
  await ended(client, application);
  await works(other, application);
  await fails(403, () => world.client.authentication.logout());
});

exercise("authentication.expire_all", async (world) => {
  const [application, other] = [await world.application(), await world.application()];
  const [client, elsewhere] = [await world.portal(application), await world.portal(other)];
  const expire = (fields) => world.client.authentication.expireAll(application.id, fields);
  await expire({ expiry: 3600 });
  await works(client, application);
  await expire({ expiry: 0 });
  await ended(client, application);
  await works(elsewhere, other);
  await works(await world.portal(application), application);
  await fails(403, () => elsewhere.authentication.expireAll(other.id, {}));
  await fails(422, () => expire({ expiry: 259_201 }));
});

exercise("authentication.expire_all", async function ofSomeSessions(world) {
  const application = await world.application();
  const [ann, bob] = [
    await world.portal(application, { sessionId: "ann" }),
    await world.portal(application, { sessionId: "bob" }),
  ];
  await world.client.authentication.expireAll(application.id, { sessionIds: ["ann"] });
  await ended(ann, application);
  await works(bob, application);
});
