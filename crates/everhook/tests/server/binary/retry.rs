//! After a failure: retry schedule, Retry-After, death, redrive and resend.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::{unix_seconds, until};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint, text};
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};
use crate::binary::signature::Signed as _;

on_both_stores! {
    a_failing_delivery_is_tried_by_the_schedule_then_dead_then_redriven,
    a_delivery_that_fails_first_arrives_later,
    a_resend_is_one_manual_attempt,
    a_manual_attempt_that_fails_is_not_retried,
    a_redirect_is_a_failure_and_not_followed,
    a_throttling_endpoint_is_left_alone,
    retry_after_lengthens_the_delay,
    a_refused_connection_is_shown_and_retried,
    an_attempt_that_takes_too_long_times_out,
}

/// Two retries, almost at once.
const SHORT: (&str, &str) = ("RETRY_SCHEDULE", "0.05,0.05");
/// No retry within any test.
const LONG: (&str, &str) = ("RETRY_SCHEDULE", "3600");

fn a_failing_delivery_is_tried_by_the_schedule_then_dead_then_redriven(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[SHORT]);
    receiver.answer("/", Answer::status(500).body("broken"));
    let message = application.send(&json!({ "n": 1 }));
    let destination = application.wait_for(&message, &endpoint, "fail");
    assert_eq!((&destination["status"], &destination["nextAttempt"]), (&json!(2), &Value::Null));
    let attempts = application.attempts(&message);
    let statuses = attempts.iter().map(|attempt| &attempt["responseStatusCode"]).collect::<Vec<_>>();
    assert_eq!(statuses, [500, 500, 500]);
    let seen = receiver.seen("/");
    assert_eq!(seen.iter().map(|seen| seen.header("everhook-attempt")).collect::<Vec<_>>(), ["1", "2", "3"]);

    receiver.answer("/", Answer::status(200));
    redrive(&application, &endpoint);
    application.wait_for(&message, &endpoint, "success");
    let seen = receiver.seen("/");
    assert_eq!(seen.len(), 4);
    for seen in seen {
        assert_eq!((seen.message(), &*seen.body), (&*message, &br#"{"n":1}"#[..]));
        seen.verify(&endpoint.secret);
    }
    assert_eq!(application.attempts(&message).len(), 4);
}

pub(crate) fn redrive(application: &Application, endpoint: &Endpoint) {
    let path = application.path(&format!("/endpoint/{}/redrive", endpoint.id));
    let reply = application.client.post(&path, &json!({}));
    assert!((200..300).contains(&reply.status), "{reply:?}");
}

fn a_delivery_that_fails_first_arrives_later(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[SHORT]);
    receiver.answer_in_turn("/", [Answer::status(500), Answer::status(404)], Answer::status(202));
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "success");
    let attempts = application.attempts(&message);
    let statuses = attempts.iter().map(|attempt| &attempt["responseStatusCode"]).collect::<Vec<_>>();
    assert_eq!(statuses, [500, 404, 202]);
    let ends = attempts.iter().map(|attempt| &attempt["statusText"]).collect::<Vec<_>>();
    assert_eq!(ends, ["fail", "fail", "success"]);
    assert!(receiver.seen("/").iter().all(|seen| seen.message() == message));
}

fn a_resend_is_one_manual_attempt(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[SHORT]);
    let message = application.send(&json!({ "n": 1 }));
    application.wait_for(&message, &endpoint, "success");
    resend(&application, &message, &endpoint);
    let attempts = application.wait_for_attempts(&message, 2);
    let triggers = attempts.iter().map(|attempt| &attempt["triggerType"]).collect::<Vec<_>>();
    assert_eq!(triggers, [0, 1]);
    let seen = receiver.seen("/");
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[1].message(), &seen[1].body), (&*message, &seen[0].body));
    seen[1].verify(&endpoint.secret);
}

fn resend(application: &Application, message: &str, endpoint: &Endpoint) {
    let path = application.path(&format!("/msg/{message}/endpoint/{}/resend", endpoint.id));
    application.client.send("POST", &path, &[], b"").unwrap().expect(202);
}

fn a_manual_attempt_that_fails_is_not_retried(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[SHORT]);
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "success");
    receiver.answer("/", Answer::status(500));
    resend(&application, &message, &endpoint);
    application.wait_for_attempts(&message, 2);
    // After another delivery has been tried, retried and given up, a retry of the first would have arrived.
    let other = application.send(&json!({}));
    application.wait_for(&other, &endpoint, "fail");
    assert_eq!(application.attempts(&message).len(), 2);
    assert_eq!(receiver.seen("/").iter().filter(|seen| seen.message() == message).count(), 2);
}

fn a_redirect_is_a_failure_and_not_followed(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } =
        Scene::start(&backend, &[("RETRY_SCHEDULE", "0.05")]);
    receiver.answer("/", Answer::status(302).header("location", receiver.url("/elsewhere")));
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "fail");
    assert!(application.attempts(&message).iter().all(|attempt| attempt["responseStatusCode"] == 302));
    assert_eq!(receiver.seen("/elsewhere").len(), 0);
}

fn a_throttling_endpoint_is_left_alone(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[SHORT]), Receiver::start());
    let application = server.client().application("Acme");
    let throttling = application.endpoint(&receiver.url("/throttling"));
    application.endpoint(&receiver.url("/other"));
    receiver.answer_in_turn("/throttling", [Answer::status(429).header("retry-after", "3600")], Answer::status(200));
    let first = application.send(&json!({}));
    check_waits(3600, &application, &first, &throttling);

    // The whole lane is held: new messages are not tried there, while the other endpoint gets them.
    let later = application.send_many(5);
    receiver.wait_for_messages("/other", &later);
    for message in &later {
        assert_eq!(application.destination(message, &throttling)["statusText"], "pending");
    }
    assert_eq!(receiver.seen("/throttling").len(), 1);
}

/// Asserts that the next attempt is about this far away; jitter is a fifth.
#[track_caller]
fn check_waits(seconds: i64, application: &Application, message: &str, endpoint: &Endpoint) {
    // A delivery that waits for its first attempt is pending, too.
    until("the first attempt has ended", || {
        application.attempts(message).iter().any(|attempt| attempt["endpointId"] == endpoint.id).then_some(())
    });
    let destination = application.destination(message, endpoint);
    assert_eq!(destination["statusText"], "pending");
    let next = text(&destination["nextAttempt"]).parse::<Timestamp>().unwrap();
    let wait = next.as_second() - unix_seconds();
    assert!((seconds * 7 / 10..=seconds * 13 / 10).contains(&wait), "waits {wait} s: {destination}");
}

fn retry_after_lengthens_the_delay(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[SHORT]);
    receiver.answer_in_turn("/", [Answer::status(503).header("retry-after", "600")], Answer::status(200));
    let message = application.send(&json!({}));
    check_waits(600, &application, &message, &endpoint);
    // The endpoint asked for a pause, so its other deliveries wait as well.
    let other = application.send(&json!({}));
    assert_eq!(application.destination(&other, &endpoint)["statusText"], "pending");
    assert_eq!(receiver.count(), 1);
}

fn a_refused_connection_is_shown_and_retried(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[LONG]);
    let application = server.client().application("Acme");
    // No program listens on this port, and none gets it by chance.
    let url = "http://127.0.0.1:9/".to_owned();
    let endpoint = application.endpoint(&url);
    let message = application.send(&json!({}));
    let attempt = application.wait_for_attempts(&message, 1).remove(0);
    assert_eq!((&attempt["responseStatusCode"], &attempt["statusText"]), (&json!(0), &json!("fail")));
    assert!(!text(&attempt["response"]).is_empty(), "the reason is shown: {attempt}");
    check_waits(3600, &application, &message, &endpoint);

    // An attempt goes to the endpoint's current URL, and records it.
    let receiver = Receiver::start();
    application.change(&endpoint, &json!({ "url": receiver.url("/new") }));
    resend(&application, &message, &endpoint);
    let attempts = application.wait_for_attempts(&message, 2);
    let urls = attempts.iter().map(|attempt| text(&attempt["url"])).collect::<Vec<_>>();
    assert_eq!(urls, [url, receiver.url("/new")]);
}

fn an_attempt_that_takes_too_long_times_out(backend: Arc<Backend>) {
    let settings = [LONG, ("TIMEOUT_SECONDS", "1"), ("CONNECT_TIMEOUT_SECONDS", "1")];
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &settings);
    receiver.hang("/");
    let message = application.send(&json!({}));
    let attempt = application.wait_for_attempts(&message, 1).remove(0);
    assert_eq!((&attempt["class"], &attempt["statusText"]), (&json!("timeout"), &json!("fail")));
    check_waits(3600, &application, &message, &endpoint);
    // One timeout does not hold the lane: the next message is tried.
    let later = application.send(&json!({}));
    application.wait_for_attempts(&later, 1);
}
