//! Schemas of PATCH bodies: a patch has the members of its form, and all of them may be absent or null.
//!
//! Client libraries are generated from these schemas. The schemas stay short, because the form describes its members.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, SchemaFormat, SchemaType, Type};

/// A schema that is derived from the schema of a form.
struct Patch {
    name: &'static str,
    form: &'static str,
    description: &'static str,
    /// Members that have routes of their own.
    without: &'static [&'static str],
}

const PATCHES: [Patch; 3] = [
    Patch {
        name: "ApplicationPatch",
        form: "ApplicationIn",
        description: "A change of an application. Absent members keep their values.",
        without: &[],
    },
    Patch {
        name: "EndpointPatch",
        form: "EndpointIn",
        description: "A change of an endpoint. Absent members keep their values.",
        without: &["headers", "secret"],
    },
    Patch {
        name: "EventTypePatch",
        form: "EventTypeUpdate",
        description: "A change of an event type. Absent members keep their values.",
        without: &[],
    },
];

/// Members that keep their description, because it says more than the name.
const DESCRIBED: [&str; 2] = ["rateLimit", "throttleRate"];

/// Adds the schemas that routes refer to by name.
pub(super) fn add_schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    for patch in PATCHES {
        let form = schemas.iter().find(|(name, _)| name == patch.form).map(|(_, schema)| schema.clone());
        let Some(RefOr::T(Schema::Object(mut object))) = form else { unreachable!("{} is an object", patch.form) };
        object.description = Some(patch.description.to_owned());
        object.required.clear();
        object.properties.retain(|name, _| !patch.without.contains(&name.as_str()));
        for (name, property) in &mut object.properties {
            match property {
                RefOr::T(Schema::Object(property)) => shorten(name, property),
                RefOr::T(Schema::Array(property)) => {
                    property.description = None;
                    property.min_items = None;
                }
                RefOr::T(_) | RefOr::Ref(_) => {}
            }
        }
        schemas.push((patch.name.to_owned(), RefOr::T(Schema::Object(object))));
    }
}

fn shorten(name: &str, property: &mut Object) {
    if !DESCRIBED.contains(&name) {
        property.description = None;
    }
    property.pattern = None;
    property.min_length = None;
    if matches!(&property.format, Some(SchemaFormat::Custom(format)) if format == "uri") {
        property.format = None;
    }
    if let SchemaType::Type(kind) = &property.schema_type {
        property.schema_type = SchemaType::Array(vec![kind.clone(), Type::Null]);
    }
}
