"""Endpoints and their secrets."""

import base64
import os

import dialect
from dialect import models, options
from harness import Receiver, check, endpoint_out, exercise, fails, pages, same, unique, verify


def new_key():
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


@exercise("endpoint.create")
def create(world):
    application, receiver, kind = world.application(), Receiver(), world.event_type()
    uid, key = unique("endpoint"), new_key()
    fields = {
        "url": receiver.url,
        "description": "Invoices",
        "uid": uid,
        "disabled": False,
        "throttle_rate": 100,
        "event_types": [kind.name],
        "channels": ["blue", "red"],
        "metadata": {"team": "billing"},
    }
    wanted = models.EndpointIn(secret=key, headers={"x-team": "billing"}, **fields)
    made = world.client.endpoint.create(application.uid, wanted)
    check(made, **endpoint_out(**fields))
    world.message(application, event_type=kind.name, channels=["red"])
    headers, body = receiver.next()
    assert headers["x-team"] == "billing"
    assert verify((headers, body), key) == {"amount": 12}
    fails(409, lambda: world.client.endpoint.create(application.uid, wanted), code="conflict")


@exercise("endpoint.create")
def create_with_defaults(world):
    application, receiver = world.application(), Receiver()
    made = world.client.endpoint.create(application.id, models.EndpointIn(url=receiver.url))
    check(made, **endpoint_out(url=receiver.url))
    bad = lambda **fields: fails(422, lambda: world.endpoint(application, receiver, **fields))
    assert list(bad(url="nonsense").detail[0].loc) == ["body", "url"]
    bad(event_types=["no.such.type"])
    bad(headers={"content-length": "1"})
    bad(secret="whsec_dG9vIHNob3J0")
    missing = models.EndpointIn(url=receiver.url)
    fails(404, lambda: world.client.endpoint.create("no-such-application", missing), code="not_found")


@exercise("endpoint.get")
def get(world):
    application = world.application()
    made = world.endpoint(application, Receiver(), uid=unique("endpoint"))
    same(world.client.endpoint.get(application.id, made.id), made)
    same(world.client.endpoint.get(application.uid, made.uid), made)
    fails(404, lambda: world.client.endpoint.get(application.id, "no-such-endpoint"), code="not_found")
    fails(404, lambda: world.client.endpoint.get(world.application().id, made.id), code="not_found")


@exercise("endpoint.list")
def list_all(world):
    application = world.application()
    made = [world.endpoint(application, Receiver(), description=f"Number {n}") for n in range(5)]
    world.endpoint(world.application(), Receiver())
    ask = lambda **query: world.client.endpoint.list(application.id, options.EndpointListOptions(**query))
    for found, expected in zip(pages(ask, limit=2), reversed(made), strict=True):
        same(found, expected)
    first = ask(limit=2)
    check(first, data=first.data, iterator=made[3].id, prev_iterator=f"-{made[4].id}", done=False)
    oldest = ask(limit=1, order=models.Ordering.ASCENDING)
    assert [one.id for one in oldest.data] == [made[0].id]
    fails(404, lambda: world.client.endpoint.list("no-such-application"), code="not_found")


@exercise("endpoint.upsert")
def upsert(world):
    application, receiver = world.application(), Receiver()
    made = world.endpoint(application, Receiver(), uid=unique("endpoint"), channels=["red"], metadata={"a": "b"})
    key = world.client.endpoint.get_secret(application.id, made.id).key
    wanted = models.EndpointUpsertIn(url=receiver.url, uid=made.uid, description="After", disabled=True)
    after = world.client.endpoint.upsert(application.id, made.uid, wanted)
    expected = {"uid": made.uid, "description": "After", "disabled": True}
    check(after, **endpoint_out(id=made.id, url=receiver.url, created_at=made.created_at, **expected))
    same(world.client.endpoint.get(application.id, made.id), after)
    assert world.client.endpoint.get_secret(application.id, made.id).key == key
    uid = unique("endpoint")
    created = world.client.endpoint.upsert(application.id, uid, models.EndpointUpsertIn(url=receiver.url, uid=uid))
    check(created, **endpoint_out(url=receiver.url, uid=uid))


@exercise("endpoint.patch")
def patch(world):
    application, receiver, kind = world.application(), Receiver(), world.event_type()
    made = world.endpoint(application, receiver, uid=unique("endpoint"), event_types=[kind.name], throttle_rate=7)
    change = lambda **fields: world.client.endpoint.patch(application.id, made.id, models.EndpointPatch(**fields))
    expected = {"id": made.id, "url": receiver.url, "uid": made.uid, "event_types": [kind.name], "throttle_rate": 7}
    expected.update(description="Off", disabled=True)
    check(change(description="Off", disabled=True), **endpoint_out(**expected))
    expected.update(uid=None, event_types=None, throttle_rate=None, channels=["red"], metadata={"a": "b"})
    fields = {name: expected[name] for name in ("uid", "event_types", "throttle_rate", "channels", "metadata")}
    after = change(**fields)
    check(after, **endpoint_out(**expected))
    same(world.client.endpoint.get(application.id, made.id), after)
    missing = models.EndpointPatch(description="x")
    fails(404, lambda: world.client.endpoint.patch(application.id, "no-such-endpoint", missing), code="not_found")


@exercise("endpoint.delete")
def delete(world):
    application, receiver = world.application(), Receiver()
    made = world.endpoint(application, receiver, uid=unique("endpoint"))
    assert world.client.endpoint.delete(application.id, made.uid) is None
    fails(404, lambda: world.client.endpoint.get(application.id, made.id), code="not_found")
    assert world.client.endpoint.list(application.id).data == []
    assert world.endpoint(application, receiver, uid=made.uid).id != made.id
    fails(404, lambda: world.client.endpoint.delete(application.id, made.id), code="not_found")


@exercise("endpoint.get_secret")
def get_secret(world):
    application, receiver, key = world.application(), Receiver(), new_key()
    chosen = world.endpoint(application, receiver, secret=key)
    check(world.client.endpoint.get_secret(application.id, chosen.id), key=key)
    made = world.endpoint(application, Receiver())
    check(world.client.endpoint.get_secret(application.id, made.id), key=lambda key: key.startswith("whsec_"))
    fails(404, lambda: world.client.endpoint.get_secret(application.id, "no-such-endpoint"), code="not_found")


@exercise("endpoint.rotate_secret")
def rotate_secret(world):
    application, receiver = world.application(), Receiver()
    endpoint = world.endpoint(application, receiver)
    current = lambda: world.client.endpoint.get_secret(application.id, endpoint.id).key
    rotate = lambda **fields: world.client.endpoint.rotate_secret(
        application.id, endpoint.id, models.EndpointSecretRotateIn(**fields)
    )
    first = current()
    answer = rotate()
    second = current()
    assert second != first and second.startswith("whsec_")
    # The 1.x package reads no answer.
    assert dialect.OLD or answer.key == second
    world.message(application)
    delivery = receiver.next()
    assert verify(delivery, first) == verify(delivery, second) == {"amount": 12}
    chosen = new_key()
    rotate(key=chosen, grace_period_seconds=0)
    assert current() == chosen
    world.message(application)
    delivery = receiver.next()
    verify(delivery, chosen)
    try:
        verify(delivery, second)
    except Exception as error:
        assert type(error).__name__ == "WebhookVerificationError", error
    else:
        raise AssertionError("a secret without a grace period still signs")
    fails(422, lambda: rotate(grace_period_seconds=604801))
