//! The log: one line for each attempt, in text or JSON, and nothing in it that is nobody's business.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::receiver::{Answer, Receiver};
use crate::server::{Backend, Server, on_both_stores};
use crate::wait::until;

on_both_stores! {
    every_attempt_is_one_line_of_json_without_payload_or_secrets,
}

fn every_attempt_is_one_line_of_json_without_payload_or_secrets(backend: Arc<Backend>) {
    let settings = [("LOG_FORMAT", "json"), ("RETRY_SCHEDULE", "0.05"), ("LOG_LEVEL", "trace")];
    let (server, receiver) = (Server::start(&backend, &settings), Receiver::start());
    let application = server.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/hook?token=in-the-url"));
    let failing = Answer::status(500).body("told-by-the-receiver");
    receiver.answer_in_turn("/hook?token=in-the-url", [failing], Answer::status(204));
    let message = application.send(&json!({ "text": "in-the-payload" }));
    application.wait_for(&message, &endpoint, "success");

    let lines = until("both attempts are in the log", || {
        let log = server.log();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")));
        let of_message = |line: &Value| line["message.id"] == message;
        let lines = lines.filter(of_message).collect::<Vec<Value>>();
        (lines.len() >= 2).then_some(lines)
    });
    let told = lines.iter().map(|line| (&line["class"], &line["http.status"], line["duration_ms"].is_u64()));
    let wanted = [(&json!("status"), &json!(500), true), (&json!("success"), &json!(204), true)];
    assert_eq!(told.collect::<Vec<_>>(), wanted);

    let log = server.log();
    let secret = endpoint.secret.trim_start_matches("whsec_").to_owned();
    let signature = receiver.everything()[0].header("webhook-signature").to_owned();
    for private in ["in-the-payload", "in-the-url", "told-by-the-receiver", server.key(), &secret, &signature] {
        assert!(!log.contains(private), "{private} is in the log");
    }
}
