"""Messages and their content."""

import datetime
import json

from dialect import models, options
from harness import Receiver, ago, application_out, check, exercise, fails, message_out, now, pages, task_out
from harness import unique, verify

EXPUNGED = {"expired": True}
WITH_CONTENT = options.MessageGetOptions(with_content=True)


@exercise("message.create")
def create(world):
    application, receiver = world.application(), Receiver()
    endpoint = world.endpoint(application, receiver)
    key = world.client.endpoint.get_secret(application.id, endpoint.id).key
    payload = {"name": "Zoë", "amount": 12.5, "list": [1, None, True]}
    fields = {"event_type": "invoice.paid", "event_id": unique("event"), "channels": ["red"], "tags": ["a", "b"]}
    wanted = models.MessageIn(payload=payload, payload_retention_period=10, **fields)
    with_content = options.MessageCreateOptions(with_content=True)
    sent = world.client.message.create(application.uid, wanted, with_content)
    check(sent, **message_out(payload=payload, **fields))
    delivery = receiver.next()
    assert verify(delivery, key) == payload and delivery[0]["webhook-id"] == sent.id
    fails(409, lambda: world.client.message.create(application.id, wanted), code="conflict")
    bad = models.MessageIn(event_type="not a name", payload={})
    error = fails(422, lambda: world.client.message.create(application.id, bad))
    assert list(error.detail[0].loc) == ["body", "eventType"], error
    missing = models.MessageIn(event_type="a", payload={})
    fails(404, lambda: world.client.message.create("no-such-application", missing), code="not_found")


@exercise("message.create")
def create_twice_with_one_key(world):
    application = world.application()
    key = options.MessageCreateOptions(idempotency_key=unique("key"))
    wanted = lambda n: models.MessageIn(event_type="a", payload={"n": n})
    create = lambda n: world.client.message.create(application.id, wanted(n), key)
    first = create(1)
    assert create(1).id == first.id
    fails(409, lambda: create(2))


@exercise("message.create")
def create_with_an_application(world):
    uid = unique("app")
    new = models.ApplicationIn(name="On the fly", uid=uid)
    sent = world.client.message.create(uid, models.MessageIn(event_type="a", payload={}, application=new))
    assert world.client.message.get(uid, sent.id).id == sent.id
    check(world.client.application.get(uid), **application_out(name="On the fly", uid=uid))
    other = models.ApplicationIn(name="Other", uid=unique("app"))
    mismatch = models.MessageIn(event_type="a", payload={}, application=other)
    fails(422, lambda: world.client.message.create(unique("app"), mismatch))


@exercise("message.create")
def create_for_later(world):
    application, receiver = world.application(), Receiver()
    world.endpoint(application, receiver)
    later = now() + datetime.timedelta(hours=1)
    sent = world.message(application, deliver_at=later)
    assert abs(sent.deliver_at - later) < datetime.timedelta(milliseconds=1)
    world.message(application, payload={"n": 2})
    assert json.loads(receiver.next()[1]) == {"n": 2}
    assert world.destination(application, sent).status == models.MessageStatus.PENDING
    receiver.nothing()


@exercise("message.get")
def get(world):
    application = world.application()
    sent = world.message(application, event_id=unique("event"), tags=["a"], channels=["red"])
    expected = {"id": sent.id, "event_id": sent.event_id, "tags": ["a"], "channels": ["red"]}
    for name in (sent.id, sent.event_id):
        found = world.client.message.get(application.id, name, WITH_CONTENT)
        check(found, **message_out(payload={"amount": 12}, **expected))
    without = options.MessageGetOptions(with_content=False)
    check(world.client.message.get(application.id, sent.id, without), **message_out(**expected))
    fails(404, lambda: world.client.message.get(application.id, "no-such-message"), code="not_found")
    fails(404, lambda: world.client.message.get(world.application().id, sent.id), code="not_found")


@exercise("message.list")
def list_all(world):
    application = world.application()
    sent = [world.message(application, payload={"n": n}) for n in range(5)]
    world.message(world.application())
    ask = lambda **query: world.client.message.list(application.id, options.MessageListOptions(**query))
    found = pages(lambda **query: ask(with_content=True, **query), limit=2)
    for n, (message, expected) in enumerate(zip(reversed(found), sent, strict=True)):
        check(message, **message_out(id=expected.id, payload={"n": n}))
    first = ask(limit=2, with_content=False)
    check(first, data=first.data, iterator=sent[3].id, prev_iterator=f"-{sent[4].id}", done=False)
    assert [message.payload for message in first.data] == [{}, {}]


@exercise("message.list")
def list_some(world):
    application = world.application()
    paid = world.message(application, event_type="invoice.paid", channels=["red"])
    sent = world.message(application, event_type="invoice.sent", tags=["a"])
    ask = lambda **query: [
        one.id for one in world.client.message.list(application.id, options.MessageListOptions(**query)).data
    ]
    assert ask() == [sent.id, paid.id]
    assert ask(event_types=["invoice.paid"]) == [paid.id]
    assert ask(event_types=["invoice.paid", "invoice.sent"]) == [sent.id, paid.id]
    assert ask(channel="red") == [paid.id]
    assert ask(tag="a") == [sent.id]
    assert ask(before=ago(hours=1)) == [] and ask(after=ago(hours=1)) == [sent.id, paid.id]
    naive = ago(hours=1).replace(tzinfo=None)
    assert ask(after=naive) == [sent.id, paid.id], "a time without an offset is UTC"


@exercise("message.precheck")
def precheck(world):
    application, kind = world.application(), world.event_type()
    endpoint = world.endpoint(application, Receiver(), event_types=[kind.name], channels=["red"])
    active = lambda **fields: world.client.message.precheck(application.id, models.MessagePrecheckIn(**fields))
    check(active(event_type=kind.name, channels=["red"]), active=True)
    check(active(event_type=kind.name, channels=["red", "blue"]), active=True)
    check(active(event_type=kind.name, channels=["blue"]), active=False)
    check(active(event_type="other", channels=["red"]), active=False)
    world.client.endpoint.patch(application.id, endpoint.id, models.EndpointPatch(disabled=True))
    check(active(event_type=kind.name, channels=["red"]), active=False)
    assert world.client.message.list(application.id).data == []
    missing = models.MessagePrecheckIn(event_type="a")
    fails(404, lambda: world.client.message.precheck("no-such-application", missing), code="not_found")


@exercise("message.expunge_content")
def expunge_content(world):
    application = world.application()
    sent, kept = world.message(application), world.message(application)
    assert world.client.message.expunge_content(application.id, sent.id) is None
    content = lambda message: world.client.message.get(application.id, message.id, WITH_CONTENT)
    check(content(sent), **message_out(id=sent.id, payload=EXPUNGED))
    assert content(kept).payload == {"amount": 12}
    fails(404, lambda: world.client.message.expunge_content(application.id, "no-such-message"), code="not_found")


@exercise("message.bulk_expunge_content")
def bulk_expunge_content(world):
    application = world.application()
    first, second, kept = (world.message(application, event_id=unique("event")) for _ in range(3))
    elsewhere = world.message(world.application())
    ids = [first.id, second.event_id, elsewhere.id, "no-such-message"]
    answer = world.client.message.bulk_expunge_content(application.id, models.BulkExpungeContentsIn(ids=ids))
    expected = {first.id: "expunged", second.event_id: "expunged", elsewhere.id: "not-found"}
    check(answer, results={**expected, "no-such-message": "not-found"})
    payloads = [world.client.message.get(application.id, one.id, WITH_CONTENT).payload for one in (first, second, kept)]
    assert payloads == [EXPUNGED, EXPUNGED, {"amount": 12}]
    nothing = world.client.message.bulk_expunge_content(application.id, models.BulkExpungeContentsIn(ids=[]))
    check(nothing, results={})
    many = models.BulkExpungeContentsIn(ids=[f"event-{n}" for n in range(251)])
    fails(422, lambda: world.client.message.bulk_expunge_content(application.id, many))


@exercise("message.expunge_all_contents")
def expunge_all_contents(world):
    application, other = world.application(), world.application()
    sent = [world.message(application) for _ in range(3)]
    kept = world.message(other)
    task = world.client.message.expunge_all_contents(application.id)
    check(task, **task_out(models.BackgroundTaskType.APPLICATION_PURGE_CONTENT))
    assert world.finished(task).data["messagesPurged"] == 3
    for message in sent:
        assert world.client.message.get(application.id, message.id, WITH_CONTENT).payload == EXPUNGED
    assert world.client.message.get(other.id, kept.id, WITH_CONTENT).payload == {"amount": 12}
    fails(404, lambda: world.client.message.expunge_all_contents("no-such-application"), code="not_found")
