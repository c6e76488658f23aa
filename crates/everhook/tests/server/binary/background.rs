//! Background tasks on a real server: replays reach their endpoint, and statistics are counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use everhook_testkit::receiver::Answer;
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint, text};
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, on_both_stores};

on_both_stores! {
    messages_of_a_disabled_endpoint_are_not_delivered_until_they_are_replayed,
    what_failed_in_an_outage_is_recovered_once,
    statistics_count_the_attempts_of_an_environment,
}

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// Starts a background task and returns its id.
#[track_caller]
pub(crate) fn start(application: &Application, endpoint: &Endpoint, route: &str, body: &Value) -> String {
    let path = application.path(&format!("/endpoint/{}/{route}", endpoint.id));
    text(&application.client.post(&path, body).expect(202)["id"])
}

/// Waits until a background task has ended, and returns it.
#[track_caller]
pub(crate) fn ended(application: &Application, task: &str) -> Value {
    until(&format!("{task} has ended"), || {
        let found = application.client.get(&format!("/background-task/{task}")).expect(200);
        (found["status"] != "running").then_some(found)
    })
}

fn messages_of_a_disabled_endpoint_are_not_delivered_until_they_are_replayed(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[]);
    let first = application.send(&json!({}));
    application.wait_for(&first, &endpoint, "success");
    application.change(&endpoint, &json!({ "disabled": true }));
    let missed = application.send_many(3);
    application.change(&endpoint, &json!({ "disabled": false }));
    let later = application.send(&json!({}));
    application.wait_for(&later, &endpoint, "success");
    assert_eq!(receiver.count(), 2, "enabling an endpoint sends nothing by itself");
    let nothing = start(&application, &endpoint, "recover", &json!({ "since": "2099-01-01T00:00:00Z" }));
    assert_eq!(ended(&application, &nothing)["data"], json!({ "messagesSent": 0 }));
    let task = start(&application, &endpoint, "replay-missing", &json!({ "since": LONG_AGO }));
    receiver.wait_for_messages("/", &missed);
    let finished = ended(&application, &task);
    assert_eq!((&finished["status"], &finished["data"]), (&json!("finished"), &json!({ "messagesSent": 3 })));
    assert_eq!(receiver.count(), 5);
}

fn what_failed_in_an_outage_is_recovered_once(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[("RETRY_SCHEDULE", "0")]);
    receiver.answer("/", Answer::status(500));
    let failed = application.send_many(5);
    for message in &failed {
        application.wait_for(message, &endpoint, "fail");
    }
    receiver.answer("/", Answer::status(200));
    let before = receiver.count();
    let since = json!({ "since": text(&application.client.get(&application.path("")).expect(200)["createdAt"]) });
    let task = start(&application, &endpoint, "recover", &since);
    assert_eq!(ended(&application, &task)["data"], json!({ "messagesSent": 5 }));
    for message in &failed {
        application.wait_for(message, &endpoint, "success");
    }
    let again = start(&application, &endpoint, "recover", &since);
    assert_eq!(ended(&application, &again)["data"], json!({ "messagesSent": 0 }));
    let seen = receiver.seen("/");
    assert_eq!(seen.len() - before, 5);
    let arrived: BTreeSet<&str> = seen[before..].iter().map(|seen| seen.message()).collect();
    assert_eq!(arrived, failed.iter().map(String::as_str).collect());
}

fn statistics_count_the_attempts_of_an_environment(backend: Arc<Backend>) {
    let Scene { server: _server, receiver: _receiver, application, endpoint } = Scene::start(&backend, &[]);
    for message in application.send_many(3) {
        application.wait_for(&message, &endpoint, "success");
    }
    let window = json!({ "since": LONG_AGO, "until": "2099-01-01T00:00:00Z" });
    let task = text(&application.client.post("/stats/usage/app", &window).expect(202)["id"]);
    let stats = json!([{ "appId": application.id, "appUid": null, "messageDestinations": 3 }]);
    assert_eq!(ended(&application, &task)["data"], json!({ "appStats": stats }));
    let task = application.client.send("PUT", "/stats/usage/event-types", &[], b"").unwrap().expect(202);
    let types = json!([{ "appId": application.id, "explicitlySubscribedEventTypes": [], "hasCatchAllEndpoint": true }]);
    assert_eq!(ended(&application, &text(&task["id"]))["data"], json!({ "event_types": types }));
}
