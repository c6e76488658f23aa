"""Event types, also from an OpenAPI document. And the health of the server, which fits nowhere else."""

import json
import pathlib

from dialect import models, options
from harness import check, event_type_out, exercise, fails, pages, same, unique

# A document in YAML, which is no JSON.
SHOP = pathlib.Path(__file__).parents[2] / "shop.yaml"

SCHEMA = {"1": {"type": "object", "properties": {"amount": {"type": "integer"}}}}


@exercise("health.get")
def health(world):
    assert world.client.health.get() is None


@exercise("event_type.create")
def create(world):
    name = unique("invoice")
    fields = {"description": "Paid", "schemas": SCHEMA, "group_name": "invoices", "deprecated": True}
    wanted = models.EventTypeIn(name=name, archived=False, feature_flags=["beta"], **fields)
    made = world.client.event_type.create(wanted)
    check(made, **event_type_out(name=name, feature_flags=["beta"], feature_flag="beta", **fields))
    bare = world.client.event_type.create(models.EventTypeIn(name="bare", description=""))
    check(bare, **event_type_out(name="bare", description=""))
    fails(409, lambda: world.client.event_type.create(wanted), code="event_type_exists")
    fails(422, lambda: world.client.event_type.create(models.EventTypeIn(name="not a name", description="")))
    broken = models.EventTypeIn(name="broken", description="", schemas={"1": {"type": 12}})
    fails(422, lambda: world.client.event_type.create(broken))


@exercise("event_type.get")
def get(world):
    made = world.event_type(schemas=SCHEMA)
    same(world.client.event_type.get(made.name), made)
    fails(404, lambda: world.client.event_type.get("no.such.type"), code="not_found")


@exercise("event_type.list")
def list_all(world):
    made = [world.event_type(name=f"type.{n}", schemas=SCHEMA) for n in range(5)]
    world.client.event_type.delete("type.4")
    ask = lambda **query: world.client.event_type.list(options.EventTypeListOptions(**query))
    for found, expected in zip(pages(lambda **query: ask(with_content=True, **query), limit=2), made[:4], strict=True):
        same(found, expected)
    first = ask(limit=2)
    check(first, data=first.data, iterator="type.1", prev_iterator="-type.0", done=False)
    check(first.data[0], **event_type_out(name="type.0", description="An invoice"))
    archived = ask(include_archived=True).data[-1]
    assert (archived.name, archived.archived) == ("type.4", True)
    assert ask(limit=1, order=models.Ordering.DESCENDING).data[0].name == "type.3"


@exercise("event_type.upsert")
def upsert(world):
    made = world.event_type(schemas=SCHEMA, group_name="invoices")
    after = world.client.event_type.upsert(made.name, models.EventTypeUpsertIn(description="After"))
    check(after, **event_type_out(name=made.name, description="After", created_at=made.created_at))
    same(world.client.event_type.get(made.name), after)
    name = unique("invoice")
    created = world.client.event_type.upsert(name, models.EventTypeUpsertIn(description="New", schemas=SCHEMA))
    check(created, **event_type_out(name=name, description="New", schemas=SCHEMA))


@exercise("event_type.patch")
def patch(world):
    made = world.event_type(schemas=SCHEMA, group_name="invoices")
    change = lambda **fields: world.client.event_type.patch(made.name, models.EventTypePatch(**fields))
    expected = {"name": made.name, "description": "After", "deprecated": True, "group_name": "invoices"}
    after = change(description="After", deprecated=True)
    check(after, **event_type_out(schemas=SCHEMA, **expected))
    after = change(schemas=None)
    check(after, **event_type_out(**expected))
    same(world.client.event_type.get(made.name), after)
    missing = models.EventTypePatch(description="x")
    fails(404, lambda: world.client.event_type.patch("no.such.type", missing), code="not_found")


@exercise("event_type.delete")
def delete(world):
    made, other = world.event_type(), world.event_type()
    assert world.client.event_type.delete(made.name) is None
    assert world.client.event_type.get(made.name).archived is True
    assert [one.name for one in world.client.event_type.list().data] == [other.name]
    revived = world.client.event_type.create(models.EventTypeIn(name=made.name, description="Back"))
    assert (revived.archived, revived.description) == (False, "Back")
    world.client.event_type.delete(made.name, options.EventTypeDeleteOptions(expunge=True))
    fails(404, lambda: world.client.event_type.get(made.name), code="not_found")
    fails(404, lambda: world.client.event_type.delete("no.such.type"), code="not_found")


def document(**webhooks):
    schemas = {"Invoice": {"type": "object", "properties": {"amount": {"type": "integer"}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "webhooks": webhooks,
        "components": {"schemas": schemas},
    }


def webhook(description, **operation):
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Invoice"}}}}
    return {"post": {"description": description, "requestBody": body, "responses": {}, **operation}}


def import_openapi(world, **fields):
    return world.client.event_type.import_openapi(models.EventTypeImportOpenApiIn(**fields))


@exercise("event_type.import_openapi")
def import_openapi_from_an_object(world):
    known, gone = world.event_type(name="invoice.known", description="Before"), world.event_type(name="invoice.gone")
    extensions = {"x-svix-group-name": "invoices", "x-svix-feature-flags": ["beta"]}
    spec = document(**{"invoice.new": webhook("New", **extensions), "invoice.known": webhook("After")})
    answer = import_openapi(world, spec=spec)
    assert sorted(answer.data.modified) == ["invoice.known", "invoice.new"] and answer.data.to_modify is None
    new = world.client.event_type.get("invoice.new")
    expected = {"description": "New", "group_name": "invoices", "feature_flags": ["beta"], "feature_flag": "beta"}
    has_amount = lambda schemas: "amount" in schemas["1"]["properties"]
    check(new, **event_type_out(name="invoice.new", schemas=has_amount, **expected))
    assert world.client.event_type.get(known.name).description == "After"
    assert world.client.event_type.get(gone.name).archived is False
    import_openapi(world, spec=spec, replace_all=True)
    assert world.client.event_type.get(gone.name).archived is True


@exercise("event_type.import_openapi")
def import_openapi_from_text(world):
    as_json = json.dumps(document(**{"invoice.paid": webhook("Paid")}))
    assert import_openapi(world, spec_raw=as_json).data.modified == ["invoice.paid"]
    assert import_openapi(world, spec_raw=SHOP.read_text()).data.modified == ["invoice.sent"]
    assert world.client.event_type.get("invoice.sent").description == "Sent"


@exercise("event_type.import_openapi")
def import_openapi_as_a_rehearsal(world):
    spec = document(**{"invoice.paid": webhook("Paid", deprecated=True)})
    answer = import_openapi(world, spec=spec, dry_run=True)
    assert answer.data.modified == []
    (planned,) = answer.data.to_modify
    check(
        planned,
        name="invoice.paid",
        description="Paid",
        deprecated=True,
        schemas=lambda schemas: "1" in schemas,
        group_name=None,
        feature_flags=lambda flags: not flags,
    )
    assert world.client.event_type.list().data == []
    fails(400, lambda: import_openapi(world))
    fails(400, lambda: import_openapi(world, spec=spec, spec_raw="{}"))
    fails(422, lambda: import_openapi(world, spec={"openapi": "3.1.0", "info": {"title": "", "version": "1"}}))
