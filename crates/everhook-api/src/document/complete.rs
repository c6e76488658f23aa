//! Completes the document for people and for generators of clients: each field has a description and an example, each
//! body has an example, and lists refer to their items by name.
//!
//! A description or an example at a field of the code wins. Otherwise a field of an answer is described like the same
//! field of the request, or by `words`. Examples are made of the types; `words` has those of texts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::words::{DESCRIPTIONS, RELATED, TEXTS};

const REFERENCE: &str = "#/components/schemas/";
/// Schemas refer to each other to this depth at most; deeper examples are empty.
const DEPTH_MAX: usize = 10;
/// A failure of so many operations is written once. No status has two of them.
const SHARED_MIN: usize = 20;

type Schemas = Map<String, Value>;

/// Adds descriptions and examples to a whole document.
pub(super) fn complete(document: &mut Value) {
    let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") else { return };
    refer_to_items(schemas);
    hoist(schemas);
    let known = descriptions(schemas);
    for (name, schema) in schemas.iter_mut() {
        each_field(schema, &mut |field, value| describe(&known, name, field, value));
    }
    let plain = schemas.clone();
    for (name, schema) in schemas.iter_mut() {
        each_field(schema, &mut |field, value| {
            let example = example(&plain, name, field, value, 0);
            put(value, "example", example);
        });
    }
    let schemas = schemas.clone();
    for operation in operations(document) {
        complete_operation(&schemas, operation);
    }
    share_failures(document);
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    members(document, "paths").flat_map(|(_, item)| item.as_object_mut().into_iter().flat_map(Map::values_mut))
}

/// Failures that most operations share are written once, and referred to by name.
fn share_failures(document: &mut Value) {
    let mut counts = BTreeMap::<(String, String), usize>::new();
    for operation in operations(document) {
        for (status, response) in members(operation, "responses").filter(|(status, _)| is_failure(status)) {
            *counts.entry((status.clone(), response.to_string())).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count >= SHARED_MIN);
    let mut shared = Map::new();
    for operation in operations(document) {
        for (status, response) in members(operation, "responses") {
            if counts.contains_key(&(status.clone(), response.to_string())) {
                let name = format!("Failure{status}");
                let reference = json!({ "$ref": format!("#/components/responses/{name}") });
                shared.insert(name, std::mem::replace(response, reference));
            }
        }
    }
    document["components"]["responses"] = shared.into();
}

fn is_failure(status: &str) -> bool {
    status.starts_with(['4', '5'])
}

fn complete_operation(schemas: &Schemas, operation: &mut Value) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        let example = example(schemas, "", &name, &parameter["schema"], 0);
        put(parameter, "example", example);
    }
    if let Some(content) = operation.pointer_mut("/requestBody/content/application~1json") {
        let example = request(schemas, &content["schema"]);
        put(content, "example", example);
    }
    for (status, response) in members(operation, "responses") {
        if let Some(content) = response.pointer_mut("/content/application~1json") {
            let mut example = example(schemas, "", "", &content["schema"], 0);
            if is_failure(status) {
                describe_failure(status, &mut example);
            }
            put(content, "example", example);
        }
    }
}

/// Examples of failures have the code of their status.
fn describe_failure(status: &str, example: &mut Value) {
    let (code, detail) = match status {
        "400" => ("generic_error", "The body of the request could not be read."),
        "401" => ("authentication_failed", "The key is not valid: send an active one."),
        "403" => ("insufficient access", "Insufficient access for the given operation: use another key or token."),
        "404" => ("not_found", "application \"acme\" not found"),
        "408" => ("request_timeout", "The body of the request took too long."),
        "409" => ("conflict", "An application with this uid exists already."),
        "413" => ("payload_too_large", "Request payload is too large."),
        "500" => ("server_error", "Internal Server Error"),
        "503" => ("unavailable", "The storage is unavailable: try again."),
        "507" => ("storage_full", "The storage is full."),
        _ => return,
    };
    if example.get("code").is_some() {
        *example = json!({ "code": code, "detail": detail });
    }
}

/// A page names the schema of its items, so that generators make one type of it.
fn refer_to_items(schemas: &mut Schemas) {
    let names: Vec<_> = schemas.keys().cloned().collect();
    for name in &names {
        let item = name.strip_prefix("Page_").filter(|item| names.iter().any(|name| name == item));
        if let (Some(item), Some(schema)) = (item, schemas.get_mut(name)) {
            schema["properties"]["data"]["items"] = json!({ "$ref": format!("{REFERENCE}{item}") });
        }
    }
}

/// A field that may be null has its description one level down.
fn hoist(schemas: &mut Schemas) {
    for schema in schemas.values_mut() {
        each_field(schema, &mut |_, value| {
            let inner = value["oneOf"].as_array().into_iter().flatten().find_map(|part| part["description"].as_str());
            if let Some(inner) = inner.map(Value::from) {
                put(value, "description", inner);
            }
        });
    }
}

/// The descriptions in the code, by schema and field.
fn descriptions(schemas: &mut Schemas) -> BTreeMap<(String, String), String> {
    let mut known = BTreeMap::new();
    for (name, schema) in schemas.iter_mut() {
        each_field(schema, &mut |field, value| {
            if let Some(text) = value["description"].as_str() {
                known.insert((name.clone(), field.to_owned()), text.to_owned());
            }
        });
    }
    known
}

fn describe(known: &BTreeMap<(String, String), String>, schema: &str, field: &str, value: &mut Value) {
    let listed = |name: &str| DESCRIPTIONS.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    let stem = ["Out", "Patch", "In"].iter().find_map(|suffix| schema.strip_suffix(suffix)).unwrap_or(schema);
    let related = RELATED.iter().filter(|(from, _)| *from == schema).map(|(_, to)| (*to).to_owned());
    let forms = related.chain(["In", "Update", "Patch", "Out"].map(|suffix| format!("{stem}{suffix}")));
    let text = listed(&format!("{schema}.{field}"))
        .or_else(|| forms.into_iter().find_map(|form| known.get(&(form, field.to_owned())).cloned()))
        .or_else(|| listed(field))
        .or_else(|| known.iter().find(|((_, name), _)| name == field).map(|(_, text)| text.clone()));
    if let Some(text) = text {
        put(value, "description", text.into());
    }
}

/// Calls `visit` for each field of a schema, also in its parts, and in objects within objects.
fn each_field(schema: &mut Value, visit: &mut dyn FnMut(&str, &mut Value)) {
    for (field, value) in members(schema, "properties") {
        visit(field, value);
        each_field(value, visit);
    }
    for parts in ["allOf", "oneOf", "anyOf"] {
        let parts = schema.get_mut(parts).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(|part| each_field(part, visit));
    }
}

/// The members of an object in a value; none if it is not there.
fn members<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> + use<'a> {
    value.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten()
}

fn put(value: &mut Value, member: &str, content: Value) {
    if let Some(object) = value.as_object_mut()
        && !content.is_null()
    {
        object.entry(member).or_insert(content);
    }
}

/// The example of a request has the required fields only, or one field if none is required: others may exclude each
/// other.
fn request(schemas: &Schemas, schema: &Value) -> Value {
    let Some(name) = reference(schema) else { return example(schemas, "", "", schema, 0) };
    let schema = &schemas[name];
    if let Some(first) = schema["oneOf"].get(0) {
        return request(schemas, first);
    }
    let mut required = Vec::new();
    fields_required(schemas, schema, &mut required);
    let Value::Object(mut all) = example(schemas, name, "", schema, 0) else { return Value::Null };
    let first = all.keys().next().cloned();
    if required.is_empty() {
        required.extend(first.filter(|_| name.contains("Patch")));
    }
    all.retain(|field, _| required.contains(field));
    Value::Object(all)
}

fn fields_required(schemas: &Schemas, schema: &Value, required: &mut Vec<String>) {
    let schema = reference(schema).map_or(schema, |name| &schemas[name]);
    required.extend(schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields_required(schemas, part, required);
    }
}

/// Makes the example of a field, or of a whole schema if `field` is empty.
fn example(schemas: &Schemas, schema: &str, field: &str, value: &Value, depth: usize) -> Value {
    if let Some(given) = value.get("example") {
        return given.clone();
    }
    if let Some(name) = reference(value) {
        return schemas.get(name).map_or(Value::Null, |schema| example(schemas, name, field, schema, depth + 1));
    }
    if let Some(one) = value["enum"].get(0) {
        return one.clone();
    }
    let alternatives = ["oneOf", "anyOf"].into_iter().find_map(|parts| value[parts].as_array());
    if let Some(first) = alternatives.and_then(|parts| parts.iter().find(|part| part["type"] != "null")) {
        return example(schemas, schema, field, first, depth + 1);
    }
    if let Some(parts) = value["allOf"].as_array() {
        let mut whole = Map::new();
        for part in parts {
            if let Value::Object(part) = example(schemas, schema, "", part, depth + 1) {
                whole.extend(part);
            }
        }
        return Value::Object(whole);
    }
    match kind(value) {
        "boolean" => json!(true),
        "array" if value["maxItems"] == 0 => json!([]),
        "integer" => number(value),
        "number" => json!(number(value).as_i64().unwrap_or(1) as f64),
        "array" => {
            let item = example(schemas, schema, singular(field), &value["items"], depth + 1);
            let count = value["minItems"].as_u64().and_then(|count| count.try_into().ok()).unwrap_or(1);
            json!(vec![item; std::cmp::max(count, 1)])
        }
        "string" => json!(text(schema, field, value)),
        _ => object(schemas, schema, value, depth),
    }
}

fn object(schemas: &Schemas, schema: &str, value: &Value, depth: usize) -> Value {
    let mut whole = Map::new();
    if depth > DEPTH_MAX {
        return Value::Object(whole);
    }
    for (field, value) in value["properties"].as_object().into_iter().flatten() {
        if value["deprecated"] != true {
            whole.insert(field.clone(), example(schemas, schema, field, value, depth + 1));
        }
    }
    if let Some(values) = value.get("additionalProperties").filter(|values| values.is_object()) {
        whole.insert("key".to_owned(), example(schemas, schema, "value", values, depth + 1));
    }
    Value::Object(whole)
}

/// The type of a schema; of those that may be null, the other one.
fn kind(value: &Value) -> &str {
    match &value["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    }
}

fn number(value: &Value) -> Value {
    let bound = |name: &str| value[name].as_f64().map(|bound| bound as u64);
    let step = bound("multipleOf").unwrap_or(1).max(1);
    let number = bound("minimum").unwrap_or(1).max(1).next_multiple_of(step);
    json!(bound("maximum").map_or(number, |max| number.min(max)))
}

fn text(schema: &str, field: &str, value: &Value) -> String {
    if value["format"] == "date-time" {
        return "2026-01-31T12:00:00.000000Z".to_owned();
    }
    let listed = |name: &str| TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    let alternatives =
        value["pattern"].as_str().and_then(|pattern| pattern.strip_prefix("^(")?.split(['|', ')']).next());
    listed(&format!("{schema}.{field}"))
        .or_else(|| listed(field))
        .or_else(|| alternatives.map(str::to_owned))
        .unwrap_or_else(|| "text".to_owned())
}

fn singular(field: &str) -> &str {
    field.strip_suffix('s').unwrap_or(field)
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(REFERENCE)
}
