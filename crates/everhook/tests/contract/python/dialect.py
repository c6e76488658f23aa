"""The `svix` package under the names of its current release.

Exercises are written for the 2.x package. An older package has the same operations under other method, class and field
names; this module translates them, so that one exercise serves both. It translates names only, never values.
"""

import inspect

import svix
import svix.api
import svix.models

OLD = not hasattr(svix.models, "EndpointUpsertIn")

# Names of 2.x with their names of 1.x.
OLD_METHODS = {"upsert": "update", "set_headers": "update_headers"}
OLD_CLASSES = {
    "EndpointUpsertIn": "EndpointUpdate",
    "EventTypeUpsertIn": "EventTypeUpdate",
    "OperationalWebhookEndpointUpsertIn": "OperationalWebhookEndpointUpdate",
}
OLD_FIELDS = {"event_types": "filter_types"}

# `integration.update` has this name in every release.
SAME_NAME = {"integration.update"}


class _Models:
    """The classes of request bodies. A class is called with the field names of 2.x."""

    def __getattr__(self, name):
        model = getattr(svix.models, OLD_CLASSES.get(name, name) if OLD else name)
        if not OLD or not hasattr(model, "model_fields"):
            return model
        return lambda **fields: model(**{old_field(model, field): value for field, value in fields.items()})


class _Options:
    """The classes of query parameters."""

    def __getattr__(self, name):
        return getattr(svix.api, name)


models = _Models()
options = _Options()


def old_field(model, field):
    return field if field in model.model_fields else OLD_FIELDS.get(field, field)


def takes(name, field):
    """Returns whether the class of a request body has this field in the package at hand."""
    model = getattr(svix.models, OLD_CLASSES.get(name, name) if OLD else name)
    return old_field(model, field) in model.model_fields


class Resource:
    """A client, or a part of it, whose methods have the names of 2.x."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        if OLD and not hasattr(self._inner, name):
            name = OLD_METHODS.get(name, name)
        found = getattr(self._inner, name)
        return found if callable(found) else Resource(found)


def client(token, server_url):
    return Resource(svix.api.Svix(token, svix.api.SvixOptions(server_url=server_url)))


def methods():
    """Returns the names of all methods of the package, found by looking at its classes."""
    return sorted(_methods(svix.api.Svix("token", svix.api.SvixOptions(server_url="http://127.0.0.1")), ""))


def _methods(resource, prefix):
    for name, member in inspect.getmembers(type(resource)):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield from _methods(getattr(resource, name), f"{prefix}{name}.")
        elif inspect.isfunction(member):
            yield prefix + _new_name(prefix, name)


def _new_name(prefix, name):
    if not OLD or prefix + name in SAME_NAME:
        return name
    return {old: new for new, old in OLD_METHODS.items()}.get(name, name)
