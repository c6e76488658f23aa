"""Usage of an environment, counted by background tasks."""

from dialect import models
from harness import Receiver, ago, check, exercise, fails, now, task_out


@exercise("statistics.aggregate_app_stats")
def aggregate_app_stats(world):
    busy, idle, other = world.application(), world.application(), world.application()
    for application, messages in ((busy, 2), (other, 1)):
        world.endpoint(application, Receiver())
        world.endpoint(application, Receiver())
        for _ in range(messages):
            world.attempted(application, world.message(application), count=2)
    start = lambda **fields: world.client.statistics.aggregate_app_stats(
        models.AppUsageStatsIn(**{"since": ago(hours=1), "until": now(), **fields})
    )
    task = start(app_ids=[busy.uid, idle.id, "no-such-application"])
    kind = models.BackgroundTaskType.APPLICATION_STATS
    check(task, **task_out(kind, unresolved_app_ids=["no-such-application"]))
    counts = world.finished(task).data["appStats"]
    by_id = {one["appId"]: (one["appUid"], one["messageDestinations"]) for one in counts}
    assert by_id == {busy.id: (busy.uid, 4), idle.id: (idle.uid, 0)}, counts
    everything = start()
    assert everything.unresolved_app_ids == []
    counts = {one["appId"]: one["messageDestinations"] for one in world.finished(everything).data["appStats"]}
    assert (counts[busy.id], counts[other.id]) == (4, 2), counts
    fails(422, lambda: start(app_ids=["no-such-application"]))


@exercise("statistics.aggregate_event_types")
def aggregate_event_types(world):
    chosen, everything = world.application(), world.application()
    first, second = world.event_type(), world.event_type()
    world.endpoint(chosen, Receiver(), event_types=[first.name])
    world.endpoint(chosen, Receiver(), event_types=[second.name])
    world.endpoint(everything, Receiver())
    task = world.client.statistics.aggregate_event_types()
    check(task, **task_out(models.BackgroundTaskType.EVENT_TYPE_AGGREGATE))
    found = {one["appId"]: one for one in world.finished(task).data["event_types"]}
    names = sorted(found[chosen.id]["explicitlySubscribedEventTypes"])
    assert names == sorted([first.name, second.name]) and found[chosen.id]["hasCatchAllEndpoint"] is False, found
    assert found[everything.id]["hasCatchAllEndpoint"] is True, found
