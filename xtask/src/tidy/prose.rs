//! The rule about comments: a sentence starts with a named thing, not with a clause.
//!
//! The rule covers the crates of `CLEAN`. A crate joins the list when its comments pass.

use super::{Finding, Tree};

/// Folders whose comments pass.
const CLEAN: [&str; 17] = [
    "crates/everhook-api/",
    "crates/everhook-bench/",
    "crates/everhook-chaos/",
    "crates/everhook-chat/",
    "crates/everhook-core/",
    "crates/everhook-engine/",
    "crates/everhook-outbox/",
    "crates/everhook-postgres/",
    "crates/everhook-sender/",
    "crates/everhook-sim/",
    "crates/everhook-sqlite/",
    "crates/everhook-store/",
    "crates/everhook-testkit/",
    "crates/everhook-tests/",
    "crates/everhook-worker/",
    "crates/everhook/",
    "xtask/",
];

/// Words that start a clause where a noun is expected: "What is due" instead of "Due tasks".
const CLAUSES: [&str; 8] = ["What", "Whatever", "Which", "Whichever", "Who", "Whoever", "Whose", "That which"];

/// No comment in the clean crates starts with a clause.
pub(super) fn comments_name_a_subject(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_clean = |path: &str| path.ends_with(".rs") && CLEAN.iter().any(|folder| path.starts_with(folder));
    for (path, text) in tree.iter().filter(|(path, _)| is_clean(path)) {
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
