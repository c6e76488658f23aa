//! The files in `deploy/` fit together, and fit the product: image, compose file, chart, unit, package, monitoring.
//!
//! Tools that a machine may lack (`promtool`, `systemd-analyze`, `dpkg-deb`) are used where they are installed.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod container;
mod helm;
mod monitoring;
mod package;
mod service;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

#[track_caller]
fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[track_caller]
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Whether a program is installed; prints that a check is skipped if not.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("{program} is not installed: its check is skipped");
    }
    found
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text.into_owned()
}

/// The names of all settings, from the template.
fn settings() -> Vec<String> {
    let template = read("crates/everhook/src/config/template.toml");
    let name = |line: &str| {
        let name = line.trim_start_matches("# ").split_once(" = ")?.0.to_owned();
        name.chars().all(|char| char.is_ascii_lowercase() || char == '_').then_some(name)
    };
    template.lines().filter_map(name).collect()
}

/// Fails if a variable of a deployment is not a setting.
#[track_caller]
fn assert_setting(variable: &str) {
    let name = variable.strip_prefix("EVERHOOK_").unwrap_or_else(|| panic!("{variable}")).to_ascii_lowercase();
    assert!(settings().contains(&name), "{variable} is not a setting of Everhook");
}
