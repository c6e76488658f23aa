//! Deliveries prove who sends them: Basic, and OAuth with tokens that are fetched, kept and replaced.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use serde_json::json;

use crate::binary::client::{Application, Endpoint};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    basic_authentication_is_sent_with_every_delivery,
    an_oauth_token_is_fetched_once_and_sent_with_every_delivery,
    a_token_that_the_receiver_refuses_is_replaced,
    without_a_token_nothing_is_sent,
}

fn oauth(receiver: &Receiver) -> serde_json::Value {
    json!({
        "grantType": "clientCredentials", "authMethod": "clientSecretBasic", "clientId": "me",
        "clientSecret": "canary-secret", "tokenUrl": receiver.url("/token"), "scopes": ["hooks"],
    })
}

/// Creates an endpoint whose deliveries carry an OAuth token.
fn oauth_endpoint(server: &Server, receiver: &Receiver) -> (Application, Endpoint) {
    let application = server.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/hook"));
    let path = application.path(&format!("/endpoint/{}/oauth", endpoint.id));
    application.client.put(&path, &oauth(receiver)).expect(204);
    (application, endpoint)
}

fn issued(token: &str) -> Answer {
    let body = json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600 });
    Answer::status(200).body(body.to_string())
}

fn basic_authentication_is_sent_with_every_delivery(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/hook"));
    let at = application.path(&format!("/endpoint/{}/basic-auth", endpoint.id));
    application.client.put(&at, &json!({ "username": "us er", "password": "pä:ss" })).expect(204);
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "success");
    let seen = receiver.wait_for("/hook", 1).remove(0);
    assert_eq!(seen.header("authorization"), "Basic dXMgZXI6cMOkOnNz");
    application.client.delete(&at).expect(204);
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "success");
    assert!(receiver.wait_for("/hook", 2)[1].headers.iter().all(|(name, _)| name != "authorization"));
}

fn an_oauth_token_is_fetched_once_and_sent_with_every_delivery(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    receiver.answer("/token", issued("one"));
    let (application, endpoint) = oauth_endpoint(&server, &receiver);
    for _ in 0..5 {
        let message = application.send(&json!({}));
        application.wait_for(&message, &endpoint, "success");
    }
    for seen in receiver.wait_for("/hook", 5) {
        assert_eq!(seen.header("authorization"), "Bearer one");
    }
    let asked = receiver.wait_for("/token", 1);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].body, b"grant_type=client_credentials&scope=hooks");
    assert_eq!(asked[0].header("authorization"), "Basic bWU6Y2FuYXJ5LXNlY3JldA==");
    assert_eq!(asked[0].header("content-type"), "application/x-www-form-urlencoded");
}

fn a_token_that_the_receiver_refuses_is_replaced(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("RETRY_SCHEDULE", "0.05,0.05")]), Receiver::start());
    receiver.answer_in_turn("/token", [issued("old")], issued("new"));
    receiver.answer_in_turn("/hook", [Answer::status(401)], Answer::status(200));
    let (application, endpoint) = oauth_endpoint(&server, &receiver);
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "success");
    let sent: Vec<_> =
        receiver.wait_for("/hook", 2).iter().map(|seen| seen.header("authorization").to_owned()).collect();
    assert_eq!(sent, ["Bearer old", "Bearer new"]);
}

fn without_a_token_nothing_is_sent(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("RETRY_SCHEDULE", "0.05")]), Receiver::start());
    receiver.answer("/token", Answer::status(403).body("canary-secret is wrong"));
    let (application, endpoint) = oauth_endpoint(&server, &receiver);
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "fail");
    for attempt in application.attempts(&message) {
        assert_eq!(attempt["response"], "the OAuth token endpoint answered with status 403");
        assert_eq!(attempt["class"], "status");
    }
    assert_eq!(receiver.count(), 2, "two token requests");
}
