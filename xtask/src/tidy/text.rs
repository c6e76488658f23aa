//! Rules about text: documents, comments, and words that must not appear.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::{Finding, Tree};

/// Starts of paths that exist on one machine only. Written in two halves, or this file would be a finding.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

/// Settings that point a package manager to a private source.
const MIRROR_SETTINGS: [&str; 4] = [
    concat!("replace", "-with ="),
    concat!("index", "-url"),
    concat!("npm_config", "_registry"),
    concat!("_auth", "Token"),
];

/// Allowed sources of locked packages.
const PUBLIC_SOURCES: [&str; 2] = [
    "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
    "\"resolved\": \"https://registry.npmjs.org/",
];

const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Every file in `crates/*/src` starts with `//!`, except tests.
pub(super) fn module_docs(tree: &Tree) -> Vec<Finding> {
    let silent = tree.product_sources().filter(|source| !source.text.starts_with("//!"));
    silent
        .map(|source| {
            Finding::new(source.path, 1, "start with `//!`: what the module does and refuses, and its callers")
        })
        .collect()
}

/// No file contains a path of one machine or a private package source.
pub(super) fn machine_independent(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter() {
        for (number, line) in (1..).zip(text.lines()) {
            if MACHINE_PATHS.iter().any(|start| begins_a_path(line, start)) {
                findings.push(Finding::new(path, number, "contains a path of one machine: make it relative"));
            }
            if MIRROR_SETTINGS.iter().any(|setting| line.contains(setting)) || is_private_source(path, line) {
                findings.push(Finding::new(path, number, "contains a private package source: use the public one"));
            }
        }
    }
    findings
}

/// Whether `start` occurs at the start of a path, not inside a longer path or URL.
fn begins_a_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"/.-_~*}>".contains(before))
    })
}

fn is_private_source(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    let locked = path.ends_with(".lock") || path.ends_with("package-lock.json");
    let names_source = line.starts_with("source = ") || line.starts_with("\"resolved\": \"http");
    locked && names_source && !PUBLIC_SOURCES.iter().any(|source| line.starts_with(source))
}

/// Every relative link in a Markdown file leads to a file or folder of the repository.
pub(super) fn links_resolve(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".md")) {
        let mut in_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            in_code ^= line.trim_start().starts_with("```");
            for target in links(line).filter(|_| !in_code) {
                if !tree.is_file_or_folder(&resolve(path, target)) {
                    findings.push(Finding::new(path, number, format!("the target of link {target} does not exist")));
                }
            }
        }
    }
    findings
}

/// `docs/README.md` has a link to every page beside it.
pub(super) fn pages_are_indexed(tree: &Tree) -> Vec<Finding> {
    const INDEX: &str = "docs/README.md";
    let index = tree.text(INDEX);
    let linked: BTreeSet<_> = index.lines().flat_map(links).map(|target| resolve(INDEX, target)).collect();
    let is_page = |path: &str| {
        let name = path.strip_prefix("docs/").filter(|name| name.ends_with(".md") && !name.contains('/'));
        name.is_some() && path != INDEX
    };
    let missing = tree.iter().map(|(path, _)| path).filter(|path| is_page(path) && !linked.contains(*path));
    missing.map(|path| Finding::new(path, 1, format!("is not in the index: add it to {INDEX}"))).collect()
}

/// The targets of `[text](target)` that point into the repository, without anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    // Every second piece between backticks is code.
    let prose = line.split('`').step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#'))
        .map(|target| target.split(['#', ' ']).next().unwrap_or_default())
}

/// Returns a link's target as a path from the repository root.
fn resolve(from: &str, target: &str) -> String {
    let base = if target.starts_with('/') { Path::new("") } else { Path::new(from).parent().unwrap_or(Path::new("")) };
    let mut parts: Vec<String> = Vec::new();
    for component in base.components().chain(Path::new(target).components()) {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::ParentDir => {
                // A path above the root keeps its dots, which match no file.
                if parts.pop().is_none() {
                    parts.push("..".to_owned());
                }
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    parts.join("/")
}

/// A note about unfinished work names its issue, and a merge leaves no markers behind.
pub(super) fn unfinished_work(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| !path.ends_with(".lock")) {
        for (number, line) in (1..).zip(text.lines()) {
            if UNFINISHED.iter().any(|word| notes_without_issue(line, word)) {
                let remedy = format!("finish it, or open an issue and write {}(#12)", UNFINISHED[0]);
                findings.push(Finding::new(path, number, remedy));
            }
            if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
                findings.push(Finding::new(path, number, "resolve the conflict of the merge"));
            }
        }
    }
    findings
}

fn notes_without_issue(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_part = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let whole = !is_part(before.chars().next_back()) && !is_part(after.chars().next());
        let issue = after.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
        whole && issue.is_none_or(|(number, _)| number.parse::<u32>().is_err())
    })
}
