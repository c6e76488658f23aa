"""Counts of an endpoint's attempts, and example messages."""

import dialect
from dialect import models, options
from harness import Receiver, ago, check, exercise, fails, message_out, now, until, verify


def place_with_attempts(world):
    """An endpoint with two successes and one delivery that failed five times."""
    application, receiver = world.application(), Receiver()
    endpoint = world.endpoint(application, receiver)
    for _ in range(2):
        world.attempted(application, world.message(application))
    receiver.status = 500
    world.exhausted(application, world.message(application))
    return application, endpoint


@exercise("endpoint.get_stats")
def get_stats(world):
    application, endpoint = place_with_attempts(world)
    ask = lambda **query: world.client.endpoint.get_stats(
        application.id, endpoint.id, options.EndpointGetStatsOptions(**query)
    )
    counts = {"success": 2, "pending": 0, "sending": 0, "fail": 5, "canceled": 0}
    # Counters may be written a moment after the attempts.
    until("all attempts are counted", lambda: ask().success + ask().fail >= 7)
    check(ask(), **counts)
    check(ask(since=ago(hours=1), until=now()), **counts)
    check(ask(since=ago(days=2), until=ago(days=1)), **{name: 0 for name in counts})
    fails(400, lambda: ask(since=ago(days=40)), code="invalid_range")
    fails(404, lambda: world.client.endpoint.get_stats(application.id, "no-such-endpoint"), code="not_found")


@exercise("endpoint.get_attempt_stats")
def get_attempt_stats(world):
    application, endpoint = place_with_attempts(world)
    ask = lambda **query: world.client.endpoint.get_attempt_stats(
        application.id, endpoint.id, options.EndpointGetAttemptStatsOptions(**query)
    )
    counts = {"success": 2, "fail": 5, "canceled": 0}
    until("all attempts are counted", lambda: ask().success + ask().fail >= 7)
    check(ask(), **counts)
    check(ask(since=ago(hours=2), until=now()), **counts)
    check(ask(since=ago(days=2), until=ago(days=1)), **{name: 0 for name in counts})
    fails(404, lambda: world.client.endpoint.get_attempt_stats(application.id, "no-such-endpoint"), code="not_found")


@exercise("endpoint.send_example")
def send_example(world):
    application, receiver, other = world.application(), Receiver(), Receiver()
    examples = [{"amount": 1}, {"amount": 2}]
    kind = world.event_type(schemas={"1": {"type": "object", "title": "Invoice", "examples": examples}})
    endpoint = world.endpoint(application, receiver)
    world.endpoint(application, other)
    key = world.client.endpoint.get_secret(application.id, endpoint.id).key
    send = lambda **fields: world.client.endpoint.send_example(
        application.id, endpoint.id, models.EventExampleIn(**{"event_type": kind.name, **fields})
    )
    sent = send()
    check(sent, **message_out(event_type=kind.name, payload=lambda payload: payload in ({}, {"amount": 1})))
    delivery = receiver.next()
    assert verify(delivery, key) == {"amount": 1} and delivery[0]["webhook-id"] == sent.id
    send(example_index=1)
    assert verify(receiver.next(), key) == {"amount": 2}
    fails(422, lambda: send(example_index=2))
    fails(404, lambda: send(event_type="no.such.type"), code="not_found")
    # This type needs no definition.
    send(event_type="svix.ping")
    assert verify(receiver.next(), key) == {"success": True}
    if dialect.takes("EventExampleIn", "payload"):
        send(payload={"amount": 3})
        assert verify(receiver.next(), key) == {"amount": 3}
    other.nothing()


@exercise("endpoint.send_example")
def send_example_without_one(world):
    application = world.application()
    endpoint = world.endpoint(application, Receiver())
    send = lambda name: world.client.endpoint.send_example(
        application.id, endpoint.id, models.EventExampleIn(event_type=name)
    )
    fails(400, lambda: send(world.event_type().name), code="invalid_scheme")
    off = models.EndpointPatch(disabled=True)
    world.client.endpoint.patch(application.id, endpoint.id, off)
    kind = world.event_type(schemas={"1": {"type": "object", "examples": [{"amount": 1}]}})
    fails(400, lambda: send(kind.name))
