//! The receivers of `examples/receivers` run, and do what `docs/receivers.md` says.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use everhook_testkit::wait::unix_seconds;
use serde_json::json;

use crate::binary::client::{Address, Client};
use crate::binary::environment::{python, repository};
use crate::binary::server::{Backend, Server};
use crate::binary::signature::sign;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn the_python_receiver_by_hand_keeps_the_contract() {
    check(&mut example("python/by_hand.py"));
}

#[test]
fn the_python_receiver_with_the_library_keeps_the_contract() {
    check(&mut example("python/with_library.py"));
}

fn example(path: &str) -> Command {
    let mut command = Command::new(python());
    command.arg(repository("examples/receivers").join(path)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// A running receiver with its output.
struct Example {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Example {
    fn start(command: &mut Command) -> Example {
        let command = command.arg("0").env("WEBHOOK_SECRET", SECRET).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the example runs");
        let lines = BufReader::new(process.stdout.take().unwrap());
        Example { process, lines }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the example ended");
        line.trim().to_owned()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn check(command: &mut Command) {
    let mut example = Example::start(command);
    let url = example.line().strip_prefix("listening on ").expect("its address").to_owned();
    let server = Server::start(&Backend::sqlite(), &[]);
    let application = server.client().application("Acme");
    let endpoint = application.endpoint_with(json!({ "url": url, "secret": SECRET }));
    let message = application.send(&json!({ "name": "Zoë" }));
    assert_eq!(example.line(), format!(r#"received {message} {{"name": "Zo\u00eb"}}"#));
    application.wait_for(&message, &endpoint, "success");

    // A repeated message gets the same reply, and is not processed again.
    let resend = application.path(&format!("/msg/{message}/endpoint/{}/resend", endpoint.id));
    application.client.send("POST", &resend, &[], b"").unwrap().expect(202);
    assert_eq!(example.line(), format!("repeated {message}"));
    let attempts = application.wait_for_attempts(&message, 2);
    assert!(attempts.iter().all(|attempt| attempt["responseStatusCode"] == 204), "{attempts:?}");

    // Unsigned, changed and old requests are refused.
    let now = unix_seconds();
    let forged = sign("whsec_b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI=", "msg_1", now, "{}");
    for (timestamp, signature) in [
        (now, forged.clone()),
        (now, sign(SECRET, "msg_2", now, "{}")),
        (now - 600, sign(SECRET, "msg_1", now - 600, "{}")),
        (now + 600, sign(SECRET, "msg_1", now + 600, "{}")),
        (now, "v2,nonsense".to_owned()),
    ] {
        assert_eq!(post(&url, timestamp, &signature), 401, "{timestamp} {signature}");
        assert!(example.line().starts_with("refused: "));
    }
    // During a rotation a request carries several signatures, perhaps of future versions.
    let signature = format!("v9,AAAA {forged} {}", sign(SECRET, "msg_1", now, "{}"));
    assert_eq!(post(&url, now, &signature), 204);
    assert_eq!(example.line(), "received msg_1 {}");
}

/// Sends the message `msg_1` with an empty payload and returns the status.
fn post(url: &str, timestamp: i64, signature: &str) -> u16 {
    let address = Address::default();
    address.set(url.trim_start_matches("http://").trim_end_matches('/').to_owned());
    let timestamp = timestamp.to_string();
    let headers = [("webhook-id", "msg_1"), ("webhook-timestamp", &timestamp), ("webhook-signature", signature)];
    Client::new(address, "").send_to("POST", "/", &headers, b"{}").unwrap().status
}
