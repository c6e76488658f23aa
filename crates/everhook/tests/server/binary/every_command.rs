//! Every command runs against a real server on both stores.
//!
//! `every_command.txt` lists the commands in an order in which each has something to do. `name <- command` keeps the
//! first word that the command prints, and `name /pointer <- command` a part of its JSON; `$name` stands for it later.
//! `until` repeats a command until it prints this part. `!` marks a request that the server refuses. `@` marks a
//! command that opens the store itself.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::Value;

use crate::binary::environment::everhook;
use crate::binary::operator::Operator;
use crate::binary::server::{Backend, Server, on_both_stores};

const SCENARIO: &str = include_str!("every_command.txt");

/// Commands that the scenario leaves out, each with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("backup", "backup.rs; of the embedded store"),
    ("completions", "prints a text"),
    ("context-add", "changes a file of the user"),
    ("context-list", "reads a file of the user"),
    ("context-remove", "changes a file of the user"),
    ("context-use", "changes a file of the user"),
    ("copy", "copy.rs; from one store to the other"),
    ("import-svix", "import.rs; needs another product"),
    ("listen", "first_steps.rs; runs until it is stopped"),
    ("man", "writes the pages that this test reads"),
    ("outbox-grant", "outbox_elsewhere.rs; needs an outbox"),
    ("outbox-install", "outbox_elsewhere.rs; needs an outbox"),
    ("restore", "backup.rs; of the embedded store"),
    ("secrets-rotate", "secrets.rs; needs keys"),
    ("serve", "every test here"),
    ("verify", "first_steps.rs; reads a request from a file"),
];

on_both_stores! {
    every_command_works_with_a_real_server,
}

fn every_command_works_with_a_real_server(backend: Arc<Backend>) {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("pages");
    std::fs::create_dir(&pages).unwrap();
    let output = everhook().args(["man", "--folder", pages.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let commands = commands(&pages);
    backend.run(&["migrate"]);
    let (server, receiver) = (Server::start(&backend, &[("RETRY_SCHEDULE", "0")]), Receiver::start());
    receiver.answer_others(Answer::status(200));
    receiver.answer("/bad", Answer::status(500));
    let operator = Operator { server: &server, key: backend.run(&["key", "create", "--admin"]).trim().to_owned() };
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        (name.to_owned(), file.to_str().unwrap().to_owned())
    };
    let webhook = r#"{"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "webhooks": {"invoice.sent": {"post": {"description": "It was sent", "responses": {}}}}}"#;
    let mut names: BTreeMap<String, String> = [
        ("url".to_owned(), server.url()),
        ("ok".to_owned(), receiver.url("/ok")),
        ("bad".to_owned(), receiver.url("/bad")),
        file("empty", "{}"),
        file("secret", "xoxb-1"),
        file("schema", r#"{"type": "object", "examples": [{"a": 1}]}"#),
        file("environment", r#"{"eventTypes": []}"#),
        file("openapi", webhook),
        file("messages", "{\"eventType\": \"a\", \"payload\": {}}\n"),
        file("jobs", "{\"queue\": \"q\", \"kind\": \"k\"}\n"),
    ]
    .into();
    let mut seen: BTreeSet<String> = ["migrate".to_owned()].into();
    for line in SCENARIO.lines().filter(|line| !line.starts_with('#')) {
        let step = Step::read(line, &names);
        seen.insert(step.command(&commands));
        let run = || step.run(&backend, &operator);
        let found = if step.repeats { Some(until(line, || step.part(&run()))) } else { step.check(line, &run()) };
        if let Some(name) = &step.name {
            names.insert(name.clone(), found.unwrap_or_else(|| panic!("{line} prints no {name}")));
        }
    }
    let without: BTreeSet<String> = WITHOUT.iter().map(|(command, _)| (*command).to_owned()).collect();
    let missing: Vec<&String> = commands.iter().filter(|at| !seen.contains(*at) && !without.contains(*at)).collect();
    assert!(missing.is_empty(), "not run with a server: {missing:?}: add them to every_command.txt");
    let stale: Vec<&String> = without.iter().filter(|at| seen.contains(*at) || !commands.contains(*at)).collect();
    assert!(stale.is_empty(), "these are run or unknown, and need no reason: {stale:?}");
}

/// The commands without commands below them, such as `app-create`, as the manual pages name them.
fn commands(pages: &std::path::Path) -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    for page in std::fs::read_dir(pages).unwrap() {
        let page = page.unwrap();
        let name = page.file_name().into_string().unwrap();
        let name = name.trim_end_matches(".1").trim_start_matches("everhook-").to_owned();
        if !std::fs::read_to_string(page.path()).unwrap().contains("SUBCOMMANDS") {
            commands.insert(name);
        }
    }
    assert!(commands.len() > 150, "{commands:?}");
    commands
}

/// A line of the scenario.
struct Step {
    name: Option<String>,
    pointer: Option<String>,
    words: Vec<String>,
    repeats: bool,
    is_refused: bool,
    opens_store: bool,
}

impl Step {
    fn read(line: &str, names: &BTreeMap<String, String>) -> Step {
        let (is_refused, line) = line.strip_prefix("! ").map_or((false, line), |line| (true, line));
        let (opens_store, line) = line.strip_prefix("@ ").map_or((false, line), |line| (true, line));
        let (repeats, line) = line.strip_prefix("until ").map_or((false, line), |line| (true, line));
        let (kept, line) = line.split_once(" <- ").map_or((None, line), |(kept, line)| (Some(kept), line));
        let mut kept = kept.into_iter().flat_map(|kept| kept.split(' ')).map(str::to_owned);
        let word = |word: &str| {
            // Longer names first: one may begin with another.
            let named = names.iter().rev();
            named.fold(word.to_owned(), |word, (name, text)| word.replace(&format!("${name}"), text))
        };
        let words = line.split(' ').map(word).collect();
        Step { name: kept.next(), pointer: kept.next(), words, repeats, is_refused, opens_store }
    }

    /// The name of the command: the longest one that the words begin with.
    fn command(&self, commands: &BTreeSet<String>) -> String {
        let lengths = (1..=self.words.len()).rev();
        let mut names = lengths.map(|length| self.words[..length].join("-"));
        names.find(|name| commands.contains(name)).unwrap_or_else(|| panic!("no such command: {:?}", self.words))
    }

    fn run(&self, backend: &Backend, operator: &Operator<'_>) -> Output {
        let mut words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        words.extend(self.pointer.as_ref().map(|_| "--json"));
        if self.opens_store { backend.try_run(&words) } else { operator.run(&words) }
    }

    /// The part of the output that is kept.
    fn part(&self, output: &Output) -> Option<String> {
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(pointer) = &self.pointer else { return text.split_whitespace().next().map(str::to_owned) };
        let json: Value = serde_json::from_str(&text).ok()?;
        json.pointer(pointer)?.as_str().map(str::to_owned)
    }

    #[track_caller]
    fn check(&self, line: &str, output: &Output) -> Option<String> {
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(!output.status.success(), self.is_refused, "{line}: {complaint}");
        assert_ne!(output.status.code(), Some(2), "{line} is no request: {complaint}");
        self.part(output)
    }
}
