//! The receivers of `examples/receivers` run, and do what `docs/receivers.md` says.

use std::process::{Command, Stdio};

use everhook_testkit::process::Process;
use everhook_testkit::wait::{PATIENCE, unix_seconds};
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

fn check(command: &mut Command) {
    let example = Process::start(command.arg("0").env("WEBHOOK_SECRET", SECRET), Stdio::inherit());
    let example = example.expect("the example runs");
    let line = || example.line(PATIENCE).expect("the example goes on");
    let url = line().strip_prefix("listening on ").expect("its address").to_owned();
    let server = Server::start(&Backend::sqlite(), &[]);
    let application = server.client().application("Acme");
    let endpoint = application.endpoint_with(json!({ "url": url, "secret": SECRET }));
    let message = application.send(&json!({ "name": "Zoë" }));
    assert_eq!(line(), format!(r#"received {message} {{"name": "Zo\u00eb"}}"#));
    application.wait_for(&message, &endpoint, "success");

    // A repeated message gets the same reply, and is not processed again.
    let resend = application.path(&format!("/msg/{message}/endpoint/{}/resend", endpoint.id));
    application.client.send("POST", &resend, &[], b"").unwrap().expect(202);
    assert_eq!(line(), format!("repeated {message}"));
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
        assert!(line().starts_with("refused: "));
    }
    // During a rotation a request carries several signatures, perhaps of future versions.
    let signature = format!("v9,AAAA {forged} {}", sign(SECRET, "msg_1", now, "{}"));
    assert_eq!(post(&url, now, &signature), 204);
    assert_eq!(line(), "received msg_1 {}");
}

/// Sends the message `msg_1` with an empty payload and returns the status.
fn post(url: &str, timestamp: i64, signature: &str) -> u16 {
    let address = Address::default();
    address.set(url.trim_start_matches("http://").trim_end_matches('/').to_owned());
    let timestamp = timestamp.to_string();
    let headers = [("webhook-id", "msg_1"), ("webhook-timestamp", &timestamp), ("webhook-signature", signature)];
    Client::new(address, "").send_to("POST", "/", &headers, b"{}").unwrap().status
}
