"""Export and import of an environment's event types."""

from dialect import models
from harness import World, check, event_type_out, exercise, fails, recent, unique

SCHEMA = {"1": {"type": "object", "properties": {"amount": {"type": "integer"}}}}


@exercise("environment.export")
def export(world):
    kind = world.event_type(description="Paid", schemas=SCHEMA, group_name="invoices", deprecated=True)
    answer = world.client.environment.export()
    check(answer, version=1, created_at=recent, event_types=lambda found: len(found) == 1, settings=None, connectors=[])
    expected = {"name": kind.name, "description": "Paid", "schemas": SCHEMA, "group_name": "invoices"}
    check(answer.event_types[0], **event_type_out(deprecated=True, **expected))


@exercise("environment.import_")
def import_(world):
    kept, changed = world.event_type(), world.event_type(description="Before")
    name = unique("invoice")
    new = models.EventTypeIn(name=name, description="New", schemas=SCHEMA)
    known = models.EventTypeIn(name=changed.name, description="After")
    wanted = models.EnvironmentIn(event_types=[new, known], settings={"any": "thing"})
    assert world.client.environment.import_(wanted) is None
    found = {one.name: world.client.event_type.get(one.name) for one in world.client.event_type.list().data}
    assert set(found) == {kept.name, changed.name, name}
    check(found[name], **event_type_out(name=name, description="New", schemas=SCHEMA))
    assert found[changed.name].description == "After"


@exercise("environment.import_")
def import_all_or_nothing(world):
    good = models.EventTypeIn(name=unique("good"), description="Good")
    bad = models.EventTypeIn(name="not a name", description="Bad")
    wanted = models.EnvironmentIn(event_types=[good, bad])
    fails(422, lambda: world.client.environment.import_(wanted))
    assert world.client.event_type.list().data == []


@exercise("environment.import_")
def import_an_export(world):
    kind = world.event_type(description="Moved", schemas=SCHEMA)
    exported = world.client.environment.export()
    fields = {"name": kind.name, "description": kind.description, "schemas": exported.event_types[0].schemas}
    other = World(world.server)
    other.client.environment.import_(models.EnvironmentIn(event_types=[models.EventTypeIn(**fields)]))
    check(other.client.event_type.get(kind.name), **event_type_out(**fields))
