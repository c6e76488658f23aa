//! Text without characters that control a terminal.
//!
//! Names, errors and payloads come from untrusted parties, and reach an operator's terminal or log. All output of this
//! program passes through here: `cli::print`, the error of `main`, and each log line. The escapes are those of JSON
//! (`\u001b`), so that JSON stays valid.

use std::borrow::Cow;
use std::io;

use tracing_subscriber::fmt::MakeWriter;

/// Escapes a text for a terminal, but keeps its line breaks.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    escape(text, |char| char != '\n' && steers(char))
}

/// Escapes a text for one line: a cell of a table, or a log line.
pub(crate) fn plain_line(text: &str) -> Cow<'_, str> {
    escape(text, steers)
}

/// Control characters (C0, DEL, C1), line separators, and marks that change the text direction.
fn steers(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            char if is_bad(char) => escaped += &format!("\\u{:04x}", u32::from(char)),
            char => escaped.push(char),
        }
    }
    Cow::Owned(escaped)
}

/// A log writer that escapes its lines.
pub(crate) struct PlainLog<M>(pub(crate) M);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for PlainLog<M> {
    type Writer = PlainLines<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        PlainLines(self.0.make_writer())
    }
}

/// Expects one call per line, as the subscriber makes them.
pub(crate) struct PlainLines<W>(W);

impl<W: io::Write> io::Write for PlainLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        match text.strip_suffix('\n') {
            Some(text) => self.0.write_all(format!("{}\n", plain_line(text)).as_bytes())?,
            None => self.0.write_all(plain_line(&text).as_bytes())?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn characters_that_steer_a_terminal_are_escaped() {
        assert_eq!(plain("a\u{1b}[2Jb\r\u{7}\u{7f}\u{9b}c"), "a\\u001b[2Jb\\u000d\\u0007\\u007f\\u009bc");
        assert_eq!(plain("user\u{202e}txt\u{2066}\u{200f}"), "user\\u202etxt\\u2066\\u200f");
        assert_eq!(plain("two\nlines, ünïcode ✓"), "two\nlines, ünïcode ✓");
        assert_eq!(plain_line("two\nlines"), "two\\u000alines");
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({ "name": "a\u{1b}\u{7f}\u{9b}\u{202e}\n" });
        let shown = format!("{value:#}");
        let printed = plain(&shown);
        assert!(!printed.chars().any(|char| char != '\n' && steers(char)), "{printed:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }

    #[test]
    fn a_line_of_a_log_stays_one_line() {
        let mut written = Vec::new();
        PlainLines(&mut written).write_all("node=\u{1b}[1m\nforged line\n".as_bytes()).unwrap();
        assert_eq!(written, b"node=\\u001b[1m\\u000aforged line\n");
    }
}
