//! The log: one line per attempt, as text or JSON, without secrets.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::{until, until_true};
use serde_json::{Value, json};

use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    every_attempt_is_one_line_of_json_without_payload_or_secrets,
    a_log_that_nobody_reads_stops_nothing,
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

fn a_log_that_nobody_reads_stops_nothing(backend: Arc<Backend>) {
    let settings = [("LOG_LEVEL", "trace"), ("LISTEN_OPS", "127.0.0.1:0")];
    let mut server = Server::prepare(&backend, &settings).with_unread_log();
    server.start_again();
    let receiver = Receiver::start();
    let application = server.client().application("Acme");
    // Each message causes at least one line per endpoint.
    let endpoints = (0..30).map(|_| application.endpoint(&receiver.url("/"))).collect::<Vec<_>>();
    let dropped = || {
        let page = server.ops().send_to("GET", "/metrics", &[], b"").unwrap();
        let page = String::from_utf8(page.body).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix("everhook_log_lines_dropped_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    until_true("the log is full", || {
        application.send_many(5);
        dropped() > 0
    });
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoints[0], "success");
    assert_eq!(server.ops().get("/health/ready").expect(200)["ready"], true);

    let mut lines = BufReader::new(server.take_log()).lines();
    let told = lines.find_map(|line| Some(line.unwrap()).filter(|line| line.contains("log lines dropped")));
    assert!(told.unwrap().contains("stderr was not read fast enough"));
}
