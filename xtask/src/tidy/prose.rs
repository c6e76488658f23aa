//! Rules about prose: a comment starts with a named thing, not with a clause, and lines end by column 120.

use super::{Finding, Tree};

/// The last column of a line.
const LINE_CHARS: usize = 120;

/// Words that start a clause where a noun is expected: "What is due" instead of "Due tasks".
const CLAUSES: [&str; 8] = ["What", "Whatever", "Which", "Whichever", "Who", "Whoever", "Whose", "That which"];

/// No comment starts with a clause.
pub(super) fn comments_name_a_subject(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut before = None;
        for (number, line) in (1..).zip(text.lines()) {
            let comment = comment(line);
            // Later lines of a block may start with any word of a sentence.
            let starts_block = before.is_none_or(str::is_empty);
            if let Some(word) = comment.filter(|_| starts_block).and_then(clause) {
                findings.push(Finding::new(path, number, format!("start with a noun instead of {word:?}")));
            }
            before = comment;
        }
    }
    findings
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

fn clause(text: &str) -> Option<&'static str> {
    CLAUSES.into_iter().find(|word| text.strip_prefix(word).is_some_and(|rest| rest.starts_with(' ')))
}

/// Comments of Rust and SQL and the pages end by column 120. Tables and examples of pages may be wider.
pub(super) fn lines_fit(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter() {
        let mut in_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            let start = line.trim_start();
            let is_prose = match path.rsplit_once('.') {
                Some((_, "rs")) => start.starts_with("//"),
                Some((_, "sql")) => start.starts_with("--"),
                Some((_, "md")) => {
                    in_code ^= start.starts_with("```");
                    !in_code && !start.starts_with('|')
                }
                _ => false,
            };
            if is_prose && line.chars().count() > LINE_CHARS {
                findings.push(Finding::new(path, number, "break the line before column 120"));
            }
        }
    }
    findings
}
