"""Drives a real Everhook with the client libraries its users already have.

    python contract.py SERVER_URL API_KEY

The server is reached with the published `svix` client; deliveries arrive at a receiver in this process, which verifies them
with `standardwebhooks` and with `svix`. Every case is a function whose name is a sentence about the product. Prints one line
for each case and `N passed` at the end; ends with 1 if one failed.
"""

import asyncio
import base64
import datetime
import json
import os
import sys
import traceback
import uuid

import standardwebhooks
import svix
from svix.api import (
    ApplicationIn,
    ApplicationListOptions,
    ApplicationPatch,
    AppPortalAccessIn,
    EndpointIn,
    EndpointPatch,
    EndpointSecretRotateIn,
    EventTypeIn,
    MessageAttemptListByEndpointOptions,
    MessageAttemptListByMsgOptions,
    MessageCreateOptions,
    MessageGetOptions,
    MessageIn,
    MessageListOptions,
    Svix,
    SvixAsync,
    SvixOptions,
)
from svix.api.message import message_in_raw
from svix.models import AppPortalCapability, MessageStatus

from harness import Receiver, Server, fails, pages, until

CASES = []


def case(function):
    CASES.append(function)
    return function


class Place:
    """An application with an endpoint and the receiver behind it."""

    def __init__(self, client):
        self.client = client
        self.receiver = Receiver()
        self.uid = f"app-{uuid.uuid4()}"
        self.application = client.application.get_or_create(ApplicationIn(name="Contract", uid=self.uid))
        self.endpoint = client.endpoint.create(self.uid, EndpointIn(url=self.receiver.url, description="Contract"))
        self.secret = client.endpoint.get_secret(self.uid, self.endpoint.id).key

    def send(self, payload=None, **fields):
        message = MessageIn(event_type="invoice.paid", payload=payload or {"n": 1}, **fields)
        return self.client.message.create(self.uid, message)

    def attempts(self, message, **options):
        return self.client.message_attempt.list_by_msg(self.uid, message.id, MessageAttemptListByMsgOptions(**options)).data


@case
def the_server_is_healthy(client):
    client.health.get()


@case
def an_application_is_made_once(client):
    uid = f"app-{uuid.uuid4()}"
    wanted = ApplicationIn(name="Acme", uid=uid, metadata={"plan": "gold"})
    first = client.application.get_or_create(wanted)
    assert client.application.get_or_create(wanted).id == first.id
    assert first.id.startswith("app_") and len(first.id) == len("app_") + 27
    assert (first.uid, first.metadata) == (uid, {"plan": "gold"})
    assert client.application.get(uid).id == client.application.get(first.id).id == first.id
    assert client.application.patch(uid, ApplicationPatch(name="Acme Ltd")).name == "Acme Ltd"
    assert client.application.upsert(uid, ApplicationIn(name="Acme Inc", uid=uid)).name == "Acme Inc"
    assert fails(409, lambda: client.application.create(wanted)).code == "conflict"
    client.application.delete(uid)
    fails(404, lambda: client.application.get(uid))


@case
def applications_are_listed_page_by_page(client):
    made = [client.application.create(ApplicationIn(name=f"Page {n}")).id for n in range(5)]
    ask = lambda **query: client.application.list(ApplicationListOptions(**query))
    seen = [application.id for application in pages(ask, limit=2)]
    assert [id for id in seen if id in made] == made and len(set(seen)) == len(seen)


@case
def a_delivery_verifies_with_both_libraries(client):
    place = Place(client)
    message = place.send({"name": "Zoë", "amount": 12.5, "list": [1, None, True]})
    headers, body = place.receiver.next()
    payload = standardwebhooks.Webhook(place.secret).verify(body, headers)
    assert payload == {"name": "Zoë", "amount": 12.5, "list": [1, None, True]}
    svix.Webhook(place.secret).verify(body, headers)
    assert headers["webhook-id"] == headers["svix-id"] == message.id
    only_webhook = {name: value for name, value in headers.items() if not name.startswith("svix-")}
    svix.Webhook(place.secret).verify(body, only_webhook)
    for bad in (body + b" ", body.replace(b"12.5", b"13.5")):
        try:
            standardwebhooks.Webhook(place.secret).verify(bad, headers)
        except standardwebhooks.WebhookVerificationError:
            continue
        raise AssertionError("a changed body verifies")


@case
def attempts_are_listed_by_message_and_by_endpoint(client):
    place = Place(client)
    message = place.send()
    until("it was tried", lambda: place.attempts(message))
    (attempt,) = place.attempts(message)
    assert attempt.id.startswith("atmpt_")
    assert (attempt.msg_id, attempt.endpoint_id) == (message.id, place.endpoint.id)
    assert (attempt.status, attempt.response_status_code) == (MessageStatus.SUCCESS, 200)
    assert (attempt.url, attempt.trigger_type) == (place.receiver.url, 0)
    options = MessageAttemptListByEndpointOptions(status=MessageStatus.SUCCESS)
    (same,) = client.message_attempt.list_by_endpoint(place.uid, place.endpoint.id, options).data
    assert same.id == attempt.id
    options = MessageAttemptListByEndpointOptions(status=MessageStatus.FAIL)
    assert client.message_attempt.list_by_endpoint(place.uid, place.endpoint.id, options).data == []
    assert client.message_attempt.get(place.uid, message.id, attempt.id).id == attempt.id
    (destination,) = client.message_attempt.list_attempted_destinations(place.uid, message.id).data
    assert (destination.id, destination.status) == (place.endpoint.id, MessageStatus.SUCCESS)


@case
def a_failed_delivery_shows_its_next_attempt(client):
    place = Place(client)
    place.receiver.status = 500
    message = place.send()
    until("it was tried", lambda: place.attempts(message, status=MessageStatus.FAIL))
    (destination,) = client.message_attempt.list_attempted_destinations(place.uid, message.id).data
    assert destination.status == MessageStatus.PENDING and destination.next_attempt


@case
def messages_are_listed_page_by_page(client):
    place = Place(client)
    made = [place.send({"n": n}).id for n in range(5)]
    ask = lambda **query: client.message.list(place.uid, MessageListOptions(with_content=True, **query))
    seen = [(message.id, message.payload["n"]) for message in pages(ask, limit=2)]
    assert seen == [(id, n) for n, id in reversed(list(enumerate(made)))], "newest first"
    assert client.message.list(place.uid, MessageListOptions(limit=1)).data[0].payload == {}


@case
def a_message_is_found_by_its_id_and_its_event_id(client):
    place = Place(client)
    message = place.send({"n": 7}, event_id="event-7", channels=["red"], tags=["a-tag"])
    for id in (message.id, "event-7"):
        found = client.message.get(place.uid, id, MessageGetOptions(with_content=True))
        assert (found.id, found.event_id, found.payload) == (message.id, "event-7", {"n": 7})
        assert (found.channels, found.tags, found.event_type) == (["red"], ["a-tag"], "invoice.paid")


@case
def an_event_id_is_taken_once(client):
    place = Place(client)
    place.send(event_id="only-once")
    assert fails(409, lambda: place.send({"n": 2}, event_id="only-once")).code == "conflict"


@case
def the_same_idempotency_key_is_the_same_message(client):
    place = Place(client)
    options = MessageCreateOptions(idempotency_key=f"key-{uuid.uuid4()}")
    create = lambda n: client.message.create(place.uid, MessageIn(event_type="a", payload={"n": n}), options)
    first = create(1)
    assert create(1).id == first.id
    fails(409, lambda: create(2))
    assert len(client.message.list(place.uid).data) == 1


@case
def while_a_secret_is_rotated_both_secrets_verify(client):
    place = Place(client)
    new = client.endpoint.rotate_secret(place.uid, place.endpoint.id, EndpointSecretRotateIn()).key
    assert new == client.endpoint.get_secret(place.uid, place.endpoint.id).key
    assert new != place.secret and new.startswith("whsec_")
    place.send()
    headers, body = place.receiver.next()
    for secret in (place.secret, new):
        standardwebhooks.Webhook(secret).verify(body, headers)
        svix.Webhook(secret).verify(body, headers)
    chosen = "whsec_" + base64.b64encode(os.urandom(32)).decode()
    client.endpoint.rotate_secret(place.uid, place.endpoint.id, EndpointSecretRotateIn(key=chosen))
    assert client.endpoint.get_secret(place.uid, place.endpoint.id).key == chosen


@case
def a_resend_is_one_more_attempt(client):
    place = Place(client)
    message = place.send()
    until("it was tried", lambda: place.attempts(message))
    client.message_attempt.resend(place.uid, message.id, place.endpoint.id)
    until("it was tried again", lambda: len(place.attempts(message)) == 2)
    newest, oldest = place.attempts(message)
    assert (newest.trigger_type, oldest.trigger_type) == (1, 0)
    first, second = place.receiver.next(), place.receiver.next()
    assert first[1] == second[1]
    standardwebhooks.Webhook(place.secret).verify(second[1], second[0])


@case
def endpoints_are_changed_and_deleted(client):
    place = Place(client)
    changed = client.endpoint.patch(place.uid, place.endpoint.id, EndpointPatch(disabled=True, description="Off"))
    assert (changed.disabled, changed.description) == (True, "Off")
    assert [endpoint.id for endpoint in client.endpoint.list(place.uid).data] == [place.endpoint.id]
    client.endpoint.delete(place.uid, place.endpoint.id)
    assert fails(404, lambda: client.endpoint.get(place.uid, place.endpoint.id)).code == "not_found"
    assert client.endpoint.list(place.uid).data == []


@case
def event_types_choose_what_an_endpoint_gets(client):
    name = f"contract.{uuid.uuid4().hex}"
    schema = {"1": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    client.event_type.create(EventTypeIn(name=name, description="A test", schemas=schema))
    assert client.event_type.get(name).description == "A test"
    assert fails(409, lambda: client.event_type.create(EventTypeIn(name=name, description=""))).code == "event_type_exists"
    place, other = Place(client), Receiver()
    client.endpoint.create(place.uid, EndpointIn(url=other.url, event_types=[name]))
    place.send()
    wanted = client.message.create(place.uid, MessageIn(event_type=name, payload={"n": 2}))
    headers, body = other.next()
    assert json.loads(body) == {"n": 2}
    assert headers["webhook-id"] == wanted.id
    client.event_type.delete(name)
    assert client.event_type.get(name).archived


@case
def what_is_wrong_raises_the_right_error(client):
    place = Place(client)
    message = lambda app, **fields: client.message.create(app, MessageIn(**fields))
    assert fails(404, lambda: message("no-such-app", event_type="a", payload={})).code == "not_found"
    error = fails(422, lambda: message(place.uid, event_type="not valid", payload={}))
    assert list(error.detail[0].loc) == ["body", "eventType"], error
    fails(422, lambda: client.endpoint.create(place.uid, EndpointIn(url="nonsense")))
    fails(422, lambda: client.endpoint.create(place.uid, EndpointIn(url="http://10.0.0.1/")))
    fails(422, lambda: client.endpoint.create(place.uid, EndpointIn(url=place.receiver.url, event_types=["no.such"])))
    fails(404, lambda: client.message.get(place.uid, "no-such-message"))
    fails(404, lambda: client.message_attempt.resend(place.uid, "no-such-message", place.endpoint.id))
    stranger = Svix("ehk_nonsense", SvixOptions(server_url=SERVER_URL))
    assert fails(401, lambda: stranger.application.list()).code == "authentication_failed"


@case
def the_asynchronous_client_works_as_well(client):
    place = Place(client)

    async def send():
        asynchronous = SvixAsync(API_KEY, SvixOptions(server_url=SERVER_URL))
        messages = [MessageIn(event_type="a", payload={"n": n}) for n in range(10)]
        return await asyncio.gather(*(asynchronous.message.create(place.uid, message) for message in messages))

    sent = {message.id for message in asyncio.run(send())}
    headers = [place.receiver.next()[0] for _ in range(10)]
    assert {one["webhook-id"] for one in headers} == sent


@case
def a_signed_token_opens_its_environment(client):
    secret = os.environ.get("CONTRACT_JWT_SECRET")
    assert secret, "the test names the secret"
    place = Place(client)
    token = Server(SERVER_URL, secret, client=None).token
    default = "org_23rb8YdGqMT0qIzpgGwdXfHirMu"
    organization = Svix(token(sub=default), SvixOptions(server_url=SERVER_URL))
    assert organization.application.get(place.uid).id == place.application.id
    application = Svix(token(org=default, sub=place.application.id), SvixOptions(server_url=SERVER_URL))
    assert application.endpoint.list(place.uid).data[0].id == place.endpoint.id
    fails(403, lambda: application.application.list())
    elsewhere = Svix(token(sub="org_1srOrx2ZWZBpBUvZwXKQmoEYga2"), SvixOptions(server_url=SERVER_URL))
    fails(404, lambda: elsewhere.application.get(place.uid))


@case
def lists_take_naive_times_and_the_options_of_the_client(client):
    place = Place(client)
    sent = place.send()
    place.receiver.next()
    found = client.message.get(place.uid, sent.id)
    naive = found.timestamp.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    assert [one.id for one in client.message.list(place.uid, MessageListOptions(after=naive)).data] == [sent.id]
    assert client.message.list(place.uid, MessageListOptions(before=naive)).data == []
    options = MessageAttemptListByEndpointOptions(with_msg=True)
    attempts = until(
        "the attempt is there",
        lambda: client.message_attempt.list_by_endpoint(place.uid, place.endpoint.id, options).data,
    )
    assert attempts[0].msg.id == sent.id and attempts[0].msg.payload == {}
    client.message_attempt.expunge_content(place.uid, sent.id, attempts[0].id)
    assert client.message_attempt.get(place.uid, sent.id, attempts[0].id).response == "EXPUNGED"
    empty = client.application.create(ApplicationIn(name="Empty", uid=f"app-{uuid.uuid4()}"))
    options = ApplicationListOptions(exclude_apps_with_no_endpoints=True, order="descending", limit=250)
    listed = {one.id for one in client.application.list(options).data}
    assert place.application.id in listed and empty.id not in listed


@case
def a_raw_payload_is_sent_as_what_it_is(client):
    place = Place(client)
    client.message.create(place.uid, message_in_raw("invoice.paid", "a,b\n1,2\n", "text/csv"))
    headers, body = place.receiver.next()
    assert headers["content-type"] == "text/csv"
    assert body == b"a,b\n1,2\n"
    later = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(hours=1)
    put_off = place.send(deliver_at=later)
    assert put_off.deliver_at.replace(tzinfo=None) == later, "a time without an offset is UTC"
    assert client.message.get(place.uid, put_off.id).deliver_at == put_off.deliver_at


@case
def a_portal_token_allows_what_it_was_asked_for(client):
    place = Place(client)

    def portal(**options):
        access = client.authentication.app_portal_access(place.uid, AppPortalAccessIn(**options))
        claims = json.loads(base64.urlsafe_b64decode(access.token.split(".")[1] + "=="))
        return Svix(access.token, SvixOptions(server_url=SERVER_URL)), claims

    def life(claims):
        # The time of issue has a fraction, the expiry has none.
        return claims["exp"] - int(claims["iat"])

    reader, claims = portal(expiry=3600, read_only=True)
    assert life(claims) == 3600
    assert reader.endpoint.get(place.uid, place.endpoint.id).id == place.endpoint.id
    fails(403, lambda: reader.endpoint.create(place.uid, EndpointIn(url=place.receiver.url)))
    fails(403, lambda: reader.endpoint.get_secret(place.uid, place.endpoint.id))
    viewer, _ = portal(capabilities=[AppPortalCapability.VIEW_BASE, AppPortalCapability.VIEW_ENDPOINT_SECRET])
    assert viewer.endpoint.get_secret(place.uid, place.endpoint.id).key == place.secret
    fails(403, lambda: viewer.endpoint.rotate_secret(place.uid, place.endpoint.id, EndpointSecretRotateIn()))
    manager, claims = portal()
    assert life(claims) == 7 * 24 * 3600
    assert manager.endpoint.create(place.uid, EndpointIn(url=place.receiver.url)).url == place.receiver.url
    fails(422, lambda: portal(expiry=60))


def main():
    client = Svix(API_KEY, SvixOptions(server_url=SERVER_URL))
    failed = 0
    for function in CASES:
        name = function.__name__.replace("_", " ")
        try:
            function(client)
            print(f"ok    {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(CASES) - failed} passed" + (f", {failed} failed" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    SERVER_URL, API_KEY = sys.argv[1:]
    sys.exit(main())
