//! Quotas: refused requests, other tenants, and replicas.

use std::sync::Arc;

use everhook_testkit::wait::until;
use serde_json::json;

use crate::binary::client::Application;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_quota_refuses_messages_until_it_is_raised_and_outlives_a_restart,
}

fn send(application: &Application) -> u16 {
    application.client.post(&application.path("/msg"), &json!({ "eventType": "a.b", "payload": {} })).status
}

fn fill(application: &Application) -> usize {
    (0..100).take_while(|_| send(application) == 202).count()
}

fn a_quota_refuses_messages_until_it_is_raised_and_outlives_a_restart(backend: Arc<Backend>) {
    let mut server = Server::start(&backend, &[]);
    let (one, two) = (server.client().application("One"), server.client().application("Two"));
    let rate = json!({ "count": 1, "seconds": 3600, "burst": 5 });
    let path = one.path("/quota");
    one.client.put(&path, &json!({ "messageRate": rate })).expect(200);
    assert_eq!(fill(&one), 5);
    assert_eq!(send(&two), 202, "another application");
    server.kill();
    server.start_again();
    // The session of the killed server still has its share.
    assert!((1..=5).contains(&fill(&one)), "the quota is stored, its use is not");
    // Messages that are stored count, whoever sent them.
    one.client.put(&path, &json!({ "storedMessages": 10 })).expect(200);
    until("the stored messages are counted", || (send(&one) == 429).then_some(()));
    let usage = one.client.get(&one.path("/usage")).expect(200);
    assert_eq!(usage["storedMessages"]["limit"], 10);
    assert!(usage["storedMessages"]["used"].as_u64().unwrap() >= 10);
    one.client.put(&path, &json!({})).expect(200);
    assert_eq!(send(&one), 202);
    let shown = backend.run(&["quota", "show", "--url", &server.url(), "--key", server.key()]);
    assert!(shown.contains("no limit"), "{shown}");
}

#[test]
fn replicas_share_a_message_rate_and_learn_of_a_quota_from_each_other() {
    let server = Server::start(&Backend::postgres(), &[]);
    let second = server.start_another();
    let application = server.client().application("Acme");
    let there = Application { client: second.client(), ..application.clone() };
    let rate = json!({ "count": 1, "seconds": 3600, "burst": 10 });
    let set = application.client.put("/environment/quota", &json!({ "messageRate": rate }));
    set.expect(200);
    // Both replicas refuse after their share.
    until("the first replica refuses", || (send(&application) == 429).then_some(()));
    until("the second replica refuses", || (send(&there) == 429).then_some(()));
}
