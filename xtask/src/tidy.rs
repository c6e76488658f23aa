//! `cargo xtask tidy`: rules of the tree that neither rustc nor clippy can check.
//!
//! Each rule is a pure function from the files to findings, one line each, with place and remedy. The rules are simple
//! on purpose: they look for words, not for meaning, and miss a case rather than report a false one.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::count::Counts;
use crate::workspace::Workspace;

mod boundaries;
mod limits;
mod names;
mod prose;
mod sql;
mod text;

type Rule = fn(&Tree) -> Vec<Finding>;

/// Each rule with its name: a sentence that is true of a tidy tree.
const RULES: [(&str, Rule); 15] = [
    ("both stores have the same queries", sql::same_queries),
    ("every SQL file says what it is for", sql::opening_comments),
    ("only the store crates contain SQL", sql::only_in_stores),
    ("the core is pure", boundaries::core_is_pure),
    ("only the sender opens outbound connections", boundaries::only_sender_connects),
    ("every limit is enforced", limits::every_limit_is_used),
    ("a public type has its name alone", names::unique_public_types),
    ("both stores have the same modules", names::twin_modules),
    ("every source file says what it is for", text::module_docs),
    ("comments name their subject", prose::comments_name_a_subject),
    ("prose fits into 120 columns", prose::lines_fit),
    ("nothing depends on one machine", text::machine_independent),
    ("links lead somewhere", text::links_resolve),
    ("every page is in the index", text::pages_are_indexed),
    ("unfinished work has an issue", text::unfinished_work),
];

pub(crate) fn run() -> Result<ExitCode> {
    let counts = check(&Workspace::find()?)?;
    println!("{counts}");
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks every rule and prints the findings. A rule counts as one test.
pub(crate) fn check(workspace: &Workspace) -> Result<Counts> {
    let tree = Tree::read(workspace)?;
    let mut counts = Counts::default();
    for (name, rule) in RULES {
        let findings = rule(&tree);
        if findings.is_empty() {
            counts.passed += 1;
            println!("ok    {name}");
        } else {
            counts.failed += 1;
            println!("FAIL  {name}");
        }
        for Finding { path, line, remedy } in findings {
            println!("      {path}:{line}: {remedy}");
        }
    }
    Ok(counts)
}

/// A place that breaks a rule, and the remedy.
struct Finding {
    path: String,
    line: usize,
    remedy: String,
}

impl Finding {
    fn new(path: &str, line: usize, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, remedy: remedy.into() }
    }
}

/// The files of the repository by path. A file that is not text is present, but empty.
struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads tracked and untracked files, so that a new file is checked before it is committed.
    fn read(workspace: &Workspace) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&workspace.root)
            .output()
            .context("could not run git to list the files")?;
        if !output.status.success() {
            bail!("git could not list the files: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let mut files = BTreeMap::new();
        for path in output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let path = String::from_utf8_lossy(path).into_owned();
            // A deleted file stays in git's list until the deletion is committed.
            if let Ok(bytes) = std::fs::read(workspace.root.join(&path)) {
                files.insert(path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Self { files })
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    fn is_file_or_folder(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// The Rust files of the product: `crates/*/src`, without test modules.
    fn product_sources(&self) -> impl Iterator<Item = Source<'_>> {
        self.iter().filter_map(|(path, text)| {
            let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
            let product = file.ends_with(".rs") && !is_test(file) && !TOOLS.contains(&name);
            product.then_some(Source { crate_name: name, path, text })
        })
    }
}

/// Crates that test the product from outside.
const TOOLS: [&str; 3] = ["everhook-bench", "everhook-chaos", "everhook-testkit"];

struct Source<'a> {
    crate_name: &'a str,
    path: &'a str,
    text: &'a str,
}

impl Source<'_> {
    /// Numbered lines of code, without comments and without an inline `mod tests {`.
    fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = (1..).zip(self.text.lines()).take_while(|(_, line)| !line.starts_with("mod tests {"));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// Whether a path inside `src` belongs to a test module.
fn is_test(file: &str) -> bool {
    file.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
}

#[cfg(test)]
mod tests;
