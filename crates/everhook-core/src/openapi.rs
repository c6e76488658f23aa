//! Event types from an OpenAPI document: every entry of `webhooks`, or of `x-webhooks` before version 3.1.
//!
//! Pure. The document is already parsed, and nothing that it refers to is fetched. References inside the document are
//! kept as references, so that schemas may be recursive and the result is no larger than the document.

use serde_json::{Map, Value};

use crate::violation::{Violation, at};

/// The members that list webhooks, in the order of preference.
const WEBHOOKS: [&str; 2] = ["webhooks", "x-webhooks"];
/// The methods of an operation; webhooks use POST, so it goes first.
const METHODS: [&str; 8] = ["post", "put", "patch", "get", "delete", "options", "head", "trace"];
/// The longest chain of references that only refer to the next one.
const REFERENCES_MAX: usize = 16;
const SCHEMAS: &str = "#/components/schemas/";

/// An event type that a document describes. Its texts are not checked yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub name: String,
    pub description: String,
    pub deprecated: bool,
    /// The JSON Schema of the request body.
    pub schema: Option<Value>,
    pub group_name: Option<String>,
    pub feature_flags: Option<Vec<String>>,
}

/// Returns the event types of a document, in its order.
pub fn event_types(document: &Value) -> Result<Vec<Described>, Violation> {
    let Some((member, webhooks)) = WEBHOOKS.iter().find_map(|name| Some((*name, document.get(name)?))) else {
        return Err(at("webhooks").breaks("is required, or x-webhooks in OpenAPI 3.0"));
    };
    let Some(webhooks) = webhooks.as_object().filter(|webhooks| !webhooks.is_empty()) else {
        return Err(at(member).breaks("must be an object with at least one webhook"));
    };
    let described = |(name, item): (&String, &Value)| {
        describe(document, name, item).map_err(|violation| violation.under(at(member).member(name.clone())))
    };
    webhooks.iter().map(described).collect()
}

fn describe(document: &Value, name: &str, item: &Value) -> Result<Described, Violation> {
    let item = resolved(document, item)?;
    let operation = METHODS.iter().find_map(|method| item.get(*method)).unwrap_or(&Value::Null);
    let text = |member: &str| operation.get(member).or_else(|| item.get(member)).and_then(Value::as_str);
    let flags = |flags: &Value| -> Option<Vec<String>> {
        flags.as_array()?.iter().map(|flag| flag.as_str().map(str::to_owned)).collect()
    };
    Ok(Described {
        name: name.to_owned(),
        description: text("description").or_else(|| text("summary")).unwrap_or_default().to_owned(),
        deprecated: operation.get("deprecated").and_then(Value::as_bool).unwrap_or(false),
        schema: schema(document, operation)?,
        group_name: text("x-svix-group-name").map(str::to_owned),
        feature_flags: operation.get("x-svix-feature-flags").and_then(flags),
    })
}

/// Returns the schema of the JSON body, with the definitions that it refers to and the example of the body.
fn schema(document: &Value, operation: &Value) -> Result<Option<Value>, Violation> {
    let Some(body) = operation.get("requestBody") else { return Ok(None) };
    let Some(content) = resolved(document, body)?.get("content").and_then(Value::as_object) else { return Ok(None) };
    let is_json = |kind: &&String| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind == "application/json" || kind.ends_with("+json")
    };
    let Some(media) = content.keys().find(is_json).and_then(|kind| content.get(kind)) else { return Ok(None) };
    let Some(top) = media.get("schema") else { return Ok(None) };
    let mut found = Vec::new();
    let mut schema = rewritten(resolved(document, top)?, &mut found);
    // A loop instead of a recursion: a document may have a chain of thousands of references.
    let mut definitions = Map::new();
    while let Some(reference) = found.pop() {
        let name = definition_name(&reference);
        if !definitions.contains_key(&name) {
            let definition = rewritten(target(document, &reference)?, &mut found);
            definitions.insert(name, definition);
        }
    }
    if let Value::Object(members) = &mut schema {
        if let (Some(example), false) = (media.get("example"), members.contains_key("examples")) {
            members.insert("examples".to_owned(), Value::Array(vec![example.clone()]));
        }
        if !definitions.is_empty() {
            members.insert("definitions".to_owned(), Value::Object(definitions));
        }
    }
    Ok(Some(schema))
}

/// Follows references from a value to the first value that is none.
fn resolved<'d>(document: &'d Value, mut value: &'d Value) -> Result<&'d Value, Violation> {
    for _ in 0..REFERENCES_MAX {
        match local_reference(value) {
            Some(reference) => value = target(document, reference)?,
            None => return Ok(value),
        }
    }
    Err(at("$ref").breaks("must lead to a value and not back to itself"))
}

/// Copies a schema. References into the document become references to `definitions`, and are added to `found`.
fn rewritten(schema: &Value, found: &mut Vec<String>) -> Value {
    if let Some(reference) = local_reference(schema) {
        found.push(reference.to_owned());
        let new = format!("#/definitions/{}", definition_name(reference));
        return Value::Object(Map::from_iter([("$ref".to_owned(), new.into())]));
    }
    match schema {
        Value::Object(members) => {
            let copied = members.iter().map(|(name, member)| {
                // Values of these members are data, not schemas.
                let is_data = matches!(name.as_str(), "example" | "examples" | "default" | "enum" | "const");
                let member = if is_data { member.clone() } else { rewritten(member, found) };
                (name.clone(), member)
            });
            Value::Object(copied.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| rewritten(item, found)).collect()),
        other => other.clone(),
    }
}

/// Returns the name of a reference's target among the definitions.
fn definition_name(reference: &str) -> String {
    match reference.strip_prefix(SCHEMAS) {
        Some(name) => name.replace(['/', '~'], "."),
        None => format!("document{}", reference[1..].replace(['/', '~'], ".")),
    }
}

/// Returns the reference of a value that refers to another part of the document.
fn local_reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str().filter(|reference| reference.starts_with("#/"))
}

fn target<'d>(document: &'d Value, reference: &str) -> Result<&'d Value, Violation> {
    document
        .pointer(&reference[1..])
        .ok_or_else(|| at("$ref").breaks(format!("refers to {reference}, which does not exist")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(operation: Value) -> Value {
        json!({
            "openapi": "3.1.0",
            "webhooks": { "invoice.paid": { "post": operation } },
            "components": {
                "requestBodies": { "Paid": { "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Invoice" }, "example": { "amount": 1 },
                } } } },
                "schemas": {
                    "Invoice": { "type": "object", "properties": {
                        "amount": { "type": "integer" }, "lines": { "$ref": "#/components/schemas/Line" },
                    } },
                    "Line": { "type": "array", "items": { "$ref": "#/components/schemas/Line" } },
                },
            },
        })
    }

    fn one(document: &Value) -> Described {
        event_types(document).unwrap().remove(0)
    }

    #[test]
    fn a_webhook_becomes_an_event_type() {
        let found = one(&document(json!({
            "description": "Paid", "deprecated": true, "x-svix-group-name": "invoices", "x-svix-feature-flags": ["beta"],
        })));
        assert_eq!((found.name.as_str(), found.description.as_str(), found.deprecated), ("invoice.paid", "Paid", true));
        assert_eq!((found.group_name, found.feature_flags), (Some("invoices".into()), Some(vec!["beta".into()])));
        assert_eq!(found.schema, None);
        assert_eq!(one(&document(json!({ "summary": "Short" }))).description, "Short");
    }

    #[test]
    fn references_are_followed_and_recursion_ends() {
        let body = json!({ "$ref": "#/components/requestBodies/Paid" });
        let found = one(&document(json!({ "requestBody": body })));
        assert_eq!(
            found.schema.unwrap(),
            json!({
                "type": "object",
                "properties": { "amount": { "type": "integer" }, "lines": { "$ref": "#/definitions/Line" } },
                "definitions": { "Line": { "type": "array", "items": { "$ref": "#/definitions/Line" } } },
                "examples": [{ "amount": 1 }],
            })
        );
    }

    #[track_caller]
    fn refuse(document: &Value, want: &str) {
        assert_eq!(event_types(document).unwrap_err().to_string(), want);
    }

    #[test]
    fn a_document_without_webhooks_is_refused() {
        refuse(&json!({ "paths": {} }), "webhooks is required, or x-webhooks in OpenAPI 3.0");
        refuse(&json!({ "x-webhooks": {} }), "x-webhooks must be an object with at least one webhook");
        refuse(&json!([]), "webhooks is required, or x-webhooks in OpenAPI 3.0");
    }

    #[test]
    fn a_reference_to_nothing_is_refused() {
        let body = json!({ "$ref": "#/components/requestBodies/None" });
        refuse(
            &document(json!({ "requestBody": body })),
            "webhooks.invoice.paid.$ref refers to #/components/requestBodies/None, which does not exist",
        );
        let circle = json!({ "webhooks": { "a": { "$ref": "#/webhooks/a" } } });
        refuse(&circle, "webhooks.a.$ref must lead to a value and not back to itself");
    }
}
