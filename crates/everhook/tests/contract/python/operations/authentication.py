"""Tokens of the portal: each belongs to one application."""

import urllib.parse

from dialect import models
from harness import Receiver, application_out, check, exercise, fails, text, unique, until


def access(world, application, **fields):
    return world.client.authentication.app_portal_access(application.id, models.AppPortalAccessIn(**fields))


def portal(world, application, **fields):
    return world.client_with(access(world, application, **fields).token)


def ended(client, application):
    """Waits until a token gets 401. A replica may learn of it a moment later."""

    def refused():
        try:
            client.endpoint.list(application.id)
        except Exception as error:
            assert getattr(error, "status_code", None) == 401, error
            return True
        return False

    until("the token has ended", refused)


@exercise("authentication.app_portal_access")
def app_portal_access(world):
    application, other = world.application(), world.application()
    answer = access(world, application)
    check(answer, url=text, token=text)
    link = urllib.parse.urlsplit(answer.url)
    assert link.scheme in ("http", "https") and link.netloc, answer.url
    # A token in the path or in the query would end in the logs of servers.
    assert answer.token not in link.path + link.query, answer.url
    client = world.client_with(answer.token)
    assert client.endpoint.list(application.id).data == []
    fails(404, lambda: client.endpoint.list(other.id))
    fails(403, lambda: client.application.list())
    fails(422, lambda: access(world, application, expiry=60))
    missing = models.AppPortalAccessIn()
    fails(404, lambda: world.client.authentication.app_portal_access("no-such-application", missing))


@exercise("authentication.app_portal_access")
def app_portal_access_with_an_application(world):
    uid = unique("app")
    wanted = models.AppPortalAccessIn(application=models.ApplicationIn(name="On the fly", uid=uid))
    answer = world.client.authentication.app_portal_access(uid, wanted)
    check(world.client_with(answer.token).application.get(uid), **application_out(name="On the fly", uid=uid))


@exercise("authentication.app_portal_access")
def app_portal_access_with_capabilities(world):
    application = world.application()
    endpoint = world.endpoint(application, Receiver())
    key = world.client.endpoint.get_secret(application.id, endpoint.id).key
    reader = portal(world, application, capabilities=[models.AppPortalCapability.VIEW_BASE])
    assert reader.endpoint.get(application.id, endpoint.id).id == endpoint.id
    fails(403, lambda: reader.endpoint.get_secret(application.id, endpoint.id))
    fails(403, lambda: reader.endpoint.delete(application.id, endpoint.id))
    both = [models.AppPortalCapability.VIEW_BASE, models.AppPortalCapability.VIEW_ENDPOINT_SECRET]
    viewer = portal(world, application, capabilities=both)
    assert viewer.endpoint.get_secret(application.id, endpoint.id).key == key
    rotate = models.EndpointSecretRotateIn()
    fails(403, lambda: viewer.endpoint.rotate_secret(application.id, endpoint.id, rotate))
    fails(403, lambda: portal(world, application, read_only=True).endpoint.delete(application.id, endpoint.id))


@exercise("authentication.app_portal_access")
def app_portal_access_with_feature_flags(world):
    application = world.application()
    open_type = world.event_type()
    hidden = world.event_type(feature_flags=["beta"])
    names = lambda **fields: {one.name for one in portal(world, application, **fields).event_type.list().data}
    assert names() == {open_type.name}
    assert names(feature_flags=["beta"]) == {open_type.name, hidden.name}


@exercise("authentication.logout")
def logout(world):
    application = world.application()
    first, second = access(world, application), access(world, application)
    assert first.token != second.token, "tokens of the same second have to differ, or they end together"
    client, other = world.client_with(first.token), world.client_with(second.token)
    assert client.authentication.logout() is None
    ended(client, application)
    assert other.endpoint.list(application.id).data == []
    fails(403, lambda: world.client.authentication.logout())


@exercise("authentication.expire_all")
def expire_all(world):
    application, other = world.application(), world.application()
    client, elsewhere = portal(world, application), portal(world, other)
    expire = lambda **fields: world.client.authentication.expire_all(
        application.id, models.ApplicationTokenExpireIn(**fields)
    )
    assert expire(expiry=3600) is None
    assert client.endpoint.list(application.id).data == []
    assert expire(expiry=0) is None
    ended(client, application)
    assert elsewhere.endpoint.list(other.id).data == []
    assert portal(world, application).endpoint.list(application.id).data == []
    fails(403, lambda: elsewhere.authentication.expire_all(other.id, models.ApplicationTokenExpireIn()))
    fails(422, lambda: expire(expiry=259201))


@exercise("authentication.expire_all")
def expire_some_sessions(world):
    application = world.application()
    ann, bob = (portal(world, application, session_id=name) for name in ("ann", "bob"))
    wanted = models.ApplicationTokenExpireIn(session_ids=["ann"])
    world.client.authentication.expire_all(application.id, wanted)
    ended(ann, application)
    assert bob.endpoint.list(application.id).data == []
