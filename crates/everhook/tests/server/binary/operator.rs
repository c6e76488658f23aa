//! An operator at the command line.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::binary::environment::everhook;
use crate::binary::server::Server;

/// An operator's commands, with the server's first key or another.
pub(crate) struct Operator<'a> {
    pub(crate) server: &'a Server,
    pub(crate) key: String,
}

impl<'a> Operator<'a> {
    pub(crate) fn new(server: &'a Server) -> Operator<'a> {
        Operator { server, key: server.key().to_owned() }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = everhook();
        command.args(arguments).env("EVERHOOK_URL", self.server.url()).env("EVERHOOK_KEY", &self.key);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn prints(&self, arguments: &[&str]) -> String {
        printed(arguments, self.run(arguments))
    }

    /// Runs a command with text on its stdin.
    #[track_caller]
    pub(crate) fn prints_of(&self, input: &str, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        printed(arguments, child.wait_with_output().unwrap())
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.prints(&[arguments, &["--json"]].concat())).unwrap()
    }

    #[track_caller]
    pub(crate) fn is_refused(&self, arguments: &[&str], complaint: &str) {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(complaint), "{arguments:?}: {text}");
    }
}

#[track_caller]
fn printed(arguments: &[&str], output: Output) -> String {
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Replaces ids and times by fixed ones of the same length, for snapshots.
pub(crate) fn masked(text: &str) -> String {
    const ID_CHARS: usize = 27;
    let is_word = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | ':');
    let mask = |word: &str| match word.split_once('_') {
        Some((kind, id)) if id.len() == ID_CHARS && !id.contains('_') => format!("{kind}_{}", "0".repeat(ID_CHARS)),
        _ if word.len() == 20 && word.starts_with("20") && word.ends_with('Z') => "2026-01-01T00:00:00Z".to_owned(),
        _ => word.to_owned(),
    };
    let (mut masked, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let end = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
        masked += &mask(&rest[..end]);
        let after = &rest[end..];
        let next = after.find(is_word).unwrap_or(after.len());
        masked += &after[..next];
        rest = &after[next..];
    }
    masked
}
