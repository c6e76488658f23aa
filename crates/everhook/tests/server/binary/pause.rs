//! Pauses of applications and environments: deliveries wait on every replica, and none is lost.

use std::sync::Arc;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::until_true;
use serde_json::{Value, json};

use crate::binary::client::{Application, Client};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_paused_application_takes_messages_and_holds_them_over_a_restart,
    a_paused_environment_holds_the_messages_of_all_its_applications,
}

/// The line that a node logs when it has read a change of the pauses.
const READ: &str = "the paused applications or environments have changed";

/// The servers on one store: one on SQLite, two on PostgreSQL.
fn servers(backend: &Arc<Backend>) -> Vec<Server> {
    let first = Server::start(backend, &[("RETRY_SCHEDULE", "0.5")]);
    let mut replica = matches!(**backend, Backend::Postgres(_)).then(|| first.another());
    replica.iter_mut().for_each(Server::start_again);
    [first].into_iter().chain(replica).collect()
}

/// Waits until every server has read so many changes of the pauses.
fn wait_until_read(servers: &[Server], changes: usize) {
    for server in servers {
        until_true("a server reads the pause", || server.logged_since(0, READ) >= changes);
    }
}

/// Returns the state, the reason and the next attempt of every open delivery of a message.
fn standing(application: &Application, message: &str) -> Vec<(Value, Value, Value)> {
    let deliveries = application.client.list(&application.path("/delivery"));
    let of_message = deliveries.into_iter().filter(|delivery| delivery["msgId"] == message);
    of_message.map(|it| (it["state"].clone(), it["reason"]["kind"].clone(), it["nextAttempt"].clone())).collect()
}

fn put_policy(client: &Client, policy: &Value) {
    let body = serde_json::to_vec(policy).unwrap();
    client.send("PUT", "/environment/policy", &[], &body).unwrap().expect(200);
}

fn a_paused_application_takes_messages_and_holds_them_over_a_restart(backend: Arc<Backend>) {
    let (mut servers, receiver) = (servers(&backend), Receiver::start());
    let client = servers[0].client();
    let (paused, other) = (client.application("Paused"), client.application("Other"));
    let endpoint = paused.endpoint(&receiver.url("/paused"));
    other.endpoint(&receiver.url("/other"));
    client.patch(&paused.path(""), &json!({ "policy": { "paused": true } })).expect(200);
    wait_until_read(&servers, 1);
    let mut held = Vec::new();
    for server in &servers {
        let application = Application { client: server.client(), id: paused.id.clone() };
        held.extend(application.send_many(5));
    }
    for server in &mut servers {
        server.terminate();
        assert!(server.wait().success());
        server.start_again();
        let application = Application { client: server.client(), id: other.id.clone() };
        // A message delivered elsewhere shows that the restarted server works on due tasks.
        receiver.wait_for_messages("/other", &application.send_many(5));
    }
    assert_eq!(receiver.seen("/paused").len(), 0);
    let paused = Application { client: servers[0].client(), id: paused.id };
    for message in &held {
        let want = (json!("held"), json!("applicationPaused"), Value::Null);
        assert_eq!(standing(&paused, message), [want]);
        let destination = paused.destination(message, &endpoint);
        assert_eq!((&destination["held"], &destination["nextAttempt"]), (&json!(true), &Value::Null));
    }
    paused.client.patch(&paused.path(""), &json!({ "policy": null })).expect(200);
    receiver.wait_for_messages("/paused", &held);
    assert_eq!(receiver.seen("/paused").len(), held.len(), "each is sent once");
}

fn a_paused_environment_holds_the_messages_of_all_its_applications(backend: Arc<Backend>) {
    let (servers, receiver) = (servers(&backend), Receiver::start());
    let client = servers[0].client();
    let applications = ["First", "Second"].map(|name| client.application(name));
    let endpoints = applications.each_ref().map(|application| application.endpoint(&receiver.url("/")));
    put_policy(&client, &json!({ "paused": true }));
    wait_until_read(&servers, 1);
    let mut held = Vec::new();
    for server in &servers {
        for Application { id, .. } in &applications {
            let application = Application { client: server.client(), id: id.clone() };
            held.push((id.clone(), application.send(&json!({}))));
        }
    }
    for (id, message) in &held {
        let application = Application { client: client.clone(), id: id.clone() };
        let want = (json!("held"), json!("environmentPaused"), Value::Null);
        assert_eq!(standing(&application, message), [want]);
    }
    assert_eq!(client.list("/delivery?state=pending"), Vec::<Value>::new());
    assert_eq!(client.list("/delivery?state=held").len(), held.len());
    assert_eq!(receiver.count(), 0);
    put_policy(&client, &json!({}));
    for (id, message) in &held {
        let at = applications.iter().position(|application| application.id == *id).unwrap();
        applications[at].wait_for(message, &endpoints[at], "success");
    }
    assert_eq!(receiver.count(), held.len(), "each is sent once");
}
