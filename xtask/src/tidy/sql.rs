//! Rules about SQL: its place, and the twins of the two dialects.

use std::collections::BTreeSet;

use super::{Finding, Tree};

const SQLITE: &str = "crates/everhook-sqlite/";
const POSTGRES: &str = "crates/everhook-postgres/";
/// The files that both stores share.
const SHARED: &str = "crates/everhook-store/";
/// Declares the statements of the shared files; short ones are in it.
const SHARED_STATEMENTS: &str = "crates/everhook-store/src/sql/shared.rs";
/// The stores, and the outbox library, which writes to customers' databases.
const STORES: [&str; 3] = ["everhook-sqlite", "everhook-postgres", "everhook-outbox"];

/// `queries/` has the same file names in both stores, except files that say why they have no twin. Shared files have
/// none.
pub(super) fn same_queries(tree: &Tree) -> Vec<Finding> {
    let (sqlite, postgres, shared) = (queries(tree, SQLITE), queries(tree, POSTGRES), queries(tree, SHARED));
    let mut findings = Vec::new();
    for name in shared.iter().filter(|name| sqlite.contains(*name) || postgres.contains(*name)) {
        let remedy = "both stores share this file: remove the file of the same name in their own folders";
        findings.push(Finding::new(&format!("{SHARED}queries/{name}"), 1, remedy));
    }
    for (here, names, there, twins) in [(SQLITE, &sqlite, POSTGRES, &postgres), (POSTGRES, &postgres, SQLITE, &sqlite)]
    {
        for name in names.difference(twins).filter(|name| !says_why(tree, &format!("{here}queries/{name}"))) {
            let remedy =
                format!("has no twin: add {there}queries/{name}, merge the two, or say why in a line `-- No twin: …`");
            findings.push(Finding::new(&format!("{here}queries/{name}"), 1, remedy));
        }
    }
    findings
}

fn says_why(tree: &Tree, file: &str) -> bool {
    tree.iter().any(|(path, text)| path == file && text.lines().any(|line| line.starts_with("-- No twin: ")))
}

fn queries<'a>(tree: &'a Tree, store: &str) -> BTreeSet<&'a str> {
    let names = tree.iter().filter_map(|(path, _)| path.strip_prefix(store)?.strip_prefix("queries/"));
    names.filter(|name| name.ends_with(".sql")).collect()
}

/// Every `.sql` file of the stores starts with a comment.
pub(super) fn opening_comments(tree: &Tree) -> Vec<Finding> {
    let files = tree.iter().filter(|(path, _)| path.ends_with(".sql"));
    let files = files.filter(|(path, _)| [SQLITE, POSTGRES, SHARED].iter().any(|folder| path.starts_with(folder)));
    let silent = files.filter(|(_, text)| !text.starts_with("--"));
    silent.map(|(path, _)| Finding::new(path, 1, "start with a `--` comment: purpose and index")).collect()
}

/// No string in another crate's product code is a statement.
pub(super) fn only_in_stores(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let others = |path: &str, crate_name: &str| path != SHARED_STATEMENTS && !STORES.contains(&crate_name);
    for source in tree.product_sources().filter(|source| others(source.path, source.crate_name)) {
        for (number, line) in source.code_lines() {
            if strings(line).any(is_statement) {
                findings.push(Finding::new(source.path, number, "move the SQL behind the store's traits"));
            }
        }
    }
    findings
}

/// A string of one line, or the first line of a longer one.
struct Literal<'a> {
    text: &'a str,
    is_closed: bool,
}

/// The strings of a line: every second piece between its quotes.
fn strings(line: &str) -> impl Iterator<Item = Literal<'_>> {
    let quotes = line.matches('"').count();
    let pieces = line.split('"').enumerate().skip(1).step_by(2);
    pieces.map(move |(index, text)| Literal { text, is_closed: index < quotes })
}

/// Prose may also start with "update " or "select ", so the second word decides. A string over several lines is never
/// lower-case prose.
fn is_statement(literal: Literal<'_>) -> bool {
    let has = |first: &str, second: &str| {
        literal.text.strip_prefix(first).is_some_and(|rest| !literal.is_closed || rest.contains(second))
    };
    has("select ", " from ")
        || has("select ", "(")
        || has("update ", " set ")
        || has("insert ", "into ")
        || has("delete ", "from ")
}
