//! Traces: spans reach a collector, and receivers are told the trace.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver, Seen};
use serde_json::{Value, json};

use crate::binary::client::{Application, text};
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, on_both_stores};

on_both_stores! {
    attempts_are_spans_in_the_trace_of_the_sender,
    a_message_without_a_trace_gets_one,
    without_a_collector_the_trace_of_the_sender_is_passed_on,
    a_collector_that_fails_costs_no_delivery,
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// The spans with a name that reached a collector.
fn spans(seen: &[Seen], name: &str) -> Vec<Value> {
    let bodies = seen.iter().map(|seen| serde_json::from_slice(&seen.body).unwrap());
    let of = |body: Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    bodies.flat_map(of).filter(|span| span["name"] == name).collect()
}

fn wait_for_spans(collector: &Receiver, count: usize) -> Vec<Value> {
    collector.wait("the spans of the attempts", |seen| spans(seen, "deliver message").len() == count);
    spans(&collector.everything(), "deliver message")
}

fn send_in(application: &Application, traceparent: &str) -> String {
    let body = json!({ "eventType": "a", "payload": {} }).to_string();
    let headers = [("traceparent", traceparent), ("content-type", "application/json")];
    let sent = application.client.send("POST", &application.path("/msg"), &headers, body.as_bytes()).unwrap();
    text(&sent.expect(202)["id"])
}

fn attempts_are_spans_in_the_trace_of_the_sender(backend: Arc<Backend>) {
    let collector = Receiver::start();
    let settings = [("OTLP_URL", &*collector.url("")), ("RETRY_SCHEDULE", "0.05"), ("TRACE_SHARE", "0")];
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &settings);
    receiver.answer_in_turn("/", [Answer::status(500)], Answer::status(200));
    let given = format!("00-{TRACE}-{SPAN}-01");
    let message = send_in(&application, &given);
    application.wait_for(&message, &endpoint, "success");
    let attempts = wait_for_spans(&collector, 2);
    let accepted = &spans(&collector.everything(), "accept message")[0];
    assert_eq!((&accepted["traceId"], &accepted["parentSpanId"]), (&json!(TRACE), &json!(SPAN)));
    let told: Vec<String> = receiver.seen("/").iter().map(|seen| seen.header("traceparent").to_owned()).collect();
    for (span, told) in attempts.iter().zip(&told) {
        assert_eq!(span["parentSpanId"], accepted["spanId"]);
        assert_eq!(format!("00-{TRACE}-{}-01", span["spanId"].as_str().unwrap()), *told);
    }
    let codes: Vec<i64> = attempts.iter().map(|span| span["status"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [2, 0]);
}

fn a_message_without_a_trace_gets_one(backend: Arc<Backend>) {
    let collector = Receiver::start();
    let settings = [("OTLP_URL", &*collector.url("")), ("OTLP_AUTHORIZATION", "Bearer abc")];
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &settings);
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "success");
    let span = &wait_for_spans(&collector, 1)[0];
    let (trace, id) = (span["traceId"].as_str().unwrap(), span["spanId"].as_str().unwrap());
    assert_eq!(receiver.seen("/")[0].header("traceparent"), format!("00-{trace}-{id}-01"));
    assert_eq!(collector.seen("/v1/traces")[0].header("authorization"), "Bearer abc");
}

fn without_a_collector_the_trace_of_the_sender_is_passed_on(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, .. } = Scene::start(&backend, &[]);
    let given = format!("00-{TRACE}-{SPAN}-00");
    send_in(&application, &given);
    assert_eq!(receiver.wait_for("/", 1)[0].header("traceparent"), given);
    send_in(&application, "nonsense");
    assert!(!receiver.wait_for("/", 2)[1].headers.iter().any(|(name, _)| name == "traceparent"));
}

fn a_collector_that_fails_costs_no_delivery(backend: Arc<Backend>) {
    let collector = Receiver::start();
    collector.answer("/v1/traces", Answer::status(500));
    let settings = [("OTLP_URL", &*collector.url(""))];
    let Scene { server: _server, receiver, application, .. } = Scene::start(&backend, &settings);
    application.send(&json!({}));
    receiver.wait_for("/", 1);
    collector.wait_for("/v1/traces", 1);
    application.send(&json!({}));
    receiver.wait_for("/", 2);
}
