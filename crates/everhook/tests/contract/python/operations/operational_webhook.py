"""Endpoints of the operator, which get signed webhooks about the environment itself."""

import json

import dialect
from dialect import models, options
from harness import Receiver, an_id, check, check_both_ways, exercise, fails, operational_endpoint_out, same
from harness import unique, verify
from operations.endpoint import new_key


def operational(world, receiver, **fields):
    wanted = models.OperationalWebhookEndpointIn(**{"url": receiver.url, **fields})
    return world.client.operational_webhook.endpoint.create(wanted)


def event(receiver, key, kind):
    """Returns the data of the next webhook of this kind. Before it, only general news of a change may come."""
    while (content := verify(receiver.next(), key))["type"] != kind:
        assert content["type"] == "endpoint.updated", content
    return content["data"]


def about(data, application, endpoint):
    """Checks the four fields that every event about an endpoint has."""
    assert data["appId"] == application.id and data["endpointId"] == endpoint.id, data
    assert data.get("appUid") == application.uid and data.get("endpointUid") == endpoint.uid, data


@exercise("operational_webhook.endpoint.create")
def create(world):
    receiver, key, uid = Receiver(), new_key(), unique("alerts")
    fields = {"url": receiver.url, "description": "Alerts", "uid": uid, "throttle_rate": 10, "disabled": False}
    fields.update(event_types=["endpoint.created"], metadata={"team": "on-call"})
    headers = {"headers": {"x-team": "on-call"}} if dialect.takes("OperationalWebhookEndpointIn", "headers") else {}
    wanted = models.OperationalWebhookEndpointIn(secret=key, **fields, **headers)
    made = world.client.operational_webhook.endpoint.create(wanted)
    check(made, **operational_endpoint_out(**fields))
    application = world.application()
    endpoint = world.endpoint(application, Receiver(), uid=unique("endpoint"))
    delivery = receiver.next()
    assert not headers or delivery[0]["x-team"] == "on-call"
    content = verify(delivery, key)
    assert content["type"] == "endpoint.created"
    about(content["data"], application, endpoint)
    fails(409, lambda: world.client.operational_webhook.endpoint.create(wanted), code="conflict")
    fails(422, lambda: operational(world, receiver, url="nonsense"))
    # The token of an application has no rights over the operator's endpoints.
    token = world.client.authentication.app_portal_access(application.id, models.AppPortalAccessIn()).token
    fails(403, lambda: world.client_with(token).operational_webhook.endpoint.list())


@exercise("operational_webhook.endpoint.create")
def events_of_an_endpoint(world):
    receiver, key = Receiver(), new_key()
    operational(world, receiver, secret=key)
    application = world.application()
    endpoint = world.endpoint(application, Receiver(), uid=unique("endpoint"))
    about(event(receiver, key, "endpoint.created"), application, endpoint)
    change = lambda **fields: world.client.endpoint.patch(application.id, endpoint.id, models.EndpointPatch(**fields))
    change(description="Changed")
    about(event(receiver, key, "endpoint.updated"), application, endpoint)
    change(disabled=True)
    disabled = event(receiver, key, "endpoint.disabled")
    about(disabled, application, endpoint)
    assert disabled.get("trigger") == "manual", disabled
    change(disabled=False)
    about(event(receiver, key, "endpoint.enabled"), application, endpoint)
    world.client.endpoint.delete(application.id, endpoint.id)
    about(event(receiver, key, "endpoint.deleted"), application, endpoint)


@exercise("operational_webhook.endpoint.create")
def events_of_attempts(world):
    receiver, key = Receiver(), new_key()
    kinds = [f"message.attempt.{name}" for name in ("failing", "exhausted", "recovered")]
    operational(world, receiver, secret=key, event_types=kinds)
    application, target = world.application(), Receiver(status=500)
    endpoint = world.endpoint(application, target)
    lost = world.message(application, event_id=unique("event"))
    for kind in kinds[:2]:
        data = event(receiver, key, kind)
        expected = (application.id, application.uid, endpoint.id, lost.id, lost.event_id)
        assert (data["appId"], data["appUid"], data["endpointId"], data["msgId"], data["msgEventId"]) == expected, data
        last = data["lastAttempt"]
        assert an_id("atmpt_")(last["id"]) and last["responseStatusCode"] == 500 and last["timestamp"], data
    late = world.message(application)
    assert event(receiver, key, "message.attempt.failing")["msgId"] == late.id
    target.status = 200
    assert event(receiver, key, "message.attempt.recovered")["msgId"] == late.id


@exercise("operational_webhook.endpoint.create")
def event_of_a_task(world):
    receiver, key = Receiver(), new_key()
    operational(world, receiver, secret=key, event_types=["background_task.finished"])
    application = world.application()
    task = world.client.message.expunge_all_contents(application.id)
    data = event(receiver, key, "background_task.finished")
    assert (data["taskId"], data["task"], data["status"]) == (task.id, "application.purge_content", "finished"), data
    assert data["data"]["messagesPurged"] == 0, data


@exercise("operational_webhook.endpoint.get")
def get(world):
    made = operational(world, Receiver(), uid=unique("alerts"))
    same(world.client.operational_webhook.endpoint.get(made.id), made)
    same(world.client.operational_webhook.endpoint.get(made.uid), made)
    fails(404, lambda: world.client.operational_webhook.endpoint.get("no-such-endpoint"), code="not_found")


@exercise("operational_webhook.endpoint.list")
def list_all(world):
    made = [operational(world, Receiver(), description=f"Number {n}") for n in range(5)]
    query = options.OperationalWebhookEndpointListOptions
    ask = lambda **fields: world.client.operational_webhook.endpoint.list(query(**fields))
    check_both_ways(ask, made)


@exercise("operational_webhook.endpoint.upsert")
def upsert(world):
    receiver = Receiver()
    made = operational(world, Receiver(), uid=unique("alerts"), metadata={"a": "b"}, throttle_rate=3)
    upsert = world.client.operational_webhook.endpoint.upsert
    fields = {"url": receiver.url, "uid": made.uid, "description": "After", "disabled": True}
    after = upsert(made.uid, models.OperationalWebhookEndpointUpsertIn(**fields))
    check(after, **operational_endpoint_out(id=made.id, created_at=made.created_at, **fields))
    same(world.client.operational_webhook.endpoint.get(made.id), after)
    uid = unique("alerts")
    created = upsert(uid, models.OperationalWebhookEndpointUpsertIn(url=receiver.url, uid=uid))
    check(created, **operational_endpoint_out(url=receiver.url, uid=uid))


@exercise("operational_webhook.endpoint.delete")
def delete(world):
    receiver, witness = Receiver(), Receiver()
    made = operational(world, receiver)
    operational(world, witness)
    assert world.client.operational_webhook.endpoint.delete(made.id) is None
    fails(404, lambda: world.client.operational_webhook.endpoint.get(made.id), code="not_found")
    world.endpoint(world.application(), Receiver())
    assert json.loads(witness.next()[1])["type"] == "endpoint.created"
    receiver.nothing()


@exercise("operational_webhook.endpoint.get_secret")
def get_secret(world):
    key = new_key()
    chosen, made = operational(world, Receiver(), secret=key), operational(world, Receiver())
    check(world.client.operational_webhook.endpoint.get_secret(chosen.id), key=key)
    check(world.client.operational_webhook.endpoint.get_secret(made.id), key=lambda key: key.startswith("whsec_"))


@exercise("operational_webhook.endpoint.rotate_secret")
def rotate_secret(world):
    receiver, first, second = Receiver(), new_key(), new_key()
    made = operational(world, receiver, secret=first)
    rotate = world.client.operational_webhook.endpoint.rotate_secret
    assert rotate(made.id, models.OperationalWebhookEndpointSecretIn(key=second)) is None
    assert world.client.operational_webhook.endpoint.get_secret(made.id).key == second
    world.endpoint(world.application(), Receiver())
    delivery = receiver.next()
    assert verify(delivery, first) == verify(delivery, second)
    assert rotate(made.id, models.OperationalWebhookEndpointSecretIn()) is None
    assert world.client.operational_webhook.endpoint.get_secret(made.id).key not in (first, second)


@exercise("operational_webhook.endpoint.get_headers")
def get_headers(world):
    made = operational(world, Receiver())
    get_headers = world.client.operational_webhook.endpoint.get_headers
    check(get_headers(made.id), headers={}, sensitive=[])
    wanted = {"x-team": "on-call", "authorization": "Bearer abc"}
    headers = models.OperationalWebhookEndpointHeadersIn(headers=wanted)
    world.client.operational_webhook.endpoint.set_headers(made.id, headers)
    check(get_headers(made.id), headers={"x-team": "on-call"}, sensitive=["authorization"])


@exercise("operational_webhook.endpoint.set_headers")
def set_headers(world):
    receiver = Receiver()
    made = operational(world, receiver)
    set_headers = lambda **headers: world.client.operational_webhook.endpoint.set_headers(
        made.id, models.OperationalWebhookEndpointHeadersIn(headers=headers)
    )
    assert set_headers(**{"x-old": "1"}) is None
    assert set_headers(**{"x-new": "2"}) is None
    world.endpoint(world.application(), Receiver())
    headers, _ = receiver.next()
    assert (headers.get("x-old"), headers["x-new"]) == (None, "2")
    fails(422, lambda: set_headers(**{"svix-id": "x"}))
