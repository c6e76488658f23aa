"""The three ways to send messages again: failed ones, missed ones, and sent ones."""

from dialect import models
from harness import Receiver, ago, check, exercise, fails, now, task_out


def ids(receiver, count):
    return {receiver.next()[0]["webhook-id"] for _ in range(count)}


@exercise("endpoint.recover")
def recover(world):
    application, receiver = world.application(), Receiver()
    endpoint = world.endpoint(application, receiver)
    delivered = world.message(application)
    world.attempted(application, delivered)
    receiver.status = 500
    failed = [world.message(application) for _ in range(2)]
    for message in failed:
        world.exhausted(application, message)
    receiver.status = 200
    while not receiver.deliveries.empty():
        receiver.next()
    start = lambda **fields: world.client.endpoint.recover(application.id, endpoint.id, models.RecoverIn(**fields))
    task = start(since=ago(hours=1))
    check(task, **task_out(models.BackgroundTaskType.ENDPOINT_RECOVER))
    assert ids(receiver, 2) == {message.id for message in failed}
    assert world.finished(task).data["messagesSent"] == 2
    for message in failed:
        world.attempted(application, message, count=6)
        assert world.destination(application, message).status == models.MessageStatus.SUCCESS
    assert len(world.attempts(application, delivered)) == 1
    again = world.finished(start(since=ago(hours=1)))
    assert again.data["messagesSent"] == 0, "a recovered message is not sent again"
    fails(422, lambda: start(since=ago(days=15)))
    fails(404, lambda: world.client.endpoint.recover(application.id, "no-such", models.RecoverIn(since=now())))


@exercise("endpoint.recover")
def recover_between_two_times(world):
    application, receiver = world.application(), Receiver(status=500)
    endpoint = world.endpoint(application, receiver)
    message = world.message(application)
    world.exhausted(application, message)
    wanted = models.RecoverIn(since=ago(days=2), until=ago(days=1))
    task = world.client.endpoint.recover(application.id, endpoint.id, wanted)
    assert world.finished(task).data["messagesSent"] == 0
    assert len(world.attempts(application, message)) == 5


@exercise("endpoint.replay_missing")
def replay_missing(world):
    application, receiver, kind = world.application(), Receiver(), world.event_type()
    before = [world.message(application, event_type=kind.name) for _ in range(2)]
    world.message(application, event_type="other")
    endpoint = world.endpoint(application, receiver, event_types=[kind.name])
    after = world.message(application, event_type=kind.name)
    assert ids(receiver, 1) == {after.id}
    world.attempted(application, after)
    start = lambda **fields: world.client.endpoint.replay_missing(
        application.id, endpoint.id, models.ReplayIn(**fields)
    )
    task = start(since=ago(hours=1))
    check(task, **task_out(models.BackgroundTaskType.ENDPOINT_REPLAY))
    assert ids(receiver, 2) == {message.id for message in before}
    assert world.finished(task).data["messagesSent"] == 2
    for message in before:
        world.attempted(application, message)
    assert world.finished(start(since=ago(hours=1))).data["messagesSent"] == 0
    assert world.finished(start(since=ago(days=2), until=ago(days=1))).data["messagesSent"] == 0
    receiver.nothing()
    missing = models.ReplayIn(since=now())
    fails(404, lambda: world.client.endpoint.replay_missing(application.id, "no-such-endpoint", missing))


@exercise("endpoint.replay_missing")
def replay_what_a_disabled_endpoint_missed(world):
    application, receiver = world.application(), Receiver()
    endpoint = world.endpoint(application, receiver, disabled=True)
    missed = world.message(application)
    world.client.endpoint.patch(application.id, endpoint.id, models.EndpointPatch(disabled=False))
    wanted = models.ReplayIn(since=ago(hours=1))
    task = world.client.endpoint.replay_missing(application.id, endpoint.id, wanted)
    assert ids(receiver, 1) == {missed.id}
    assert world.finished(task).data["messagesSent"] == 1


@exercise("endpoint.bulk_replay")
def bulk_replay(world):
    application, receiver = world.application(), Receiver()
    endpoint = world.endpoint(application, receiver)
    paid = world.message(application, event_type="invoice.paid", channels=["red"], tags=["a"])
    sent = world.message(application, event_type="invoice.sent")
    for message in (paid, sent):
        world.attempted(application, message)
    assert ids(receiver, 2) == {paid.id, sent.id}
    start = lambda **fields: world.client.endpoint.bulk_replay(
        application.id, endpoint.id, models.BulkReplayIn(**{"since": ago(hours=1), **fields})
    )
    task = start()
    check(task, **task_out(models.BackgroundTaskType.ENDPOINT_BULK_REPLAY))
    assert ids(receiver, 2) == {paid.id, sent.id}
    assert world.finished(task).data["messagesSent"] == 2
    success, failure = models.MessageStatus.SUCCESS, models.MessageStatus.FAIL
    chosen = [{"event_types": ["invoice.paid"]}, {"channel": "red"}, {"tag": "a", "status": success}]
    for filters in chosen:
        assert world.finished(start(**filters)).data["messagesSent"] == 1, filters
        assert ids(receiver, 1) == {paid.id}, filters
    code = models.StatusCodeClass.CODE5XX
    empty = [{"status": failure}, {"status_code_class": code}, {"since": ago(days=2), "until": ago(days=1)}]
    for filters in empty:
        assert world.finished(start(**filters)).data["messagesSent"] == 0, filters
    receiver.nothing()
