//! Rules about dependencies: the absences that make the architecture.

use super::{Finding, Source, Tree};

const CORE: &str = "everhook-core";
const SENDER: &str = "everhook-sender";

/// Crates that do I/O, tell the time or draw randomness.
const IMPURE_CRATES: [&str; 7] =
    ["tokio", "tokio-util", "rusqlite", "tokio-postgres", "deadpool-postgres", "hyper", "getrandom"];

/// Words of the standard library that do the same.
const IMPURE_WORDS: [&str; 8] =
    ["SystemTime", "Instant::now", "Timestamp::now", "std::env", "std::fs", "std::net", "std::process", "std::thread"];

/// Words that open an outbound connection.
const OUTBOUND_WORDS: [&str; 6] =
    ["TcpStream::connect", "TcpSocket::", "UdpSocket::", "hyper::client", "hyper_util::client", "reqwest::"];

/// The core does no I/O, reads no clock and draws no randomness.
pub(super) fn core_is_pure(tree: &Tree) -> Vec<Finding> {
    let manifest = format!("crates/{CORE}/Cargo.toml");
    let dependencies = dependencies(tree.text(&manifest)).into_iter();
    let mut findings: Vec<_> = dependencies
        .filter(|(_, name)| IMPURE_CRATES.contains(name))
        .map(|(line, name)| {
            Finding::new(&manifest, line, format!("the core must not depend on {name}: pass the values in"))
        })
        .collect();
    for source in tree.product_sources().filter(|source| source.crate_name == CORE) {
        for (number, line) in source.code_lines() {
            if let Some(word) = IMPURE_WORDS.iter().find(|word| line.contains(**word)) {
                let remedy = format!("the core must not use {word}: take the value as an argument");
                findings.push(Finding::new(source.path, number, remedy));
            }
        }
    }
    findings
}

/// Files outside the sender that may connect, with their reasons.
const CONNECT_ALLOWED: [(&str, &str); 1] = [(
    "crates/everhook/src/http_client.rs",
    "commands and the trace export connect only to addresses that the operator chooses",
)];

/// Only the sender opens outbound connections, so only the sender has to guard them.
pub(super) fn only_sender_connects(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_allowed = |path: &str| CONNECT_ALLOWED.iter().any(|(allowed, _)| *allowed == path);
    let guarded = |source: &Source<'_>| source.crate_name != SENDER && !is_allowed(source.path);
    for source in tree.product_sources().filter(guarded) {
        for (number, line) in source.code_lines() {
            if let Some(word) = OUTBOUND_WORDS.iter().find(|word| line.contains(**word)) {
                let remedy = format!("{word} bypasses the guard: send through everhook-sender");
                findings.push(Finding::new(source.path, number, remedy));
            }
        }
    }
    findings
}

/// The names under `[dependencies]` and `[build-dependencies]`, with their lines. Test dependencies are free.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(manifest.lines()) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            inside = table == "dependencies" || table == "build-dependencies";
            found.extend(table.strip_prefix("dependencies.").map(|name| (number, name)));
        } else if inside {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.push((number, name));
        }
    }
    found
}
