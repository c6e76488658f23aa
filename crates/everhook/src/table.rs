//! Values of a server's replies as cells of a table. An empty text stands for a missing value.

use serde_json::Value;

/// Longest cell of a table for people, in characters.
const CELL_CHARS: usize = 80;

/// Formats any value.
pub(crate) fn cell(object: &Value, key: &str) -> String {
    match &object[key] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

pub(crate) fn cells<const N: usize>(object: &Value, keys: [&str; N]) -> [String; N] {
    keys.map(|key| cell(object, key))
}

/// Formats a time to the second.
pub(crate) fn time(object: &Value, key: &str) -> String {
    object[key].as_str().map_or_else(String::new, seconds)
}

/// Cuts a time to the second.
pub(crate) fn seconds(text: &str) -> String {
    text.split('.').next().unwrap_or_default().trim_end_matches('Z').to_owned() + "Z"
}

/// Formats a value with its unit.
pub(crate) fn with_unit(object: &Value, key: &str, unit: &str) -> String {
    let value = cell(object, key);
    if value.is_empty() { value } else { format!("{value} {unit}") }
}

/// Formats an age in seconds.
pub(crate) fn age(object: &Value, key: &str) -> String {
    object[key].as_f64().map_or_else(String::new, |age| format!("{age:.1} s"))
}

/// Returns the start of a text as one line.
pub(crate) fn one_line(text: &str) -> String {
    let line: String = flat(text).chars().take(CELL_CHARS + 1).collect();
    if line.chars().count() > CELL_CHARS { line.chars().take(CELL_CHARS - 1).chain(['…']).collect() } else { line }
}

/// Returns a text with spaces instead of line breaks and other control characters.
pub(crate) fn flat(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// Formats pairs of an object as `key=value`.
pub(crate) fn pairs(object: &Value, key: &str) -> String {
    let pairs = object[key].as_object().into_iter().flatten();
    pairs.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>().join(", ")
}
