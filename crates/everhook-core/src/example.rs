//! Example payloads of an event type, taken from its JSON Schema or built from it.
//!
//! Pure. The API calls it when a user asks for an example message. A built example shows the shape of a payload; it is
//! not validated against the schema.

use serde_json::{Map, Value, json};

/// Deeper schemas get `null`, so that a schema that refers to itself ends.
const DEPTH_MAX: usize = 12;
/// Values that one built example has at most: references can repeat each other many times.
const VALUES_MAX: usize = 1000;
/// The version of the schema that examples are taken from, if an event type has several.
const VERSION: &str = "1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoExample {
    /// There is no schema, or it does not describe an object.
    #[error("the event type has no schema of an object: add a schema with examples")]
    NoSchema,
    /// The schema lists fewer examples.
    #[error("must be below {0}, the number of examples in the schema")]
    NoSuchIndex(usize),
}

/// Returns the example with this index as JSON. `schemas` are the schemas of an event type by version, as JSON.
///
/// The first source that exists is used: the list `examples` of the schema, its `example`, and an object that is built
/// from its properties. Only the list uses the index.
pub fn payload(schemas: Option<&str>, index: usize) -> Result<String, NoExample> {
    let schemas: Map<String, Value> =
        schemas.and_then(|schemas| serde_json::from_str(schemas).ok()).ok_or(NoExample::NoSchema)?;
    let schema = schemas.get(VERSION).or_else(|| schemas.values().next()).ok_or(NoExample::NoSchema)?;
    let example = match schema.get("examples").and_then(Value::as_array).filter(|list| !list.is_empty()) {
        Some(examples) => examples.get(index).ok_or(NoExample::NoSuchIndex(examples.len()))?.clone(),
        None => Builder { root: schema, left: VALUES_MAX }.build(schema, 0),
    };
    if example.is_object() { Ok(example.to_string()) } else { Err(NoExample::NoSchema) }
}

struct Builder<'s> {
    root: &'s Value,
    /// Values that may still be built.
    left: usize,
}

impl Builder<'_> {
    fn build(&mut self, schema: &Value, depth: usize) -> Value {
        if depth > DEPTH_MAX || self.left == 0 {
            return Value::Null;
        }
        self.left -= 1;
        if let Some(given) = given(schema) {
            return given.clone();
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#')) {
            let target = self.root.pointer(target);
            return target.map_or(Value::Null, |target| self.build(target, depth + 1));
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            let mut merged = self.object(schema, depth);
            for part in parts {
                if let Value::Object(members) = self.build(part, depth + 1) {
                    merged.extend(members);
                }
            }
            return Value::Object(merged);
        }
        let choice = ["oneOf", "anyOf"].into_iter().find_map(|name| schema.get(name)?.as_array()?.first());
        if let Some(choice) = choice {
            return self.build(choice, depth + 1);
        }
        match kind(schema) {
            "object" => Value::Object(self.object(schema, depth)),
            "array" => {
                let item = schema.get("items").filter(|items| items.is_object());
                Value::Array(item.map(|item| self.build(item, depth + 1)).into_iter().collect())
            }
            "string" => text(schema),
            "integer" | "number" => {
                schema.get("minimum").filter(|least| least.is_number()).cloned().unwrap_or(json!(0))
            }
            "boolean" => json!(true),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        properties.map(|(name, schema)| (name.clone(), self.build(schema, depth + 1))).collect()
    }
}

/// Returns a value that the schema names itself.
fn given(schema: &Value) -> Option<&Value> {
    let first = |name| schema.get(name)?.as_array()?.first();
    ["example", "const", "default"]
        .into_iter()
        .find_map(|name| schema.get(name))
        .or_else(|| first("examples"))
        .or_else(|| first("enum"))
}

/// Returns the type of a schema. A list of types counts as its first type, a schema with properties as an object.
fn kind(schema: &Value) -> &str {
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    kind.unwrap_or(if schema.get("properties").is_some() { "object" } else { "null" })
}

fn text(schema: &Value) -> Value {
    json!(match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("date") => "2026-01-31",
        Some("time") => "12:00:00Z",
        Some("email") => "user@example.com",
        Some("uri" | "url") => "https://example.com",
        Some("uuid") => "123e4567-e89b-12d3-a456-426614174000",
        _ => "string",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: Value, index: usize, want: Result<Value, NoExample>) {
        let schemas = json!({ "1": schema, "2": { "examples": [{ "of": "another version" }] } }).to_string();
        let found = payload(Some(&schemas), index).map(|json| serde_json::from_str(&json).unwrap());
        assert_eq!(found, want);
    }

    #[test]
    fn examples_of_the_schema_are_chosen_by_index() {
        let schema = json!({ "type": "object", "examples": [{ "n": 1 }, { "n": 2 }], "example": { "n": 3 } });
        check(schema.clone(), 0, Ok(json!({ "n": 1 })));
        check(schema.clone(), 1, Ok(json!({ "n": 2 })));
        check(schema, 2, Err(NoExample::NoSuchIndex(2)));
        check(json!({ "example": { "n": 3 } }), 7, Ok(json!({ "n": 3 })));
    }

    #[test]
    fn without_examples_one_is_built_from_the_properties() {
        let schema = json!({
            "definitions": { "item": { "properties": { "sku": { "const": "a-1" } } } },
            "properties": {
                "id": { "type": "string", "format": "uuid" },
                "amount": { "type": ["number", "null"], "minimum": 5 },
                "paid": { "type": "boolean" },
                "state": { "enum": ["open", "closed"] },
                "items": { "type": "array", "items": { "$ref": "#/definitions/item" } },
                "from": { "oneOf": [{ "type": "string" }, { "type": "null" }] },
                "both": { "allOf": [{ "properties": { "a": { "default": 1 } } }, { "properties": { "b": {} } }] },
            },
        });
        let want = json!({
            "id": "123e4567-e89b-12d3-a456-426614174000", "amount": 5, "paid": true, "state": "open",
            "items": [{ "sku": "a-1" }], "from": "string", "both": { "a": 1, "b": null },
        });
        check(schema, 0, Ok(want));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let twice = json!({ "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" } } });
        let schemas = json!({ "1": twice }).to_string();
        assert!(payload(Some(&schemas), 0).unwrap().len() < 100_000);
    }

    #[test]
    fn without_a_schema_of_an_object_there_is_no_example() {
        check(json!({ "type": "string" }), 0, Err(NoExample::NoSchema));
        check(json!({ "examples": ["text"] }), 0, Err(NoExample::NoSchema));
        check(json!(true), 0, Err(NoExample::NoSchema));
        assert_eq!(payload(None, 0), Err(NoExample::NoSchema));
        assert_eq!(payload(Some("{}"), 0), Err(NoExample::NoSchema));
    }
}
