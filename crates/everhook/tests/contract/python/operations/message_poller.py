"""Pollers: a consumer asks for messages instead of receiving them."""

from dialect import models, options
from harness import ago, an_id, check, exercise, fails, now, recent, text, unique


def poller(world, application):
    """Creates a polling endpoint. The route belongs to destinations, of which Everhook has only this type."""
    return world.raw("POST", f"/app/{application.id}/destination", {"type": "pollingEndpoint", "config": {}})["id"]


def polled(**fields):
    return {
        "id": an_id("msg_"),
        "event_type": "invoice.paid",
        "event_id": None,
        "payload": {"amount": 12},
        "channels": None,
        "tags": None,
        "deliver_at": None,
        "headers": lambda headers: headers is None or isinstance(headers, dict),
        "timestamp": recent,
        **fields,
    }


@exercise("message.poller.poll")
def poll(world):
    application = world.application()
    sink = poller(world, application)
    ask = lambda **query: world.client.message.poller.poll(
        application.id, sink, options.MessagePollerPollOptions(**query)
    )
    start = ask()
    check(start, data=[], iterator=text, done=True)
    event_id = unique("event")
    sent = [world.message(application, event_id=event_id, channels=["red"], tags=["a"])]
    sent += [world.message(application, event_type="invoice.sent", payload={"n": n}) for n in range(2)]
    first = ask(limit=2, iterator=start.iterator)
    assert [one.id for one in first.data] == [one.id for one in sent[:2]] and first.done is False
    check(first.data[0], **polled(id=sent[0].id, event_id=event_id, channels=["red"], tags=["a"]))
    again = ask(limit=2, iterator=start.iterator)
    assert [one.id for one in again.data] == [one.id for one in sent[:2]], "a page can be read again"
    second = ask(limit=2, iterator=first.iterator)
    assert [one.id for one in second.data] == [sent[2].id] and second.done is True
    last = ask(iterator=second.iterator)
    check(last, data=[], iterator=text, done=True)
    chosen = ask(iterator=start.iterator, event_type="invoice.paid")
    assert [one.id for one in chosen.data] == [sent[0].id]
    assert [one.id for one in ask(iterator=start.iterator, channel="red").data] == [sent[0].id]
    fails(400, lambda: ask(iterator="nonsense"), code="invalid_iterator")
    fails(404, lambda: world.client.message.poller.poll(application.id, "no-such-poller"), code="not_found")


@exercise("message.poller.consumer_poll")
def consumer_poll(world):
    application = world.application()
    sink = poller(world, application)
    call = world.client.message.poller.consumer_poll
    ask = lambda consumer="one", **query: call(
        application.id, sink, consumer, options.MessagePollerConsumerPollOptions(**query)
    )
    start = ask()
    sent = [world.message(application, payload={"n": n}) for n in range(3)]
    page = ask(limit=2, iterator=start.iterator)
    assert [one.id for one in page.data] == [one.id for one in sent[:2]] and page.done is False
    check(page.data[1], **polled(id=sent[1].id, payload={"n": 1}))
    repeated = ask(limit=2)
    assert [one.id for one in repeated.data] == [one.id for one in sent[:2]], "an unconfirmed page comes again"
    rest = ask(limit=2, iterator=page.iterator)
    assert [one.id for one in rest.data] == [sent[2].id] and rest.done is True
    ask(iterator=rest.iterator)
    assert ask().data == [], "a confirmed page does not come again"
    fails(404, lambda: call(application.id, "no-such-poller", "one"), code="not_found")


@exercise("message.poller.consumer_seek")
def consumer_seek(world):
    application = world.application()
    sink = poller(world, application)
    ask = lambda **query: world.client.message.poller.consumer_poll(
        application.id, sink, "one", options.MessagePollerConsumerPollOptions(**query)
    )
    seek = lambda after: world.client.message.poller.consumer_seek(
        application.id, sink, "one", models.PollingEndpointConsumerSeekIn(after=after)
    )
    start = ask()
    sent = [world.message(application) for _ in range(2)]
    page = ask(iterator=start.iterator)
    assert len(page.data) == 2
    ask(iterator=page.iterator)
    answer = seek(ago(hours=1))
    check(answer, iterator=text)
    fails(400, lambda: ask(iterator=page.iterator), code="invalid_iterator")
    assert [one.id for one in ask().data] == [one.id for one in sent]
    seek(now())
    assert ask().data == []
