//! Templates of texts: a subset of Jinja without assignments, macros and includes.
//!
//! Fuel bounds the instructions. Tags that accumulate text and the operator that repeats it are refused, and templates
//! read a bounded part of the payload, so that the memory of a template is bounded, too.

use std::collections::BTreeMap;
use std::io::{self, Write};

use everhook_core::chat::Chat;
use everhook_core::violation::{Violation, at};
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, filters};

use crate::escape::{Markup, escape};
use crate::limits::{
    PAYLOAD_READ_BYTES_MAX, TEMPLATE_FUEL, TEMPLATE_OUTPUT_BYTES_MAX, VALUE_BYTES_MAX, VALUE_ENTRIES_MAX,
};

const TAGS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];

/// Checks the syntax of all templates of an endpoint.
pub fn check(chat: &Chat) -> Result<(), Violation> {
    let own = chat.event_types.iter().map(|(name, template)| (at("eventTypes").member(name.to_string()), template));
    for (place, template) in own.chain([(at("template"), &chat.template)]) {
        for (field, text) in template.texts() {
            field.check(compile(text)).map_err(|violation| violation.under(place.clone()))?;
        }
    }
    Ok(())
}

/// Renders a template. Values are escaped for `markup`; the text of the template is not.
pub(crate) fn render(text: &str, context: &Value, markup: Markup) -> Result<String, String> {
    check_source(text)?;
    let environment = environment(markup);
    let template = environment.template_from_str(text).map_err(|error| explain(&error))?;
    let mut output = Output::default();
    template.render_captured_to(context.clone(), &mut output).map_err(|error| explain(&error))?;
    Ok(String::from_utf8_lossy(&output.bytes).into_owned())
}

/// Returns the part of a JSON value that templates read.
pub(crate) fn readable(value: &serde_json::Value) -> Value {
    pruned(value, &mut { PAYLOAD_READ_BYTES_MAX })
}

fn compile(text: &str) -> Result<(), String> {
    check_source(text)?;
    environment(Markup::Plain).template_from_str(text).map(drop).map_err(|error| explain(&error))
}

/// Refuses the tags and operators whose results can grow without bound.
fn check_source(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        rest = rest.get(start + 1..).unwrap_or_default();
        let (inner, end) = match rest.as_bytes().first() {
            Some(b'#') => {
                rest = rest.find("#}").and_then(|end| rest.get(end + 2..)).unwrap_or_default();
                continue;
            }
            Some(b'%') => (true, "%}"),
            Some(b'{') => (false, "}}"),
            _ => continue,
        };
        let code = rest.get(1..).unwrap_or_default();
        if inner {
            let word = code.trim_start_matches(['-', '+']).trim_start();
            let word = word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
            if !TAGS.contains(&word) {
                return Err(format!("must not have the tag {word:?}: only if and for are supported"));
            }
        }
        rest = check_code(code, end)?;
    }
    Ok(())
}

/// Checks the code up to `end` and returns the text after it.
fn check_code<'a>(code: &'a str, end: &str) -> Result<&'a str, String> {
    let mut quote = None;
    let mut escaped = false;
    for (position, c) in code.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '*' => return Err("must not multiply: results could grow without bound".to_owned()),
            None if code.get(position..).is_some_and(|rest| rest.starts_with(end)) => {
                return Ok(code.get(position + end.len()..).unwrap_or_default());
            }
            None => {}
        }
    }
    Ok("")
}

fn environment(markup: Markup) -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment.set_formatter(move |output, _, value| {
        if !value.is_undefined() && !value.is_none() {
            output.write_str(&escape(markup, &value.to_string()))?;
        }
        Ok(())
    });
    environment.add_filter("upper", filters::upper);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("capitalize", filters::capitalize);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("length", filters::length);
    environment.add_filter("default", filters::default);
    environment.add_filter("first", filters::first);
    environment.add_filter("last", filters::last);
    environment.add_filter("round", filters::round);
    environment.add_filter("int", filters::int);
    environment.add_filter("join", join);
    environment.add_filter("json", json);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("cut", cut);
    environment
}

fn join(list: Value, separator: Option<String>) -> Result<String, Error> {
    let mut text = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        if index > 0 {
            text.push_str(separator.as_deref().unwrap_or_default());
        }
        text.push_str(&item.to_string());
        bounded(&text)?;
    }
    Ok(text)
}

fn json(value: Value) -> Result<String, Error> {
    let text = serde_json::to_string(&value);
    let text = text.map_err(|_| Error::new(ErrorKind::BadSerialization, "the value has no JSON form"))?;
    bounded(&text)?;
    Ok(text)
}

fn urlencode(text: String) -> Result<String, Error> {
    let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
    let encoded = encoded.replace('+', "%20");
    bounded(&encoded)?;
    Ok(encoded)
}

fn cut(text: String, max: usize) -> String {
    crate::escape::cut(&text, max)
}

fn bounded(text: &str) -> Result<(), Error> {
    if text.len() > TEMPLATE_OUTPUT_BYTES_MAX {
        return Err(Error::new(ErrorKind::InvalidOperation, "the text is too long"));
    }
    Ok(())
}

fn pruned(value: &serde_json::Value, left: &mut usize) -> Value {
    use serde_json::Value::{Array, Bool, Null, Number, Object, String};
    *left = left.saturating_sub(8);
    match value {
        String(text) => {
            let text = crate::escape::cut_bytes(text, VALUE_BYTES_MAX.min(*left));
            *left = left.saturating_sub(text.len());
            Value::from(text)
        }
        Array(list) => {
            let mut kept = Vec::new();
            for item in list.iter().take(VALUE_ENTRIES_MAX) {
                if *left == 0 {
                    break;
                }
                kept.push(pruned(item, left));
            }
            Value::from(kept)
        }
        Object(members) => {
            let mut kept = BTreeMap::new();
            for (name, item) in members.iter().take(VALUE_ENTRIES_MAX).filter(|(name, _)| name.len() <= 256) {
                if *left == 0 {
                    break;
                }
                *left = left.saturating_sub(name.len());
                kept.insert(name.clone(), pruned(item, left));
            }
            Value::from(kept)
        }
        Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(float)) => Value::from(float),
            (None, None) => Value::from(number.to_string()),
        },
        Bool(truth) => Value::from(*truth),
        Null => Value::from(()),
    }
}

/// One line without the text of the template.
fn explain(error: &Error) -> String {
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    crate::escape::one_line(&format!("{}{detail}{line}", error.kind()))
}

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = TEMPLATE_OUTPUT_BYTES_MAX.saturating_sub(self.bytes.len());
        self.bytes.extend(bytes.iter().take(room));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let payload = serde_json::json!({"name": "a<b", "list": [1, 2], "big": "x".repeat(40_000), "n": 2.5});
        let context = minijinja::context! { payload => readable(&payload) };
        let got = render(text, &context, Markup::Mrkdwn).unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(got.chars().take(120).collect::<String>(), want);
    }

    #[test]
    fn values_are_escaped_and_the_text_is_not() {
        check("*{{ payload.name }}* <https://x|y>", "*a&lt;b* <https://x|y>");
        check("{{ payload.missing }}{{ payload.missing | default('-') }}", "-");
        check("{% for i in payload.list %}{{ i }};{% endfor %}{{ payload.list | join('+') }}", "1;2;1+2");
        check("{{ payload.name | urlencode }} {{ payload.list | json }} {{ payload.n }}", "a%3Cb [1,2] 2.5");
        check("{{ payload.big | length }}", "4094");
        check("{% if payload.n > 2 %}more{% else %}less{% endif %}{# a comment #}", "more");
    }

    #[test]
    fn unbounded_work_is_refused() {
        check("{% set x = 1 %}", "error: must not have the tag \"set\": only if and for are supported");
        check(
            "{%- macro x() %}{% endmacro %}",
            "error: must not have the tag \"macro\": only if and for are supported",
        );
        check("{{ 'a' * 100000000 }}", "error: must not multiply: results could grow without bound");
        check("{{ '*' }}", "*");
        let nested = "{% for a in payload.big %}{% for b in payload.big %}{{ b }}{% endfor %}{% endfor %}";
        let got = render(nested, &minijinja::context! { payload => vec![1] }, Markup::Plain);
        assert!(got.is_err() || got.is_ok_and(|text| text.len() <= TEMPLATE_OUTPUT_BYTES_MAX));
        let long = format!("{{% for a in l %}}{}{{% endfor %}}", "{{ a }}".repeat(100));
        let context = minijinja::context! { l => vec![1; 200] };
        assert!(render(&long, &context, Markup::Plain).is_err_and(|error| error.contains("fuel")));
        let grown = format!("{{{{ p{} }}}}", " | json".repeat(250));
        let context = minijinja::context! { p => "\"" };
        assert!(render(&grown, &context, Markup::Plain).is_err_and(|error| error.contains("too long")));
    }

    #[test]
    fn errors_name_the_rule_and_the_line() {
        check(
            "a\n{{ payload.name",
            "error: syntax error: unexpected end of input, expected end of variable block in line 2",
        );
        check("{{ payload.name | shout }}", "error: unknown filter: filter shout is unknown in line 1");
        check("{{ payload.missing.name }}", "error: undefined value in line 1");
        check("{{ range(3) }}", "error: unknown function: range is unknown in line 1");
    }
}
