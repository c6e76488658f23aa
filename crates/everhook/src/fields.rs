//! Bodies of requests from options. An omitted option leaves its field out; `none` sets it to null.

use serde_json::{Map, Value};

use crate::exit::usage;
use crate::job::pairs;

/// The word that removes an optional value.
const NONE: &str = "none";

pub(crate) trait Fields {
    fn add_text(&mut self, name: &str, given: Option<String>);
    fn add_text_or_none(&mut self, name: &str, given: Option<String>);
    fn add_number_or_none(&mut self, name: &str, given: Option<String>) -> anyhow::Result<()>;
    /// Adds pairs of the form KEY=VALUE, unless there are none.
    fn add_pairs(&mut self, name: &str, given: &[String]) -> anyhow::Result<()>;
    /// Adds a list, unless it is empty. The single item `none` sets the field to null.
    fn add_list_or_none(&mut self, name: &str, given: Vec<String>);
}

impl Fields for Map<String, Value> {
    fn add_text(&mut self, name: &str, given: Option<String>) {
        if let Some(text) = given {
            self.insert(name.to_owned(), Value::from(text));
        }
    }

    fn add_text_or_none(&mut self, name: &str, given: Option<String>) {
        if let Some(text) = given {
            self.insert(name.to_owned(), if text == NONE { Value::Null } else { Value::from(text) });
        }
    }

    fn add_number_or_none(&mut self, name: &str, given: Option<String>) -> anyhow::Result<()> {
        let Some(text) = given else { return Ok(()) };
        let number = match text.as_str() {
            NONE => Value::Null,
            text => Value::from(
                text.parse::<u64>().map_err(|_| usage(format!("invalid {name} {text:?}: use a number, or none")))?,
            ),
        };
        self.insert(name.to_owned(), number);
        Ok(())
    }

    fn add_pairs(&mut self, name: &str, given: &[String]) -> anyhow::Result<()> {
        if !given.is_empty() {
            let pairs = pairs(given)?.into_iter().map(|(key, value)| (key, Value::from(value)));
            self.insert(name.to_owned(), Value::Object(pairs.collect()));
        }
        Ok(())
    }

    fn add_list_or_none(&mut self, name: &str, given: Vec<String>) {
        if !given.is_empty() {
            let is_none = given.len() == 1 && given[0] == NONE;
            self.insert(name.to_owned(), if is_none { Value::Null } else { Value::from(given) });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn omitted_options_leave_fields_out_and_none_sets_null() {
        let mut body = Map::new();
        body.add_text("name", None);
        body.add_text_or_none("uid", Some("none".into()));
        body.add_number_or_none("rate", Some("7".into())).unwrap();
        body.add_pairs("metadata", &[]).unwrap();
        body.add_pairs("more", &["a=b=c".into()]).unwrap();
        body.add_list_or_none("channels", vec!["none".into()]);
        body.add_list_or_none("types", vec!["a".into(), "none".into()]);
        let want = json!({ "uid": null, "rate": 7, "more": { "a": "b=c" }, "channels": null, "types": ["a", "none"] });
        assert_eq!(Value::Object(body.clone()), want);
        assert!(body.add_number_or_none("rate", Some("many".into())).is_err());
    }
}
