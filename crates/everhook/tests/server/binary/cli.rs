//! The command line: output, refusals and their texts.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::binary::environment::{everhook, python, repository};
use crate::binary::operator::Operator;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    migrate_can_be_repeated,
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    everhook().args(arguments).envs(variables.iter().copied()).current_dir(folder.path()).output().unwrap()
}

#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output = run(arguments, &[]);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that the command fails with a text that contains all of `wanted`.
#[track_caller]
fn is_refused(arguments: &[&str], variables: &[(&str, &str)], wanted: &[&str]) {
    let output = run(arguments, variables);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?} {variables:?} was taken");
    assert!(output.stdout.is_empty() && !complaint.contains("panicked"), "{complaint}");
    for text in wanted {
        assert!(complaint.contains(text), "{complaint}");
    }
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(prints(&["--version"]), format!("everhook {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn flags_without_effect_are_refused() {
    for command in [&["job", "list"][..], &["node", "list"], &["outbox", "status"], &["once", "list", "acme"]] {
        for flag in [["--data", "d"], ["--database", "postgres://db/x"], ["--config", "c.toml"]] {
            is_refused(&[command, &flag[..]].concat(), &[], &[&format!("unexpected argument '{}'", flag[0])]);
            assert!(!prints(&[command, &["--help"]].concat()).contains(flag[0]), "{command:?}");
        }
    }
    is_refused(&["config", "init", "--data", "d"], &[], &["unexpected argument '--data'"]);
    is_refused(&["outbox", "install", "--sqlite", "f", "--data", "d"], &[], &["unexpected argument '--data'"]);
    is_refused(
        &["outbox", "install", "--sqlite", "f", "--database", "postgres://db/x"],
        &[],
        &["'--sqlite <FILE>' cannot be used with '--database <URL>'"],
    );
    is_refused(&["outbox", "install", "--sqlite", "f", "--url", "http://a"], &[], &["have no effect here"]);
    is_refused(&["serve", "--url", "http://a"], &[], &["unexpected argument '--url'"]);
    is_refused(&["job", "list", "--json", "--csv"], &[], &["cannot be used with"]);
    is_refused(&["job", "list", "--url", "http://a", "--context", "b"], &[], &["cannot be used with"]);
    is_refused(&["job", "redrive", "--all", "--queue", "q"], &[], &["--all conflicts with filters"]);
    let ping = ["schedule", "create", "ping", "--cron", "@hourly", "--application", "acme", "--event-type", "ping"];
    is_refused(&[&ping[..], &["--priority", "1"]].concat(), &[], &["no effect on a message"]);
}

#[test]
fn exit_codes_tell_failures_apart() {
    let exit = |arguments: &[&str], variables: &[(&str, &str)]| run(arguments, variables).status.code();
    let nobody = [("EVERHOOK_URL", "http://127.0.0.1:1")];
    assert_eq!(exit(&["config", "check"], &[]), Some(0));
    assert_eq!(exit(&["config", "check"], &[("EVERHOOK_LISTEN", "nonsense")]), Some(1));
    assert_eq!(exit(&["nonsense"], &[]), Some(2));
    assert_eq!(exit(&["job", "show", "a b"], &nobody), Some(2));
    assert_eq!(exit(&["queue", "delete", "email"], &nobody), Some(2), "not confirmed");
    assert_eq!(exit(&["queue", "list", "--context", "nowhere"], &[]), Some(3));
    assert_eq!(exit(&["queue", "delete", "email", "--yes"], &nobody), Some(5));
    let server = Server::start(&Backend::sqlite(), &[]);
    let (url, key) = (server.url(), server.key());
    let with = |key: &str, arguments: &[&str]| exit(&[arguments, &["--url", &url, "--key", key]].concat(), &[]);
    assert_eq!(with(key, &["queue", "list"]), Some(0));
    assert_eq!(with(key, &["queue", "show", "nowhere"]), Some(3));
    assert_eq!(with("ehk_wrong", &["queue", "list"]), Some(4));
    assert_eq!(with(key, &["node", "list"]), Some(4), "it needs an admin key");
    assert_eq!(with(key, &["job", "enqueue", "email", "k", "--priority", "10"]), Some(1));
    assert!(prints(&["--help"]).contains("Exit codes:"));
}

/// Runs a command on a terminal of its own that types `input`, and returns the exit code with the screen.
fn on_a_terminal(command: &Command, input: &str) -> (Option<i32>, String) {
    const SPAWN: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut terminal = Command::new(python());
    terminal.args(["-c", SPAWN]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    let terminal = terminal.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = terminal.spawn().unwrap();
    let mut typed = child.stdin.take().unwrap();
    typed.write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(typed);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_terminal_gets_colours_and_is_asked_before_something_is_destroyed() {
    let server = Server::start(&Backend::sqlite(), &[]);
    let operator = Operator::new(&server);
    operator.prints(&["app", "create", "Acme", "--uid", "acme"]);
    let (exit, screen) = on_a_terminal(&operator.command(&["app", "list"]), "");
    assert!(exit == Some(0) && screen.contains("\u{1b}[1mNAME\u{1b}[0m"), "{screen:?}");
    let (_, screen) = on_a_terminal(operator.command(&["app", "list"]).env("NO_COLOR", "1"), "");
    assert!(screen.contains("NAME") && !screen.contains('\u{1b}'), "{screen:?}");
    let (exit, screen) = on_a_terminal(&operator.command(&["app", "delete", "acme"]), "no\n");
    assert!(exit == Some(1) && screen.contains("Type yes to continue"), "{screen:?}");
    operator.prints(&["app", "show", "acme"]);
    let (exit, screen) = on_a_terminal(&operator.command(&["app", "delete", "acme"]), "yes\n");
    assert!(exit == Some(0) && screen.contains("deleted acme"), "{screen:?}");
}

#[test]
fn contexts_choose_the_server_and_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&Backend::sqlite(), &[]);
    let run = |arguments: &[&str]| {
        let mut command = everhook();
        command.args(arguments).env("XDG_CONFIG_HOME", folder.path()).output().unwrap()
    };
    let prints = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (url, key) = (server.url(), server.key());
    assert_eq!(prints(&["context", "list", "--json"]), "[]\n");
    let added = prints(&["context", "add", "here", "--url", &url, "--key", key]);
    assert_eq!(added, "added here: it is the current context\n");
    assert_eq!(prints(&["context", "add", "prod", "--url", &url, "--key", key, "--protected"]), "added prod\n");
    assert_eq!(prints(&["queue", "list", "--json"]), "[]\n");
    let list = prints(&["context", "list", "--csv"]);
    let row = format!("prod,false,{url},{}…,true\n", &key[..8]);
    assert!(list.starts_with("name,current,url,key,protected\n") && list.ends_with(&row), "{list}");
    // The key of a context never reaches another server.
    let other = run(&["queue", "list", "--url", &url]);
    assert_eq!(other.status.code(), Some(4), "{}", String::from_utf8_lossy(&other.stderr));
    assert!(String::from_utf8_lossy(&other.stderr).contains("requires a key"));

    assert!(prints(&["app", "create", "Acme", "--uid", "acme", "--context", "prod"]).starts_with("app_"));
    let refused = run(&["app", "delete", "acme", "--yes", "--context", "prod"]);
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && complaint.contains("prod is protected"), "{complaint}");
    assert_eq!(prints(&["app", "delete", "acme", "--yes"]), "deleted acme\n");
    assert_eq!(prints(&["context", "use", "prod"]), "prod is the current context\n");
    assert_eq!(prints(&["context", "remove", "prod", "--yes"]), "removed prod\n");
    assert_eq!(run(&["context", "use", "prod"]).status.code(), Some(3));
}

#[test]
fn help_names_every_command() {
    let help = prints(&["--help"]);
    let jobs =
        ["app", "endpoint", "event-type", "msg", "attempt", "dead", "job", "queue", "batch", "schedule", "worker"];
    for command in ["serve", "migrate", "key", "token", "node", "once", "import", "config", "context"] {
        assert!(help.contains(command), "{help}");
    }
    for command in jobs {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        assert!(prints(&[command, "--help"]).contains("\n  list "), "{command}");
    }
    for taught in [
        ["app", "create"],
        ["endpoint", "create"],
        ["event-type", "create"],
        ["msg", "send"],
        ["attempt", "list"],
        ["dead", "redrive"],
        ["job", "enqueue"],
        ["job", "redrive"],
        ["queue", "limit"],
        ["batch", "create"],
        ["schedule", "create"],
    ] {
        let help = prints(&[taught[0], taught[1], "--help"]);
        assert!(
            help.contains(&format!("Examples:\n  everhook {} {}", taught[0], taught[1]))
                || help.contains("Examples:\n  batch=$(everhook"),
            "{help}"
        );
    }
    assert!(!help.contains("openapi"), "not for users: {help}");
    let serve = prints(&["serve", "--help"]);
    for option in ["127.0.0.1:8071", "--data", "--database", "--config"] {
        assert!(serve.contains(option) && !help.contains("--data "), "{serve}");
    }
    let key = prints(&["key", "--help"]);
    assert!(["create", "list", "revoke"].iter().all(|command| key.contains(command)), "{key}");
    let config = prints(&["config", "--help"]);
    assert!(["init", "check", "show"].iter().all(|command| config.contains(command)), "{config}");
}

#[test]
fn the_template_is_a_valid_configuration() {
    let template = prints(&["config", "init"]);
    assert!(template.contains("listen = \"127.0.0.1:8071\""));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("everhook.toml");
    std::fs::write(&file, template).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(prints(&["config", "check", "--config", file]), "configuration is valid\n");
    assert_eq!(prints(&["config", "check"]), "configuration is valid\n");
}

#[test]
fn settings_are_shown_with_their_sources_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("everhook.toml");
    std::fs::write(&file, "lease_seconds = 7\ntimeout_seconds = 9\n").unwrap();
    let arguments = ["config", "show", "--config", file.to_str().unwrap()];
    let variables = [
        ("EVERHOOK_TIMEOUT_SECONDS", "11"),
        ("EVERHOOK_JWT_SECRET", "a secret that nobody sees, long enough"),
        ("EVERHOOK_DATABASE", "postgres://user:hunter2@localhost/everhook"),
    ];
    let output = run(&arguments, &variables);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("lease_seconds = 7 # ") && shown.contains("everhook.toml"), "{shown}");
    assert!(shown.contains("timeout_seconds = 11 # EVERHOOK_TIMEOUT_SECONDS"), "{shown}");
    assert!(shown.contains("listen = \"127.0.0.1:8071\" # default"), "{shown}");
    assert!(!shown.contains("nobody sees") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn what_cannot_be_used_is_refused_with_its_name_and_a_remedy() {
    let check = ["config", "check"];
    is_refused(&check, &[("EVERHOOK_LOG_LEVEL", "warning")], &["log_level", "EVERHOOK_LOG_LEVEL", "use error, warn"]);
    is_refused(&check, &[("EVERHOOK_RETRY_SCHEDULE", "")], &["retry_schedule", "EVERHOOK_RETRY_SCHEDULE"]);
    is_refused(&check, &[("EVERHOOK_DATABASE", "postgres://")], &["`database`", "EVERHOOK_DATABASE", "host"]);
    is_refused(&check, &[("EVERHOOK_LEASE_SECONDS", "soon")], &["EVERHOOK_LEASE_SECONDS", "whole number"]);
    is_refused(&check, &[("EVERHOOK_RETRY_SCHEDULE", "1,x")], &["EVERHOOK_RETRY_SCHEDULE"]);
    is_refused(&check, &[("EVERHOOK_RETRY_SCHEDULE", "-1")], &["retry_schedule"]);
    is_refused(&check, &[("EVERHOOK_EGRESS_ALLOW", "nonsense")], &["egress_allow"]);
    is_refused(&check, &[("EVERHOOK_LISTEN", "nonsense")], &["listen"]);
    is_refused(&check, &[("EVERHOOK_DATABASE", "mysql://localhost/x")], &["database"]);
    let both = [("EVERHOOK_DATA", "a"), ("EVERHOOK_DATABASE", "postgres://localhost/x")];
    is_refused(&check, &both, &["data", "database"]);
    is_refused(&["config", "check", "--config", "missing.toml"], &[], &["missing.toml"]);
    is_refused(&["serve", "--data", "a", "--database", "postgres://localhost/x"], &[], &["--data", "--database"]);
    is_refused(&["nonsense"], &[], &["nonsense"]);
    is_refused(&["key", "create", "--environment", "a b"], &[], &["a b"]);
    is_refused(&["key", "revoke", "nonsense"], &[], &["nonsense", "everhook key list"]);
}

#[test]
fn unknown_variables_are_reported_and_service_links_are_not() {
    let links = [
        ("EVERHOOK_SERVICE_HOST", "10.96.0.7"),
        ("EVERHOOK_SERVICE_PORT_HTTP", "8071"),
        ("EVERHOOK_PORT", "tcp://10.96.0.7:8071"),
        ("EVERHOOK_PORT_8071_TCP_ADDR", "10.96.0.7"),
    ];
    let output = run(&["config", "check"], &links);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = run(&["config", "check"], &[("EVERHOOK_LEASE_SECOND", "5")]);
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && log.contains("WARN"), "{log}");
    assert!(log.contains("unknown variable EVERHOOK_LEASE_SECOND is ignored: did you mean EVERHOOK_LEASE_SECONDS?"));
}

#[test]
fn unknown_settings_in_a_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("everhook.toml");
    let file_name = file.to_str().unwrap();
    for (text, wanted) in
        [("nonsense = 1\n", "nonsense"), ("lease_seconds = \"x\"\n", "lease_seconds"), ("a = [", "TOML")]
    {
        std::fs::write(&file, text).unwrap();
        is_refused(&["config", "check", "--config", file_name], &[], &[wanted, file_name]);
    }
}

#[test]
fn a_database_that_is_not_there_is_refused_in_words() {
    let url = "postgres://nobody:hunter2@127.0.0.1:1/everhook";
    let impatient = [("EVERHOOK_DATABASE_WAIT_SECONDS", "0")];
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--database", url], &impatient);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !complaint.contains("panicked"), "{complaint}");
    assert!(complaint.contains("everhook: ") && !complaint.contains("hunter2"), "{complaint}");
}

fn migrate_can_be_repeated(backend: std::sync::Arc<Backend>) {
    assert!(!backend.run(&["migrate"]).is_empty());
    assert!(!backend.run(&["migrate"]).is_empty());
    assert!(backend.run(&["key", "create"]).starts_with("ehk_"));
}

#[test]
fn the_committed_openapi_document_is_current() {
    let committed =
        std::fs::read_to_string(repository("openapi.json")).expect("run `cargo xtask openapi` and commit it");
    let current = prints(&["openapi"]);
    // `assert!` instead of `assert_eq!`, which would print both documents.
    assert!(
        committed == current,
        "openapi.json differs from the handlers: run `cargo xtask openapi` and commit the result"
    );
}
