//! Checks that a value is a JSON Schema of draft 7: each keyword has a value that the meta-schema of that draft allows.
//!
//! Pure. References are not followed, and the formats of texts such as `$id` are not checked. Patterns are not
//! compiled, because their dialect depends on the reader of the schema.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::violation::{Field, Violation};

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// The values that a keyword allows.
#[derive(Clone, Copy)]
enum Shape {
    Schema,
    Schemas,
    SchemaOrSchemas,
    SchemaByName,
    SchemaOrNamesByName,
    Names,
    Types,
    Text,
    Flag,
    List,
    Number,
    PositiveNumber,
    Count,
}

/// Checks the schema at `place`, and returns the first keyword that has a wrong value.
pub fn check(schema: &Value, place: &Field) -> Result<(), Violation> {
    match schema {
        Value::Bool(_) => Ok(()),
        Value::Object(keywords) => keywords.iter().try_for_each(|(keyword, value)| match shape(keyword) {
            Some(shape) => check_value(shape, value, &inside(place, keyword)),
            None => Ok(()),
        }),
        _ => Err(place.clone().breaks("must be a JSON Schema: an object, true or false")),
    }
}

/// Returns the values that a keyword of draft 7 allows. Other keywords and `default` and `const` allow any value.
fn shape(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        "additionalItems" | "additionalProperties" | "contains" | "else" | "if" | "not" | "propertyNames" | "then" => {
            Shape::Schema
        }
        "allOf" | "anyOf" | "oneOf" => Shape::Schemas,
        "items" => Shape::SchemaOrSchemas,
        "definitions" | "patternProperties" | "properties" => Shape::SchemaByName,
        "dependencies" => Shape::SchemaOrNamesByName,
        "required" => Shape::Names,
        "type" => Shape::Types,
        "$comment" | "$id" | "$ref" | "$schema" | "contentEncoding" | "contentMediaType" | "description" | "format"
        | "pattern" | "title" => Shape::Text,
        "readOnly" | "uniqueItems" | "writeOnly" => Shape::Flag,
        "enum" | "examples" => Shape::List,
        "exclusiveMaximum" | "exclusiveMinimum" | "maximum" | "minimum" => Shape::Number,
        "multipleOf" => Shape::PositiveNumber,
        "maxItems" | "maxLength" | "maxProperties" | "minItems" | "minLength" | "minProperties" => Shape::Count,
        _ => return None,
    })
}

fn check_value(shape: Shape, value: &Value, place: &Field) -> Result<(), Violation> {
    let need = |is_right: bool, rule: &str| if is_right { Ok(()) } else { Err(place.clone().breaks(rule)) };
    match (shape, value) {
        (Shape::SchemaOrSchemas, Value::Array(_)) => check_value(Shape::Schemas, value, place),
        (Shape::Schema | Shape::SchemaOrSchemas, _) => check(value, place),
        (Shape::Schemas, Value::Array(schemas)) if !schemas.is_empty() => {
            schemas.iter().enumerate().try_for_each(|(index, schema)| check(schema, &place.clone().index(index)))
        }
        (Shape::Schemas, _) => need(false, "must be a list of at least one JSON Schema"),
        (Shape::SchemaByName, Value::Object(members)) => {
            members.iter().try_for_each(|(name, schema)| check(schema, &inside(place, name)))
        }
        (Shape::SchemaOrNamesByName, Value::Object(members)) => members.iter().try_for_each(|(name, value)| {
            let shape = if value.is_array() { Shape::Names } else { Shape::Schema };
            check_value(shape, value, &inside(place, name))
        }),
        (Shape::SchemaByName | Shape::SchemaOrNamesByName, _) => need(false, "must be an object"),
        (Shape::Names, _) => need(different_texts(value).is_some(), "must be a list of different strings"),
        (Shape::Types, Value::String(name)) => need(is_type(name), &types_rule()),
        (Shape::Types, _) => {
            let names = different_texts(value).filter(|names| !names.is_empty());
            need(names.is_some_and(|names| names.into_iter().all(is_type)), &types_rule())
        }
        (Shape::Text, _) => need(value.is_string(), "must be a string"),
        (Shape::Flag, _) => need(value.is_boolean(), "must be true or false"),
        (Shape::List, _) => need(value.is_array(), "must be a list"),
        (Shape::Number, _) => need(value.is_number(), "must be a number"),
        (Shape::PositiveNumber, _) => need(value.as_f64().is_some_and(|n| n > 0.0), "must be a number above 0"),
        (Shape::Count, _) => {
            let is_count = value.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0);
            need(is_count, "must be a whole number, 0 or more")
        }
    }
}

/// The members of a list of strings that are all different.
fn different_texts(value: &Value) -> Option<BTreeSet<&str>> {
    let items = value.as_array()?;
    let texts: BTreeSet<&str> = items.iter().map(Value::as_str).collect::<Option<_>>()?;
    (texts.len() == items.len()).then_some(texts)
}

fn is_type(name: &str) -> bool {
    TYPES.contains(&name)
}

fn types_rule() -> String {
    format!("must be a type or a list of different types: {}", TYPES.join(", "))
}

fn inside(place: &Field, name: &str) -> Field {
    place.clone().member(name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::violation::at;

    fn broken(schema: &Value) -> Option<String> {
        check(schema, &at("1")).err().map(|violation| violation.to_string())
    }

    #[test]
    fn schemas_of_draft_7_are_accepted() {
        let schemas = [
            json!(true),
            json!({}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "x-unknown": 3, "const": null, "default": []}),
            json!({"type": ["object", "null"], "required": [], "properties": {"a": {"type": "string"}, "b": false}}),
            json!({"items": [{"minLength": 2.0}], "additionalItems": false, "enum": [], "uniqueItems": true}),
            json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}, "multipleOf": 0.01, "minimum": -1e3}),
            json!({"allOf": [{"if": {"maxItems": 0}, "then": true, "else": {"not": {}}}], "pattern": "(?<=a)b"}),
        ];
        for schema in schemas {
            assert_eq!(broken(&schema), None, "{schema}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_by_its_path() {
        let types =
            "must be a type or a list of different types: array, boolean, integer, null, number, object, string";
        let cases = [
            (json!(3), "1 must be a JSON Schema: an object, true or false".to_owned()),
            (json!({"type": "text"}), format!("1.type {types}")),
            (json!({"type": []}), format!("1.type {types}")),
            (json!({"type": ["null", "null"]}), format!("1.type {types}")),
            (
                json!({"properties": {"a": {"items": [{}, {"minLength": -1}]}}}),
                "1.properties.a.items[1].minLength must be a whole number, 0 or more".to_owned(),
            ),
            (json!({"anyOf": []}), "1.anyOf must be a list of at least one JSON Schema".to_owned()),
            (json!({"anyOf": [1]}), "1.anyOf[0] must be a JSON Schema: an object, true or false".to_owned()),
            (json!({"required": ["a", "a"]}), "1.required must be a list of different strings".to_owned()),
            (json!({"required": true}), "1.required must be a list of different strings".to_owned()),
            (json!({"dependencies": {"a": [1]}}), "1.dependencies.a must be a list of different strings".to_owned()),
            (json!({"definitions": []}), "1.definitions must be an object".to_owned()),
            (json!({"maxItems": 1.5}), "1.maxItems must be a whole number, 0 or more".to_owned()),
            (json!({"multipleOf": 0}), "1.multipleOf must be a number above 0".to_owned()),
            (json!({"exclusiveMinimum": true}), "1.exclusiveMinimum must be a number".to_owned()),
            (json!({"enum": {}}), "1.enum must be a list".to_owned()),
            (json!({"readOnly": "yes"}), "1.readOnly must be true or false".to_owned()),
            (json!({"title": 1}), "1.title must be a string".to_owned()),
        ];
        for (schema, error) in cases {
            assert_eq!(broken(&schema), Some(error), "{schema}");
        }
    }
}
