//! Test requests to URLs that no endpoint has, over the API and at the command line.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use serde_json::{Value, json};

use crate::binary::operator::Operator;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! { a_url_is_tried_before_it_is_saved }

fn a_url_is_tried_before_it_is_saved(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let test = |body: Value| application.client.post(&application.path("/webhook/test"), &body);
    receiver.answer("/hook", Answer::status(200).body("thanks"));
    let tried = test(json!({ "url": receiver.url("/hook"), "payload": { "n": 1 } })).expect(200);
    assert_eq!((&tried["delivered"], &tried["responseStatusCode"]), (&json!(true), &json!(200)));
    assert_eq!(tried["response"], "thanks");
    let seen = &receiver.wait_for("/hook", 1)[0];
    let request = &tried["request"];
    assert_eq!((&request["url"], request["body"].as_str()), (&json!(receiver.url("/hook")), Some(r#"{"n":1}"#)));
    assert_eq!(seen.body, br#"{"n":1}"#);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature", "everhook-event-type", "content-type"] {
        assert_eq!(request["headers"][name], seen.header(name), "{name}");
    }
    let header = |name: &str| format!("{name}: {}", seen.header(name));
    let [id, time, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(header);
    let operator = Operator::new(&server);
    let secret = tried["secret"].as_str().unwrap();
    operator.prints_of(r#"{"n":1}"#, &["verify", "--secret", secret, "-H", &id, "-H", &time, "-H", &signature]);
    assert!(!server.log().contains(tried["secret"].as_str().unwrap()), "the secret is in no log");

    receiver.answer("/hook", Answer::status(503));
    let tried = test(json!({ "url": receiver.url("/hook") })).expect(200);
    assert_eq!((&tried["delivered"], &tried["class"]), (&json!(false), &json!("status")));
    assert!(tried["explanation"].as_str().unwrap().contains("503"), "{tried}");
    let refused = test(json!({ "url": "http://169.254.169.254/latest" })).expect(422);
    assert!(refused.to_string().contains("url"), "{refused}");
    assert_eq!(test(json!({ "url": "poll:" })).status, 422);
    assert_eq!(test(json!({ "url": receiver.url("/hook"), "payload": [1] })).status, 422);
    assert_eq!(test(json!({ "url": receiver.url("/hook"), "secret": "x" })).status, 422);
    assert_eq!(receiver.seen("/hook").len(), 2, "nothing is retried");
    assert!(application.client.list(&application.path("/msg")).is_empty(), "nothing is stored");

    receiver.answer("/hook", Answer::status(204));
    let shown = operator.prints(&["endpoint", "test", &application.id, &receiver.url("/hook"), "--event-type", "a.b"]);
    assert!(shown.contains("a delivery would succeed") && shown.contains("everhook-event-type: a.b"), "{shown}");
}
