"""The `svix` crate, called through the program `contract-rust`, with the interface of the Python package.

Arguments go to the crate as JSON, and answers come back as JSON that the crate has written from its own types. The
types of the Python package only read them again, so that exercises find the same attributes.
"""

import dataclasses
import datetime
import itertools
import json
import queue
import subprocess
import threading
import typing

import pydantic
import svix.api
from svix.exceptions import HttpError, HTTPValidationError

ANSWER_SECONDS = 60


class Bridge:
    """The running program. Calls of several threads share it."""

    def __init__(self, program, server_url):
        self._process = subprocess.Popen(
            [program, server_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.operations = json.loads(self._process.stdout.readline())["operations"]
        self._ids = itertools.count()
        self._waiting = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def client(self, token):
        return _Resource(self, token, svix.api.Svix(token, svix.api.SvixOptions(server_url="http://127.0.0.1")), "")

    def call(self, token, operation, path, body, options):
        answer = queue.Queue()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = answer
            call = {"id": number, "token": token, "operation": operation, "path": path, "body": body}
            self._process.stdin.write(json.dumps({**call, "options": options}) + "\n")
            self._process.stdin.flush()
        return answer.get(timeout=ANSWER_SECONDS)

    def _read(self):
        for line in self._process.stdout:
            answer = json.loads(line)
            self._waiting.pop(answer["id"]).put(answer)


class _Resource:
    """A part of the client. The part of the Python package beside it tells what is a method, and its type."""

    def __init__(self, bridge, token, twin, prefix):
        self._bridge, self._token, self._twin, self._prefix = bridge, token, twin, prefix

    def __getattr__(self, name):
        twin = getattr(self._twin, name)
        if not callable(twin):
            return _Resource(self._bridge, self._token, twin, f"{self._prefix}{name}.")
        return lambda *arguments: self._call(f"{self._prefix}{name}", twin, arguments)

    def _call(self, operation, twin, arguments):
        path = [argument for argument in arguments if isinstance(argument, str)]
        bodies = [_body(argument) for argument in arguments if isinstance(argument, pydantic.BaseModel)]
        options = [_options(argument) for argument in arguments if dataclasses.is_dataclass(argument)]
        answer = self._bridge.call(self._token, operation, path, (bodies or [None])[0], (options or [{}])[0])
        if "broken" in answer:
            raise AssertionError(f"the crate failed: {answer['broken']}")
        if "status" in answer:
            kind = HTTPValidationError if answer["status"] == 422 else HttpError
            raise kind.init_exception(answer["problem"], answer["status"])
        model = typing.get_type_hints(twin)["return"]
        return None if model is type(None) else _read(model, answer["answer"])


def _read(model, answer):
    # The crate leaves out what is null. The Python package insists on some of these fields.
    unset = {field.alias: None for field in model.model_fields.values() if field.is_required()}
    return model.model_validate({**unset, **answer})


def _body(model):
    return json.loads(model.model_dump_json(exclude_unset=True, by_alias=True))


def _options(options):
    return {name: _option(value) for name, value in vars(options).items() if value is not None}


def _option(value):
    # The crate has no type for a time without an offset.
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=datetime.timezone.utc)
    return value.isoformat() if isinstance(value, datetime.datetime) else value
