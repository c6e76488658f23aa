"""Integrations: named, lasting keys of one application."""

from dialect import models, options
from harness import Receiver, an_id, check, check_both_ways, exercise, fails, recent, same, text


def integration(world, application, **fields):
    wanted = models.IntegrationIn(**{"name": "No-code tool", **fields})
    return world.client.integration.create(application.id, wanted)


def integration_out(**fields):
    flags = lambda value: not value
    return {"id": an_id("integ_"), "feature_flags": flags, "created_at": recent, "updated_at": recent, **fields}


def key(world, application, made):
    return world.client.integration.rotate_key(application.id, made.id).key


@exercise("integration.create")
def create(world):
    application = world.application()
    wanted = models.IntegrationIn(name="No-code tool", feature_flags=["beta"])
    made = world.client.integration.create(application.uid, wanted)
    check(made, **integration_out(name="No-code tool", feature_flags=["beta"]))
    check(integration(world, application, name="Bare"), **integration_out(name="Bare"))
    fails(404, lambda: world.client.integration.create("no-such-application", wanted), code="not_found")


@exercise("integration.get")
def get(world):
    application = world.application()
    made = integration(world, application)
    same(world.client.integration.get(application.id, made.id), made)
    missing = "integ_" + "1" * 27
    fails(404, lambda: world.client.integration.get(application.id, missing), code="not_found")
    fails(404, lambda: world.client.integration.get(world.application().id, made.id), code="not_found")


@exercise("integration.list")
def list_all(world):
    application = world.application()
    made = [integration(world, application, name=f"Tool {n}") for n in range(5)]
    integration(world, world.application())
    ask = lambda **query: world.client.integration.list(application.id, options.IntegrationListOptions(**query))
    check_both_ways(ask, made)


@exercise("integration.update")
def update(world):
    application = world.application()
    made = integration(world, application, feature_flags=["beta"])
    wanted = models.IntegrationUpdate(name="After", feature_flags=["gamma"])
    after = world.client.integration.update(application.id, made.id, wanted)
    expected = {"id": made.id, "name": "After", "feature_flags": ["gamma"], "created_at": made.created_at}
    check(after, **integration_out(**expected))
    same(world.client.integration.get(application.id, made.id), after)
    missing = "integ_" + "1" * 27
    fails(404, lambda: world.client.integration.update(application.id, missing, wanted), code="not_found")


@exercise("integration.delete")
def delete(world):
    application = world.application()
    made = integration(world, application)
    client = world.client_with(key(world, application, made))
    assert client.endpoint.list(application.id).data == []
    assert world.client.integration.delete(application.id, made.id) is None
    fails(404, lambda: world.client.integration.get(application.id, made.id), code="not_found")
    fails(401, lambda: client.endpoint.list(application.id))
    assert world.client.integration.list(application.id).data == []


@exercise("integration.rotate_key")
def rotate_key(world):
    application, other = world.application(), world.application()
    made = integration(world, application)
    answer = world.client.integration.rotate_key(application.id, made.id)
    check(answer, key=text)
    client = world.client_with(answer.key)
    wanted = models.EndpointIn(url=Receiver().url)
    assert client.endpoint.create(application.id, wanted).url == wanted.url
    fails(404, lambda: client.endpoint.list(other.id))
    fails(403, lambda: client.application.list())
    second = world.client_with(key(world, application, made))
    assert len(second.endpoint.list(application.id).data) == 1
    fails(401, lambda: client.endpoint.list(application.id))
