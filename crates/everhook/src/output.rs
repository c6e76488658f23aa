//! Answers of commands: tables and text for people, JSON and CSV for programs.
//!
//! Every command that shows data returns an [`Answer`], so that all of them have the same formats. Cells may contain
//! text of customers. It is escaped here, before colours are added.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::cli;
use crate::environment;
use crate::plain::{plain, plain_line};
use crate::remote::Found;
use crate::table::{flat, one_line};

/// Flags of the output format.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct FormatArgs {
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    /// Print CSV with a header line instead of text.
    #[arg(long, global = true, conflicts_with = "json", help_heading = "Output")]
    csv: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
    Csv,
}

impl FormatArgs {
    pub(crate) fn format(self) -> Format {
        match (self.json, self.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Text,
        }
    }

    pub(crate) fn is_given(self) -> bool {
        self.json || self.csv
    }
}

/// The answer of a command, in every format.
#[derive(Debug)]
pub(crate) struct Answer {
    data: Value,
    shown: Shown,
    /// Remark for people, on stderr.
    note: Option<String>,
}

#[derive(Debug)]
enum Shown {
    List(Table),
    Parts(Vec<Part>),
}

/// A part of an answer about one object.
#[derive(Debug)]
pub(crate) enum Part {
    Line(String),
    /// Names with values. Empty values are omitted.
    Facts(Vec<(&'static str, String)>),
    /// A table with the heading of its first column. An empty table is omitted.
    Table(Table),
}

/// Rows under their headings. An empty cell stands for a missing value.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<T, const N: usize>(
        heads: [&'static str; N],
        items: impl IntoIterator<Item = T>,
        row: impl Fn(T) -> [String; N],
    ) -> Table {
        Table { heads: heads.to_vec(), rows: items.into_iter().map(|item| row(item).into()).collect() }
    }
}

impl Answer {
    /// A list of objects with one row each.
    pub(crate) fn list<const N: usize>(
        items: Vec<Value>,
        heads: [&'static str; N],
        row: impl Fn(&Value) -> [String; N],
    ) -> Answer {
        let table = Table::new(heads, &items, row);
        Answer { data: Value::from(items), shown: Shown::List(table), note: None }
    }

    /// The beginning of a list of objects, with a remark if it was cut.
    pub(crate) fn found<const N: usize>(
        found: Found,
        heads: [&'static str; N],
        row: impl Fn(&Value) -> [String; N],
    ) -> Answer {
        Answer::list(found.items, heads, row).note_if(found.more, "there are more: raise --limit to see them")
    }

    /// One object. Parts are separated by empty lines.
    pub(crate) fn object(data: Value, parts: Vec<Part>) -> Answer {
        Answer { data, shown: Shown::Parts(parts), note: None }
    }

    /// One line for people, and the data that it describes.
    pub(crate) fn line(data: Value, text: impl Into<String>) -> Answer {
        Answer::object(data, vec![Part::Line(text.into())])
    }

    /// Names with their values.
    pub(crate) fn facts(data: Value, facts: Vec<(&'static str, String)>) -> Answer {
        Answer::object(data, vec![Part::Facts(facts)])
    }

    /// Adds a remark for people if `condition` holds.
    pub(crate) fn note_if(mut self, condition: bool, note: &str) -> Answer {
        self.note = condition.then(|| note.to_owned());
        self
    }

    /// Adds a remark for people to an empty list: that nothing was found, and the next step.
    pub(crate) fn if_empty(mut self, note: &str) -> Answer {
        if matches!(&self.shown, Shown::List(table) if table.rows.is_empty()) {
            self.note = Some(note.to_owned());
        }
        self
    }

    /// Writes the answer to stdout.
    pub(crate) fn print(&self, format: Format) -> anyhow::Result<()> {
        let paint = Paint { is_on: format == Format::Text && wants_colour() };
        write_out(&self.render(format, paint))?;
        if let (Format::Text, Some(note)) = (format, &self.note) {
            cli::note(note);
        }
        Ok(())
    }

    fn render(&self, format: Format, paint: Paint) -> String {
        match (format, &self.shown) {
            (Format::Json, _) => plain(&format!("{:#}\n", self.data)).into_owned(),
            (Format::Csv, Shown::List(table)) => {
                let heads = table.heads.iter().map(|head| head.to_lowercase().replace([' ', '/'], "_"));
                csv(std::iter::once(heads.collect()).chain(table.rows.iter().cloned()))
            }
            (Format::Csv, Shown::Parts(_)) => csv(fields(&self.data)),
            (Format::Text, Shown::List(table)) => render_table(table, paint),
            (Format::Text, Shown::Parts(parts)) => {
                let parts = parts.iter().map(|part| render_part(part, paint)).filter(|part| !part.is_empty());
                parts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// Writes to stdout text that is already escaped. A closed pipe is no error: its reader may stop at any time.
pub(crate) fn write_out(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("could not write to stdout"),
        _ => Ok(()),
    }
}

/// Whether stdout is a terminal whose user has not switched colours off.
pub(crate) fn wants_colour() -> bool {
    std::io::stdout().is_terminal() && !environment::is_colour_off()
}

/// Adds colours to text that is already escaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) is_on: bool,
}

impl Paint {
    const BOLD: &str = "1";
    const GREEN: &str = "32";
    const RED: &str = "31";
    const YELLOW: &str = "33";

    fn style(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Colours a state by its first word.
    pub(crate) fn state(self, text: &str) -> String {
        const GOOD: [&str; 10] =
            ["success", "succeeded", "active", "open", "reachable", "enabled", "ready", "won", "verified", "completed"];
        const BAD: [&str; 11] = [
            "fail",
            "failed",
            "dead",
            "unreachable",
            "disabled",
            "stopped",
            "expired",
            "revoked",
            "refused",
            "rejected",
            "closed",
        ];
        const BETWEEN: [&str; 7] = ["pending", "sending", "leased", "paused", "cancelled", "canceled", "archived"];
        let word = text.split([' ', ',', ':']).next().unwrap_or_default();
        match word {
            word if GOOD.contains(&word) => self.style(Paint::GREEN, text),
            word if BAD.contains(&word) => self.style(Paint::RED, text),
            word if BETWEEN.contains(&word) => self.style(Paint::YELLOW, text),
            _ => text.to_owned(),
        }
    }
}

fn render_part(part: &Part, paint: Paint) -> String {
    match part {
        Part::Line(text) => format!("{}\n", plain(text)),
        Part::Facts(facts) => {
            let given = facts.iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>();
            let width = given.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
            given.iter().fold(String::new(), |mut text, (name, value)| {
                let shown = plain_line(&flat(value)).into_owned();
                let shown = if is_state(name) { paint.state(&shown) } else { shown };
                let _ = writeln!(text, "{name:<width$}  {shown}");
                text
            })
        }
        Part::Table(table) if table.rows.is_empty() => String::new(),
        Part::Table(table) => render_table(table, paint),
    }
}

fn render_table(table: &Table, paint: Paint) -> String {
    let cell = |text: &String| if text.is_empty() { "-".to_owned() } else { plain_line(&one_line(text)).into_owned() };
    let rows = table.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>()).collect::<Vec<_>>();
    let mut widths = table.heads.iter().map(|head| head.chars().count()).collect::<Vec<_>>();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let last = widths.len().saturating_sub(1);
    let line = |cells: Vec<String>, styled: &dyn Fn(usize, &str) -> String| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            // Padding follows the colour codes, which have no width. The last column needs none.
            let padding = if column == last { 0 } else { width - cell.chars().count() };
            format!("{}{}", styled(column, cell), " ".repeat(padding))
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let heads = table.heads.iter().map(|head| (*head).to_owned()).collect();
    let mut text = line(heads, &|_, head| paint.style(Paint::BOLD, head));
    for row in rows {
        text += &line(row, &|column, cell| if is_state(table.heads[column]) { paint.state(cell) } else { cell.into() });
    }
    text
}

fn is_state(name: &str) -> bool {
    ["state", "status", "then", "signature"].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the fields of objects as a header line and one row each. Nested values become JSON text.
fn fields(data: &Value) -> Vec<Vec<String>> {
    let shown = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match data {
        Value::Object(fields) => vec![fields.keys().cloned().collect(), fields.values().map(shown).collect()],
        Value::Array(items) => {
            let heads: Vec<String> =
                items.first().and_then(Value::as_object).into_iter().flat_map(|first| first.keys().cloned()).collect();
            let rows: Vec<_> = items.iter().map(|item| heads.iter().map(|head| shown(&item[head])).collect()).collect();
            std::iter::once(heads.clone()).chain(rows).collect()
        }
        other => vec![vec!["value".to_owned()], vec![shown(other)]],
    }
}

/// Formats rows as RFC 4180 describes it, but with bare line feeds.
pub(crate) fn csv(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let quoted = |cell: &String| {
        let cell = plain(cell);
        if cell.contains(['"', ',', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into_owned() }
    };
    rows.into_iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::cell;

    fn answer() -> Answer {
        let items =
            vec![json!({ "name": "a,\"b\"", "state": "dead" }), json!({ "name": "\u{1b}[2J", "state": "open" })];
        let row = |item: &Value| [cell(item, "name"), cell(item, "missing"), cell(item, "state")];
        Answer::list(items, ["NAME", "OLDEST DUE", "STATE"], row)
    }

    #[test]
    fn a_list_has_every_format() {
        let plainly = Paint { is_on: false };
        insta::assert_snapshot!(answer().render(Format::Text, plainly), @r#"
        NAME   OLDEST DUE  STATE
        a,"b"  -           dead
         [2J   -           open
        "#);
        insta::assert_snapshot!(answer().render(Format::Csv, plainly), @r#"
        name,oldest_due,state
        "a,""b""",,dead
        \u001b[2J,,open
        "#);
        let json: Value = serde_json::from_str(&answer().render(Format::Json, plainly)).unwrap();
        assert_eq!(json[1], json!({ "name": "\u{1b}[2J", "state": "open" }));
    }

    #[test]
    fn only_an_empty_list_has_a_remark_about_it() {
        let row = |item: &Value| [cell(item, "name")];
        let empty = Answer::list(Vec::new(), ["NAME"], row).note_if(false, "more").if_empty("no names");
        assert_eq!(empty.note.as_deref(), Some("no names"));
        assert_eq!(answer().note_if(true, "more").if_empty("no names").note.as_deref(), Some("more"));
    }

    #[test]
    fn colours_mark_heads_and_states_and_customers_cannot_add_any() {
        let text = answer().render(Format::Text, Paint { is_on: true });
        assert!(text.contains("\u{1b}[1mNAME\u{1b}[0m") && text.contains("\u{1b}[31mdead\u{1b}[0m"), "{text:?}");
        assert!(!text.contains("\u{1b}[2J"), "{text:?}");
    }

    #[test]
    fn an_object_is_facts_for_people_and_fields_for_programs() {
        let data = json!({ "id": "q", "tags": ["a", "b"], "uid": null });
        let facts = vec![("id", "q".to_owned()), ("uid", String::new()), ("the tags", "a,b".to_owned())];
        let answer = Answer::facts(data, facts);
        let plainly = Paint { is_on: false };
        assert_eq!(answer.render(Format::Text, plainly), "id        q\nthe tags  a,b\n");
        assert_eq!(answer.render(Format::Csv, plainly), "id,tags,uid\nq,\"[\"\"a\"\",\"\"b\"\"]\",\n");
    }
}
