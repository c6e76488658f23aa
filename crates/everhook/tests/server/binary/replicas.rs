//! Replicas with roles: some accept, some deliver, and all are listed.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::{until, until_true};
use serde_json::{Value, json};

use crate::binary::environment::everhook;
use crate::binary::server::{Backend, Server};

/// An api node and a worker on one database.
fn pair(settings: &[(&str, &str)]) -> (Arc<Backend>, Server, Server) {
    let backend = Backend::postgres();
    let api = Server::start(&backend, &[settings, &[("ROLE", "api")]].concat());
    let mut worker = api.another_with(&[("ROLE", "worker")]);
    worker.start_again();
    (backend, api, worker)
}

#[test]
fn what_an_api_node_accepts_a_worker_is_woken_to_deliver() {
    // Polling alone would exceed the deadline of the test.
    let settings = [("POLL_INTERVAL_MS", "3600000"), ("RETRY_SCHEDULE", "0.05"), ("LOG_LEVEL", "debug")];
    let (_backend, api, worker) = pair(&settings);
    let receiver = Receiver::start();
    let application = api.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/"));
    // The first messages may arrive before the worker listens; it polls once when it starts to listen.
    for number in 0..20 {
        let id = application.send(&json!({ "number": number }));
        application.wait_for(&id, &endpoint, "success");
    }
    until_true("all are logged", || worker.log().matches("delivered msg_").count() == 20);
    assert_eq!(api.log().matches("delivered msg_").count(), 0);
    // A redrive wakes the worker, too.
    receiver.answer("/", Answer::status(500));
    let id = application.send(&json!({}));
    application.wait_for(&id, &endpoint, "fail");
    receiver.answer("/", Answer::status(200));
    for (again, attempts) in [("redrive", 3), ("resend", 4)] {
        let path = application.path(&format!("/msg/{id}/endpoint/{}/{again}", endpoint.id));
        application.client.post(&path, &json!({})).expect(202);
        application.wait_for_attempts(&id, attempts);
    }
}

#[test]
fn without_wakeups_a_worker_delivers_all_the_same() {
    let (_backend, api, _worker) = pair(&[("WAKEUPS", "false"), ("POLL_INTERVAL_MS", "200")]);
    let receiver = Receiver::start();
    let application = api.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/"));
    let id = application.send(&json!({}));
    application.wait_for(&id, &endpoint, "success");
}

#[test]
fn a_worker_serves_health_only_and_says_so() {
    let (_backend, api, worker) = pair(&[]);
    for (server, role) in [(&api, "api"), (&worker, "worker")] {
        server.client().get("/health").expect(204);
        let ready = until("it is ready", || Some(server.client().get("/health/ready")).filter(|it| it.status == 200));
        assert_eq!(ready.json()["role"], role);
    }
    let refused = worker.client().get("/app").expect(404);
    assert!(refused["detail"].as_str().unwrap().contains("worker"), "{refused}");
    api.client().get("/app").expect(200);
}

#[test]
fn nodes_can_be_seen_with_what_they_hold() {
    let (backend, api, mut worker) = pair(&[("GRACE_SECONDS", "0")]);
    let receiver = Receiver::start();
    receiver.hang("/");
    let application = api.client().application("Acme");
    application.endpoint(&receiver.url("/"));
    application.send(&json!({}));
    receiver.wait_for("/", 1);

    let admin = backend.run(&["key", "create", "--admin"]);
    let list = |arguments: &[&str]| {
        let mut command = everhook();
        command.args(["node", "list"]).args(arguments);
        command.env("EVERHOOK_URL", api.url()).env("EVERHOOK_KEY", admin.trim()).output().unwrap()
    };
    // The worker may hold jobs of the server itself for a moment.
    until_true("the worker holds the delivery", || {
        let listed = list(&["--json"]);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let nodes: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let seen: Vec<_> =
            nodes.as_array().unwrap().iter().map(|node| (&node["role"], &node["state"], &node["held"])).collect();
        seen == [(&json!("api"), &json!("open"), &json!(0)), (&json!("worker"), &json!("open"), &json!(1))]
    });
    let table = String::from_utf8(list(&[]).stdout).unwrap();
    assert!(table.starts_with("NODE ") && table.lines().count() == 3 && table.contains(" worker "), "{table}");

    worker.terminate();
    assert!(worker.wait().success());
    let table = String::from_utf8(list(&[]).stdout).unwrap();
    assert!(table.lines().any(|line| line.contains(" worker ") && line.contains(" closed ")), "{table}");
}

#[test]
fn commands_that_ask_a_server_say_what_is_missing() {
    let server = Server::start(&Backend::sqlite(), &[]);
    let complaint = |url: &str, key: &str| {
        let output =
            everhook().args(["node", "list"]).env("EVERHOOK_URL", url).env("EVERHOOK_KEY", key).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let nobody = complaint("http://127.0.0.1:1", "");
    assert!(nobody.contains("could not reach http://127.0.0.1:1") && nobody.contains("set EVERHOOK_URL"), "{nobody}");
    assert!(complaint(&server.url(), "").contains("set EVERHOOK_KEY"));
    assert!(complaint(&server.url(), "ehk_wrong").contains("does not accept the key in EVERHOOK_KEY"));
    assert!(complaint(&server.url(), server.key()).contains("everhook key create --admin"));
    assert!(complaint("nowhere", "").contains("invalid EVERHOOK_URL"));
}

#[test]
fn one_node_alone_has_to_do_everything() {
    let folder = tempfile::tempdir().unwrap();
    let refused = everhook().args(["serve", "--role", "worker", "--data"]).arg(folder.path()).output().unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && complaint.contains("set `database` to a PostgreSQL"), "{complaint}");
}
