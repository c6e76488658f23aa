"""Applications."""

from dialect import models, options
from harness import Receiver, application_out, check, exercise, fails, pages, same, unique


@exercise("application.create")
def create(world):
    uid = unique("app")
    wanted = models.ApplicationIn(name="Acme Ltd", uid=uid, throttle_rate=50, metadata={"plan": "gold"})
    made = world.client.application.create(wanted)
    check(made, **application_out(name="Acme Ltd", uid=uid, throttle_rate=50, metadata={"plan": "gold"}))
    assert made.updated_at >= made.created_at
    check(world.client.application.create(models.ApplicationIn(name="Bare")), **application_out(name="Bare"))
    fails(409, lambda: world.client.application.create(wanted), code="conflict")
    error = fails(422, lambda: world.client.application.create(models.ApplicationIn(name="")))
    assert list(error.detail[0].loc) == ["body", "name"], error


@exercise("application.create")
def create_twice_with_one_key(world):
    key = options.ApplicationCreateOptions(idempotency_key=unique("key"))
    create = lambda name: world.client.application.create(models.ApplicationIn(name=name), key)
    first = create("Once")
    assert create("Once").id == first.id
    fails(409, lambda: create("Other"))
    assert len(world.client.application.list().data) == 1


@exercise("application.get_or_create")
def get_or_create(world):
    uid = unique("app")
    first = world.client.application.get_or_create(models.ApplicationIn(name="First", uid=uid))
    check(first, **application_out(name="First", uid=uid))
    same(world.client.application.get_or_create(models.ApplicationIn(name="Second", uid=uid)), first)


@exercise("application.get")
def get(world):
    made = world.application(metadata={"a": "b"})
    same(world.client.application.get(made.id), made)
    same(world.client.application.get(made.uid), made)
    fails(404, lambda: world.client.application.get("no-such-application"), code="not_found")


@exercise("application.list")
def list_all(world):
    made = [world.application(name=f"Number {n}") for n in range(5)]
    ask = lambda **query: world.client.application.list(options.ApplicationListOptions(**query))
    for found, expected in zip(pages(ask, limit=2), made, strict=True):
        same(found, expected)
    first = ask(limit=2)
    check(first, data=first.data, iterator=made[1].id, prev_iterator=f"-{made[0].id}", done=False)
    back = ask(limit=2, iterator=ask(limit=2, iterator=first.iterator).prev_iterator)
    assert [one.id for one in back.data] == [one.id for one in made[:2]]
    newest = ask(limit=1, order=models.Ordering.DESCENDING)
    assert [one.id for one in newest.data] == [made[4].id]
    fails(422, lambda: ask(limit=251))


@exercise("application.list")
def list_without_unused_ones(world):
    empty, off, used = (world.application() for _ in range(3))
    world.endpoint(off, Receiver(), disabled=True)
    world.endpoint(used, Receiver())
    list_some = lambda **query: world.client.application.list(options.ApplicationListOptions(**query)).data
    ask = lambda **query: {one.id for one in list_some(**query)}
    assert ask() == {empty.id, off.id, used.id}
    assert ask(exclude_apps_with_no_endpoints=True) == {off.id, used.id}
    assert off.id not in ask(exclude_apps_with_disabled_endpoints=True)


@exercise("application.upsert")
def upsert(world):
    made = world.application(name="Before", metadata={"a": "b"}, throttle_rate=5)
    after = world.client.application.upsert(made.uid, models.ApplicationIn(name="After", uid=made.uid))
    check(after, **application_out(id=made.id, name="After", uid=made.uid, created_at=made.created_at))
    same(world.client.application.get(made.id), after)
    uid = unique("app")
    created = world.client.application.upsert(uid, models.ApplicationIn(name="New", uid=uid))
    check(created, **application_out(name="New", uid=uid))
    other = models.ApplicationIn(name="Taken", uid=made.uid)
    fails(409, lambda: world.client.application.upsert(created.id, other), code="conflict")


@exercise("application.patch")
def patch(world):
    made = world.application(throttle_rate=5, metadata={"a": "b"})
    change = lambda **fields: world.client.application.patch(made.id, models.ApplicationPatch(**fields))
    expected = {"id": made.id, "uid": made.uid, "throttle_rate": 5, "metadata": {"a": "b"}}
    check(change(name="Renamed"), **application_out(name="Renamed", **expected))
    expected.update(uid=None, throttle_rate=None, metadata={"c": "d"})
    cleared = change(uid=None, throttle_rate=None, metadata={"c": "d"})
    check(cleared, **application_out(name="Renamed", **expected))
    same(world.client.application.get(made.id), cleared)
    fails(404, lambda: world.client.application.get(made.uid))
    missing = models.ApplicationPatch(name="x")
    fails(404, lambda: world.client.application.patch("no-such-application", missing), code="not_found")


@exercise("application.delete")
def delete(world):
    made = world.application()
    assert world.client.application.delete(made.uid) is None
    fails(404, lambda: world.client.application.get(made.id), code="not_found")
    assert world.client.application.list().data == []
    again = world.client.application.create(models.ApplicationIn(name="Again", uid=made.uid))
    assert again.id != made.id
    fails(404, lambda: world.client.application.delete("no-such-application"), code="not_found")
