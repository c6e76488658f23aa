//! The examples of `examples/outbox` run, and do what `docs/outbox.md` says. They need external packages, hence
//! `contract`.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::binary::environment::{node_modules, python, repository};
use crate::binary::outbox::Stage;

#[test]
fn contract_the_python_example_sends_with_its_transaction() {
    let script = repository("examples/outbox/python/place_order.py");
    check("python", || {
        let mut command = Command::new(python());
        command.arg(&script).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    });
}

#[test]
fn contract_the_node_example_sends_with_its_transaction() {
    // Node searches packages beside the script.
    let folder = tempfile::tempdir().unwrap();
    for file in ["package.json", "place_order.js"] {
        std::fs::copy(repository("examples/outbox/node").join(file), folder.path().join(file)).unwrap();
    }
    symlink(node_modules(), folder.path().join("node_modules")).unwrap();
    check("node", || {
        let mut command = Command::new("node");
        command.arg(folder.path().join("place_order.js"));
        command
    });
}

#[track_caller]
fn check(language: &str, command: impl Fn() -> Command) {
    let stage = Stage::new(&[]);
    let run = |arguments: &[&str]| {
        let output = command().arg("acme").args(arguments).env("DATABASE_URL", &stage.url).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(&["1", "fail"]), "did not place order 1: the payment was refused\n");
    assert_eq!(run(&["2"]), "placed order 2\n");
    stage.receiver.wait_for("/", 1);
    stage.wait_until_empty();
    let messages = stage.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!((&messages[0]["payload"], &messages[0]["eventId"]), (&json!({ "number": 2 }), &json!("order-2")));
    assert_eq!((&messages[0]["eventType"], &messages[0]["tags"]), (&json!("order.placed"), &json!([language])));
    assert_eq!(stage.session.column("select number from orders"), ["2"]);
}
