//! The bounds of texts, lists and maps in requests, for the OpenAPI document.
//!
//! The handlers enforce the bounds, and a test exceeds every bound of the document by one. Texts have the bound of
//! names and ids by default, so the tables contain only other texts. Texts of workers have no bound: the server
//! truncates them and never refuses them.

use everhook_core::limits::{
    AUTH_PEM_BYTES_MAX, AUTH_TEXT_BYTES_MAX, BODY_BYTES_MAX, DESCRIPTION_CHARS_MAX, ENDPOINT_CHANNELS_MAX,
    ENDPOINT_EVENT_TYPES_MAX, FEATURE_FLAGS_MAX, HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX,
    METADATA_BYTES_MAX, NAME_CHARS_MAX, OAUTH_PARAMS_MAX, POLICY_TYPES_MAX, SCHEMAS_MAX, SEARCH_CHARS_MAX,
    SEARCH_TYPES_MAX, TITLE_CHARS_MAX, URL_BYTES_MAX,
};
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Object, Schema, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr};

use crate::limits::{EVENT_TYPES_MOVED_MAX, IDEMPOTENCY_KEY_CHARS_MAX, WORKER_HELD_MAX};

/// Bounds of texts other than names. The key is a field, or a schema and a field.
const TEXTS: &[(&str, usize)] = &[
    ("name", TITLE_CHARS_MAX),
    ("environment", TITLE_CHARS_MAX),
    ("groupName", TITLE_CHARS_MAX),
    ("description", DESCRIPTION_CHARS_MAX),
    ("url", URL_BYTES_MAX),
    ("targetUrl", URL_BYTES_MAX),
    ("payload", BODY_BYTES_MAX),
    ("rawPayload", BODY_BYTES_MAX),
    ("specRaw", BODY_BYTES_MAX),
    ("error", SEARCH_CHARS_MAX),
    ("idempotency-key", IDEMPOTENCY_KEY_CHARS_MAX),
    ("username", AUTH_TEXT_BYTES_MAX),
    ("password", AUTH_TEXT_BYTES_MAX),
    ("clientId", AUTH_TEXT_BYTES_MAX),
    ("clientSecret", AUTH_TEXT_BYTES_MAX),
    ("tokenUrl", URL_BYTES_MAX),
    ("identity", AUTH_PEM_BYTES_MAX),
    ("cert", AUTH_PEM_BYTES_MAX),
];

/// An iterator is a name, which may follow a sign.
const ITERATOR_CHARS_MAX: usize = NAME_CHARS_MAX + 1;

/// Bounds of lists that are not declared at the field.
const LISTS: &[(&str, usize)] = &[
    ("eventTypes", ENDPOINT_EVENT_TYPES_MAX),
    ("EnvironmentIn.eventTypes", EVENT_TYPES_MOVED_MAX),
    ("filterTypes", ENDPOINT_EVENT_TYPES_MAX),
    ("event_types", SEARCH_TYPES_MAX),
    ("channels", ENDPOINT_CHANNELS_MAX),
    ("featureFlags", FEATURE_FLAGS_MAX),
    ("EventType.featureFlags", 1),
    ("deleteHeaders", HEADERS_MAX),
    ("held", WORKER_HELD_MAX),
];

/// Texts and lists of workers. The server truncates them instead of refusing them, because the job has ended anyway.
const CUT: [&str; 3] = ["log", "FailIn.error", "text"];

/// The shortest entry of a map as JSON: `"":"",`.
const ENTRY_BYTES_MIN: usize = 6;

/// Adds the bounds to the schema of a request. Schemas of responses have no bounds.
pub(crate) fn add(name: &str, schema: &mut RefOr<Schema>) {
    if name.contains("Out") {
        return;
    }
    match schema {
        RefOr::T(Schema::Object(object)) => add_to_fields(name, object),
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(|part| add(name, part)),
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

pub(crate) fn add_to_parameters(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(Parameter { name, schema: Some(schema), .. }) = parameter {
            bound("", name, schema);
        }
    }
}

fn add_to_fields(schema: &str, object: &mut Object) {
    for (field, value) in &mut object.properties {
        bound(schema, field, value);
    }
}

fn bound(schema: &str, field: &str, value: &mut RefOr<Schema>) {
    let is_cut = CUT.contains(&field) || CUT.contains(&&*format!("{schema}.{field}"));
    match value {
        RefOr::T(Schema::Object(object)) if !is_cut => bound_object(schema, field, object),
        RefOr::T(Schema::Array(array)) if !is_cut => {
            // Both schemas of event types have the same list.
            let listed = look_up(LISTS, if schema.starts_with("EventType") { "EventType" } else { schema }, field);
            array.max_items = array.max_items.or(listed);
            if let ArrayItems::RefOrSchema(items) = &mut array.items
                && let RefOr::T(Schema::Object(item)) = &mut **items
            {
                bound_text(item, NAME_CHARS_MAX);
            }
        }
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

fn bound_object(schema: &str, field: &str, object: &mut Object) {
    let max = match field {
        "iterator" => ITERATOR_CHARS_MAX,
        _ => look_up(TEXTS, schema, field).unwrap_or(NAME_CHARS_MAX),
    };
    bound_text(object, max);
    let (entries, key, value) = match field {
        "extraParams" => (OAUTH_PARAMS_MAX, HEADER_NAME_BYTES_MAX, AUTH_TEXT_BYTES_MAX),
        "headers" | "extraHeaders" => (HEADERS_MAX, HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX),
        "metadata" => (METADATA_BYTES_MAX / ENTRY_BYTES_MIN, METADATA_BYTES_MAX, METADATA_BYTES_MAX),
        "schemas" => (SCHEMAS_MAX, NAME_CHARS_MAX, 0),
        "eventTypes" => (POLICY_TYPES_MAX, NAME_CHARS_MAX, 0),
        _ => return,
    };
    object.max_properties = Some(entries);
    if let Some(Schema::Object(names)) = object.property_names.as_deref_mut() {
        bound_text(names, key);
    }
    if let Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(values)))) =
        object.additional_properties.as_deref_mut()
    {
        bound_text(values, value);
    }
}

fn bound_text(object: &mut Object, max: usize) {
    let is_text = match &object.schema_type {
        SchemaType::Type(kind) => *kind == Type::String,
        SchemaType::Array(kinds) => kinds.contains(&Type::String),
        SchemaType::AnyValue => false,
    };
    let is_time = object.format == Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
    if is_text && !is_time && object.enum_values.is_none() && object.max_length.is_none() {
        object.max_length = Some(max);
    }
}

/// Returns the bound of a field: the entry for this schema, or else the entry for the field in any schema.
fn look_up(table: &[(&str, usize)], schema: &str, field: &str) -> Option<usize> {
    let named = |name: &str| table.iter().find(|(known, _)| *known == name).map(|(_, max)| *max);
    named(&format!("{schema}.{field}")).or_else(|| named(field))
}
