//! The configuration reference `docs/configuration.md`, made from the template.
//!
//! The template has one paragraph per topic: a comment, and the settings that it describes. A setting without a default
//! is commented out there.

use crate::config::{Kind, Settings, kind};
use crate::environment;

const HEAD: &str = "# Configuration reference

Everhook needs no configuration. This page lists every setting with its default. `everhook config reference` prints the
page, and `everhook config init` prints the same settings as a file.

| source | form | overrides |
|---|---|---|
| flag | `--listen 0.0.0.0:8071` | everything |
| variable | `EVERHOOK_LISTEN=0.0.0.0:8071`; lists with commas | the file |
| file | `everhook serve --config everhook.toml`, with `listen = \"0.0.0.0:8071\"` | the defaults |

An unknown setting in the file is an error. An unknown `EVERHOOK_*` variable is a warning. `everhook config show` prints
the values in force with their sources, `everhook config check` checks them, and `everhook doctor` also checks the
machine.
";

/// Names in a heading besides the first one.
const NAMES_BESIDE_MAX: usize = 2;
/// Settings with a flag of `everhook serve`.
const FLAGS: [&str; 6] = ["listen", "listen_ops", "public_url", "role", "data", "database"];

/// Returns the page as Markdown.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    // The first paragraph explains the file itself.
    for paragraph in paragraphs().iter().skip(1) {
        page.push_str(&section(paragraph));
    }
    page
}

/// A comment with the settings below it.
struct Paragraph {
    comment: Vec<String>,
    /// Names with defaults; none for a setting that is commented out.
    settings: Vec<(String, Option<String>)>,
    /// An example of a table.
    example: Vec<String>,
}

fn paragraphs() -> Vec<Paragraph> {
    let template = Settings::TEMPLATE.trim_end();
    template.split("\n\n").map(|text| text.lines().fold(Paragraph::new(), Paragraph::with_line)).collect()
}

impl Paragraph {
    fn new() -> Paragraph {
        Paragraph { comment: Vec::new(), settings: Vec::new(), example: Vec::new() }
    }

    fn with_line(mut self, line: &str) -> Paragraph {
        let comment = line.strip_prefix('#').map(str::trim_start);
        let setting = |text: &str| text.split_once(" = ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        match (comment, setting(comment.unwrap_or(line))) {
            (None, Some((name, value))) => self.settings.push((name, Some(value))),
            (Some(text), _) if text.starts_with("[[") || !self.example.is_empty() => self.example.push(text.to_owned()),
            (Some(_), Some((name, _))) if kind(&name).is_some() => self.settings.push((name, None)),
            (Some(text), _) => self.comment.push(text.to_owned()),
            (None, None) => {}
        }
        self
    }
}

fn section(paragraph: &Paragraph) -> String {
    let Paragraph { comment, settings, example } = paragraph;
    if let Some(table) = example.first() {
        let name = table.trim_matches(['[', ']']);
        return format!("\n## `{name}`\n\n{}\n\n```toml\n{}\n```\n", comment.join("\n"), example.join("\n"));
    }
    let names: Vec<_> = settings.iter().map(|(name, _)| format!("`{name}`")).collect();
    let heading = match names.as_slice() {
        [first, rest @ ..] if rest.len() > NAMES_BESIDE_MAX => format!("{first} and {} more", rest.len()),
        all => all.join(", "),
    };
    let mut text = format!("\n## {heading}\n\n{}\n\n", comment.join("\n"));
    text += "| setting | type | default | variable | flag |\n|---|---|---|---|---|\n";
    for (name, default) in settings {
        let default = default.as_ref().map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
        let flag =
            if FLAGS.contains(&name.as_str()) { format!("`--{}`", name.replace('_', "-")) } else { "–".to_owned() };
        let variable = format!("`{}{}`", environment::PREFIX, name.to_ascii_uppercase());
        text += &format!("| `{name}` | {} | {default} | {variable} | {flag} |\n", shown(kind(name)));
    }
    text
}

fn shown(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Text) => "text",
        Some(Kind::Secret) => "secret",
        Some(Kind::Url) => "URL",
        Some(Kind::Number) => "number",
        Some(Kind::Switch) => "true or false",
        Some(Kind::Texts) => "list of texts",
        Some(Kind::Numbers) => "list of numbers",
        Some(Kind::Tables) | None => "table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_setting_once() {
        let page = page();
        for (key, kind) in crate::config::KEYS {
            let row = format!("\n| `{key}` | ");
            let heading = format!("## `{key}`");
            let found = if *kind == Kind::Tables { page.matches(&heading).count() } else { page.matches(&row).count() };
            assert_eq!(found, 1, "{key}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 120 || line.starts_with('|')), "lines are too long");
    }

    #[test]
    fn the_committed_page_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let committed = std::fs::read_to_string(file).unwrap_or_default();
        let remedy = "run `cargo run -- config reference > docs/configuration.md` and commit it";
        assert!(committed == page(), "docs/configuration.md differs from the settings: {remedy}");
    }
}
