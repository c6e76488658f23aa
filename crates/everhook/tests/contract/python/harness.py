"""Tools of the exercises: a fresh environment for each, a receiver of webhooks, and checks of typed answers.

An exercise is a function that calls one operation of the package and checks every field of the answer. It gets a
`World` of its own, in which nothing exists yet, so exercises neither depend on each other nor on their order.
"""

import base64
import collections
import datetime
import hashlib
import hmac
import http.server
import json
import queue
import random
import string
import threading
import time
import urllib.request
import uuid

import svix
from svix.exceptions import HttpError, HTTPValidationError

import dialect
from dialect import models, options

PATIENCE_SECONDS = 60
POLL_SECONDS = 0.1
TOKEN_SECONDS = 3600

# A server and this program share one clock; the margin covers rounding and a slow machine.
CLOCK_MARGIN = datetime.timedelta(seconds=90)

# Exercises by the name of their operation, in the order of definition.
EXERCISES = collections.defaultdict(list)


def exercise(operation):
    """Registers a function as an exercise of `operation`. An operation works if all its exercises pass."""

    def register(function):
        EXERCISES[operation].append(function)
        return function

    return register


class Server:
    """The server under test, the secret of its tokens, and the package to reach it: `client` takes a token."""

    def __init__(self, url, jwt_secret, client):
        self.url = url
        self.jwt_secret = jwt_secret
        self.client = client

    def token(self, **claims):
        now = int(time.time())
        claims = {"iat": now, "exp": now + TOKEN_SECONDS, **claims}
        signed = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}"
        mac = hmac.new(self.jwt_secret.encode(), signed.encode(), hashlib.sha256).digest()
        return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _encode(part):
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


class World:
    """A new environment of the server, with a client that has all rights in it."""

    def __init__(self, server):
        self.server = server
        # An environment comes into being with its first token. The digit keeps the id within 160 bits.
        letters = string.ascii_letters + string.digits
        self.org = "org_1" + "".join(random.choice(letters) for _ in range(26))
        self.token = server.token(sub=self.org)
        self.client = self.client_with(self.token)

    def client_with(self, token):
        return self.server.client(token)

    def raw(self, method, path, body=None):
        """Sends a request without the package, for routes that it lacks. Returns the decoded answer."""
        request = urllib.request.Request(f"{self.server.url}/api/v1{path}", method=method)
        request.add_header("authorization", f"Bearer {self.token}")
        request.data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read() or b"null")

    def application(self, **fields):
        return self.client.application.create(models.ApplicationIn(**{"name": "Acme", "uid": unique("app"), **fields}))

    def endpoint(self, application, receiver, **fields):
        return self.client.endpoint.create(application.id, models.EndpointIn(**{"url": receiver.url, **fields}))

    def event_type(self, **fields):
        wanted = {"name": unique("invoice"), "description": "An invoice", **fields}
        return self.client.event_type.create(models.EventTypeIn(**wanted))

    def message(self, application, **fields):
        wanted = {"event_type": "invoice.paid", "payload": {"amount": 12}, **fields}
        return self.client.message.create(application.id, models.MessageIn(**wanted))

    def attempts(self, application, message, **filters):
        filters = options.MessageAttemptListByMsgOptions(**filters)
        return self.client.message_attempt.list_by_msg(application.id, message.id, filters).data

    def attempted(self, application, message, count=1):
        """Waits until a message has `count` attempts, and returns them, newest first."""
        look = lambda: self.attempts(application, message)
        return until(f"{message.id} has {count} attempts", lambda: len(look()) >= count and look())

    def destination(self, application, message):
        (destination,) = self.client.message_attempt.list_attempted_destinations(application.id, message.id).data
        return destination

    def exhausted(self, application, message):
        """Waits until the delivery of a message to its only endpoint has failed for good."""
        failed = models.MessageStatus.FAIL
        until(f"{message.id} is given up", lambda: self.destination(application, message).status == failed)

    def finished(self, task):
        """Waits until a background task has ended well, and returns it."""
        look = lambda: self.client.background_task.get(task.id)
        ended = until(f"{task.id} ends", lambda: (found := look()).status != "running" and found)
        check(ended, id=task.id, status="finished", task=task.task, updated_at=recent, data=is_a(dict))
        return ended


class Receiver:
    """An address that takes webhooks and hands them out in the order of their arrival."""

    _hooks = {}
    _server = None
    _lock = threading.Lock()

    def __init__(self, status=200):
        self.status = status
        self.deliveries = queue.Queue()
        path = f"/{uuid.uuid4().hex}"
        with Receiver._lock:
            Receiver._server = Receiver._server or _serve(Receiver._hooks)
            Receiver._hooks[path] = self
        self.url = f"http://127.0.0.1:{Receiver._server.server_port}{path}"

    def next(self):
        """Returns the headers, with names in lower case, and the body of the next webhook."""
        return self.deliveries.get(timeout=PATIENCE_SECONDS)

    def nothing(self):
        assert self.deliveries.empty(), f"an unexpected webhook: {self.deliveries.get()}"


def _serve(hooks):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            hook = hooks[self.path]
            # The status first: an exercise that got the webhook may change it for the next one.
            status = hook.status
            hook.deliveries.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def verify(delivery, key):
    """Checks the signature of a webhook with the package, and returns its content."""
    headers, body = delivery
    svix.Webhook(key).verify(body, headers)
    return json.loads(body)


def unique(prefix):
    return f"{prefix}-{uuid.uuid4().hex}"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def ago(**interval):
    return now() - datetime.timedelta(**interval)


def until(what, look):
    """Calls `look` until it returns something, and returns that."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > give_up:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(POLL_SECONDS)


def fails(status, call, code=None):
    """Runs `call`, which has to raise the error that the package has for `status`."""
    kind = HTTPValidationError if status == 422 else HttpError
    try:
        call()
    except kind as error:
        assert error.status_code == status, f"{error.status_code} in place of {status}: {error}"
        assert code in (None, getattr(error, "code", None)), error
        return error
    raise AssertionError(f"the call did not fail with {status}")


def pages(ask, limit):
    """Reads a list to its end, `limit` items at a time, and returns the items."""
    items, iterator = [], None
    while True:
        page = ask(limit=limit, iterator=iterator)
        assert len(page.data) <= limit, page
        assert page.iterator is not None or not page.data, page
        items += page.data
        if page.done:
            return items
        iterator = page.iterator


# Checks of fields. A check is a value to be equal to, or a function of the value.


def recent(value):
    return isinstance(value, datetime.datetime) and abs(value - now()) < CLOCK_MARGIN


def an_id(prefix):
    """An id of 27 letters and digits after its prefix, as the specification of the clients describes it."""
    return lambda value: value.startswith(prefix) and len(value) == len(prefix) + 27 and value[len(prefix) :].isalnum()


def is_a(kind):
    return lambda value: isinstance(value, kind)


def at_least(bound):
    return lambda value: value >= bound


def text(value):
    return isinstance(value, str) and value != ""


# Fields that only an older package has, with the field of 2.x that has the same value, or with their only value.
OLD_ANSWERS = {"rate_limit": "throttle_rate", "filter_types": "event_types"}
OLD_VALUES = {"version": 1, "feature_flag": None}


def check(answer, **expected):
    """Compares every field of a typed answer. A field of the type that is not listed is a mistake of the exercise."""
    kind = type(answer)
    for field in kind.model_fields:
        want = _wanted(kind, field, expected)
        value = getattr(answer, field)
        good = want(value) if callable(want) else value == want
        wanted = want.__name__ if callable(want) else repr(want)
        assert good, f"{kind.__name__}.{field} is {value!r}, expected {wanted}"
    # An older package may lack fields of the current one.
    unknown = set(expected) - set(kind.model_fields)
    assert dialect.OLD or not unknown, f"{kind.__name__} lacks {sorted(unknown)}"


def _wanted(kind, field, expected):
    if field in expected:
        return expected[field]
    if dialect.OLD and OLD_ANSWERS.get(field) in expected:
        return expected[OLD_ANSWERS[field]]
    if dialect.OLD and field in OLD_VALUES:
        return OLD_VALUES[field]
    raise AssertionError(f"the exercise does not check {kind.__name__}.{field}")


def same(answer, expected):
    """Compares two typed answers for the same thing, field by field."""
    check(answer, **{field: getattr(expected, field) for field in type(expected).model_fields})


def check_both_ways(ask, made):
    """Checks a list of these items: all of them in the order of their creation, and the page of the newest one."""
    ascending = pages(lambda **query: ask(order=models.Ordering.ASCENDING, **query), limit=2)
    for found, expected in zip(ascending, made, strict=True):
        same(found, expected)
    newest = ask(limit=1, order=models.Ordering.DESCENDING)
    check(newest, data=newest.data, iterator=made[-1].id, prev_iterator=f"-{made[-1].id}", done=False)


def application_out(**fields):
    return {
        "id": an_id("app_"),
        "name": "Acme",
        "uid": None,
        "throttle_rate": None,
        "metadata": {},
        "created_at": recent,
        "updated_at": recent,
        **fields,
    }


def endpoint_out(**fields):
    return {
        "id": an_id("ep_"),
        "description": "",
        "uid": None,
        "disabled": False,
        "throttle_rate": None,
        "event_types": None,
        "channels": None,
        "metadata": {},
        "created_at": recent,
        "updated_at": recent,
        **fields,
    }


def operational_endpoint_out(**fields):
    expected = endpoint_out(**fields)
    del expected["channels"]
    return expected


def event_type_out(**fields):
    return {
        "archived": False,
        "deprecated": False,
        "schemas": None,
        "group_name": None,
        "feature_flags": lambda value: not value,
        "feature_flag": None,
        "created_at": recent,
        "updated_at": recent,
        **fields,
    }


def message_out(**fields):
    return {
        "id": an_id("msg_"),
        "event_type": "invoice.paid",
        "event_id": None,
        "payload": {},
        "channels": None,
        "tags": None,
        "deliver_at": None,
        "timestamp": recent,
        **fields,
    }


def attempt_out(receiver, **fields):
    return {
        "id": an_id("atmpt_"),
        "msg_id": an_id("msg_"),
        "endpoint_id": an_id("ep_"),
        "url": receiver.url,
        "response": is_a(str),
        "response_status_code": 200,
        "response_duration_ms": at_least(0),
        "status": 0,
        "status_text": "success",
        "trigger_type": 0,
        "timestamp": recent,
        "msg": None,
        **fields,
    }


def task_out(task, **fields):
    """The answer of an operation that starts a background task. A short task may have ended before the answer."""
    return {
        "id": an_id("qtask_"),
        "status": lambda status: status in ("running", "finished"),
        "task": task,
        "updated_at": recent,
        **fields,
    }
