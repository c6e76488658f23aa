//! Answers of a server as text for people.

use serde_json::Value;

/// Columns as wide as their widest cell.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A text of an object.
pub(crate) fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

/// A time of an object to the second; the rest is in the JSON.
pub(crate) fn seconds(object: &Value, key: &str) -> String {
    text(object, key).split('.').next().unwrap_or_default().to_owned() + "Z"
}
