//! The overview and the failure groups on a real server: what nodes count is what happened.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::background::ended;
use crate::binary::operator::Operator;
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    an_overview_shows_what_was_delivered_and_what_failed,
    counts_survive_a_restart,
    a_group_of_failures_is_redriven_by_commands,
}

/// Returns the sums of the series.
fn sums(overview: &Value) -> [u64; 4] {
    let sum =
        |name: &str| overview["series"][name].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
    ["accepted", "delivered", "failed", "dead"].map(sum)
}

fn an_overview_shows_what_was_delivered_and_what_failed(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("RETRY_SCHEDULE", "0.01")]), Receiver::start());
    let client = server.client();
    let application = client.application("Acme");
    let good = application.endpoint(&receiver.url("/good"));
    let bad = application.endpoint(&receiver.url("/bad"));
    receiver.answer("/bad", Answer::status(503));
    for message in application.send_many(3) {
        application.wait_for(&message, &good, "success");
        application.wait_for(&message, &bad, "fail");
    }
    for range in ["15m", "7d"] {
        let overview = until("everything is counted", || {
            let overview = client.get(&format!("/overview?range={range}")).expect(200);
            (sums(&overview) == [3, 3, 6, 3]).then_some(overview)
        });
        assert_eq!(overview["failures"], json!([{ "class": "5xx", "count": 6 }]));
        let top = &overview["topEndpoints"][0];
        assert_eq!((&top["endpointId"], &top["failures"], &top["class"]), (&json!(bad.id), &json!(6), &json!("5xx")));
        assert_eq!((&top["appName"], &top["url"]), (&json!("Acme"), &json!(receiver.url("/bad"))));
        let totals = &overview["totals"];
        assert_eq!((&totals["dead"], &totals["pending"]), (&json!(3), &json!(0)));
        assert!((totals["successRate"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-9, "{totals}");
        assert!(totals["p50"].as_f64().unwrap() > 0.0 && totals["deliveredPerMinute"].as_f64().unwrap() > 0.0);
    }
    let shown = Operator::new(&server).prints(&["status"]);
    for part in [
        "state    ready",
        "dead      3\n",
        "range      the last 1h\n",
        "FAILED AS  ATTEMPTS\n5xx        6\n",
        "FAILING ENDPOINT",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
}

#[test]
fn a_server_without_jobs_has_a_status() {
    let server = Server::start(&Backend::sqlite(), &[("JOBS", "false")]);
    let shown = Operator::new(&server).prints(&["status"]);
    assert!(shown.starts_with("state    ready\n") && !shown.contains("QUEUE"), "{shown}");
}

fn counts_survive_a_restart(backend: Arc<Backend>) {
    let Scene { mut server, receiver: _receiver, application, endpoint } = Scene::start(&backend, &[]);
    let first = application.send(&json!({}));
    application.wait_for(&first, &endpoint, "success");
    server.terminate();
    server.wait();
    server.start_again();
    let client = server.client();
    // A stopping node writes its last counts.
    assert_eq!(sums(&client.get("/overview").expect(200)), [1, 1, 0, 0]);
}

fn a_group_of_failures_is_redriven_by_commands(backend: Arc<Backend>) {
    let Scene { server, receiver, application, endpoint } = Scene::start(&backend, &[("RETRY_SCHEDULE", "0.01")]);
    let operator = Operator::new(&server);
    receiver.answer("/", Answer::status(404));
    let not_found = application.send(&json!({}));
    application.wait_for(&not_found, &endpoint, "fail");
    receiver.answer("/", Answer::status(500));
    let broken = application.send_many(2);
    for message in &broken {
        application.wait_for(message, &endpoint, "fail");
    }
    let groups = operator.json(&["dead", "groups"]);
    let counted: Vec<_> = groups.as_array().unwrap().iter().map(|group| (&group["class"], &group["count"])).collect();
    assert_eq!(counted, [(&json!("4xx"), &json!(1)), (&json!("5xx"), &json!(2))]);
    let group = format!("{}.5xx", endpoint.id);
    assert_eq!(operator.prints(&["dead", "ack", &group, "--note", "asked them"]), format!("{group} is acknowledged\n"));
    let table = operator.prints(&["dead", "groups", "--state", "acknowledged"]);
    assert!(table.starts_with("GROUP ") && table.contains("asked them") && !table.contains(".4xx"), "{table}");
    operator.is_refused(&["dead", "ack", "nonsense"], "is not the id of a group");
    operator.is_refused(&["dead", "redrive-group", &group], "--yes");
    let dry = operator.prints(&["dead", "redrive-group", &group, "--dry-run"]);
    assert_eq!(dry, "2 deliveries would be redriven\n");
    receiver.answer("/", Answer::status(204));
    let task = operator.prints(&["dead", "redrive-group", &group, "--yes"]).trim().to_owned();
    assert_eq!(ended(&application, &task)["data"], json!({ "messagesSent": 2 }));
    for message in &broken {
        application.wait_for(message, &endpoint, "success");
    }
    application.wait_for(&not_found, &endpoint, "fail");
    assert_eq!(operator.json(&["dead", "list"])[0]["msgId"], json!(not_found));
    assert_eq!(operator.json(&["dead", "list", "--class", "timeout"]), json!([]));
    let shown = operator.prints(&["task", "show", &task]);
    assert!(shown.contains("status   finished") && shown.contains("{\"messagesSent\":2}"), "{shown}");
    assert_eq!(operator.json(&["task", "list", "--status", "finished"])[0]["id"], json!(task));
    operator.is_refused(&["task", "cancel", &task, "--yes"], "has ended");
    let dismissed = operator.prints(&["dead", "dismiss", &application.id, &endpoint.id, &not_found, "--yes"]);
    assert_eq!(dismissed, format!("dismissed the delivery of {not_found}\n"));
    assert_eq!(operator.json(&["dead", "groups"]), json!([]));
}
