//! Formats replies of a server as text.

use serde_json::Value;

use crate::plain::plain_line;

/// Formats rows as columns. Each cell is escaped to one line.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    let rows = rows.iter().map(|row| row.each_ref().map(|cell| plain_line(cell))).collect::<Vec<_>>();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

pub(crate) fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

/// Formats a time to the second.
pub(crate) fn seconds(object: &Value, key: &str) -> String {
    text(object, key).split('.').next().unwrap_or_default().to_owned() + "Z"
}

/// Formats any value for one cell; a dash stands for a missing value.
pub(crate) fn cell(object: &Value, key: &str) -> String {
    match &object[key] {
        Value::Null => "-".to_owned(),
        Value::String(text) => one_line(text),
        Value::Array(list) if list.is_empty() => "-".to_owned(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Formats a time to the second; a dash stands for a missing time.
pub(crate) fn time(object: &Value, key: &str) -> String {
    if object[key].is_null() { "-".to_owned() } else { seconds(object, key) }
}

/// Returns the start of a text as one line.
pub(crate) fn one_line(text: &str) -> String {
    const CHARS: usize = 80;
    let line: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(CHARS + 1).collect();
    if line.chars().count() > CHARS { line.chars().take(CHARS - 1).chain(['…']).collect() } else { line }
}

/// Formats names with their values, and omits empty values.
pub(crate) fn facts(facts: Vec<(&str, String)>) -> String {
    let given = facts.into_iter().filter(|(_, value)| !value.is_empty() && value != "-");
    table(&given.map(|(name, value)| [name.to_owned(), value]).collect::<Vec<_>>())
}
