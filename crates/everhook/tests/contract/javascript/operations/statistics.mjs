// Usage of an environment, counted by background tasks.

import assert from "node:assert/strict";

import { Receiver, check, exercise, fails, hoursAgo, taskOut } from "../harness.mjs";

exercise("statistics.aggregate_app_stats", async (world) => {
  const [busy, idle, other] = [await world.application(), await world.application(), await world.application()];
  const use = async (application, messages) => {
    for (let n = 0; n < 2; n++) await world.endpoint(application, new Receiver());
    for (let n = 0; n < messages; n++) await world.attempted(application, await world.message(application), 2);
  };
  await use(busy, 2);
  await use(other, 1);
  const start = (fields) =>
    world.client.statistics.aggregateAppStats({ since: hoursAgo(1), until: new Date(), ...fields });
  const task = await start({ appIds: [busy.uid, idle.id, "no-such-application"] });
  check(task, taskOut("application.stats", { unresolvedAppIds: ["no-such-application"] }));
  const counts = (await world.finished(task)).data.appStats;
  const sorted = counts.map((one) => [one.appId, one.appUid, one.messageDestinations]).sort();
  assert.deepEqual(sorted, [[busy.id, busy.uid, 4], [idle.id, idle.uid, 0]].sort());
  const everything = await start();
  assert.deepEqual(everything.unresolvedAppIds, []);
  const all = (await world.finished(everything)).data.appStats;
  const count = (application) => all.find(({ appId }) => appId === application.id).messageDestinations;
  assert.deepEqual([count(busy), count(other)], [4, 2]);
  await fails(422, () => start({ appIds: ["no-such-application"] }));
});

exercise("statistics.aggregate_event_types", async (world) => {
  const [chosen, everything] = [await world.application(), await world.application()];
  const [first, second] = [await world.eventType(), await world.eventType()];
  for (const kind of [first, second]) await world.endpoint(chosen, new Receiver(), { eventTypes: [kind.name] });
  await world.endpoint(everything, new Receiver());
  const task = await world.client.statistics.aggregateEventTypes();
  check(task, taskOut("event-type.aggregate"));
  const found = (await world.finished(task)).data.event_types;
  const of = (application) => found.find(({ appId }) => appId === application.id);
  const names = of(chosen).explicitlySubscribedEventTypes.sort();
  assert.deepEqual([names, of(chosen).hasCatchAllEndpoint], [[first.name, second.name].sort(), false]);
  assert.equal(of(everything).hasCatchAllEndpoint, true);
});
