"""Additional headers of an endpoint's requests."""

from dialect import models
from harness import Receiver, check, exercise, fails


def place(world, **headers):
    application, receiver = world.application(), Receiver()
    return application, world.endpoint(application, receiver, headers=headers), receiver


@exercise("endpoint.get_headers")
def get_headers(world):
    application, endpoint, _ = place(world, **{"x-team": "billing", "authorization": "Bearer abc"})
    found = world.client.endpoint.get_headers(application.id, endpoint.id)
    check(found, headers={"x-team": "billing"}, sensitive=["authorization"])
    _, bare, _ = place(world)
    fails(404, lambda: world.client.endpoint.get_headers(application.id, bare.id), code="not_found")


@exercise("endpoint.set_headers")
def set_headers(world):
    application, endpoint, receiver = place(world, **{"x-old": "1"})
    wanted = models.EndpointHeadersIn(headers={"x-source": "2", "x-api-key": "secret"})
    assert world.client.endpoint.set_headers(application.id, endpoint.id, wanted) is None
    found = world.client.endpoint.get_headers(application.id, endpoint.id)
    check(found, headers={"x-source": "2"}, sensitive=["x-api-key"])
    world.message(application)
    headers, _ = receiver.next()
    assert (headers["x-source"], headers["x-api-key"], headers.get("x-old")) == ("2", "secret", None)
    forbidden = models.EndpointHeadersIn(headers={"svix-id": "x"})
    fails(422, lambda: world.client.endpoint.set_headers(application.id, endpoint.id, forbidden))


@exercise("endpoint.patch_headers")
def patch_headers(world):
    application, endpoint, receiver = place(world, **{"x-one": "1", "x-region": "2", "x-service": "3"})
    wanted = models.EndpointHeadersPatchIn(headers={"x-region": "changed", "x-version": "4"}, delete_headers=["x-one"])
    assert world.client.endpoint.patch_headers(application.id, endpoint.id, wanted) is None
    found = world.client.endpoint.get_headers(application.id, endpoint.id)
    check(found, headers={"x-region": "changed", "x-service": "3", "x-version": "4"}, sensitive=[])
    world.message(application)
    headers, _ = receiver.next()
    assert (headers.get("x-one"), headers["x-region"], headers["x-version"]) == (None, "changed", "4")
