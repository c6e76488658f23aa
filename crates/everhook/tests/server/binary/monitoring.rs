//! The alerts and the dashboard in `deploy/` use metrics that a server has.

use std::collections::BTreeSet;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::until_true;
use serde_json::{Value, json};

use crate::binary::environment::repository;
use crate::binary::postgres::Session;
use crate::binary::server::{Backend, Server};

/// The names of metrics in the expressions of the two files.
fn used() -> BTreeSet<String> {
    let read = |path: &str| std::fs::read_to_string(repository(path)).unwrap();
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/everhook.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let queries = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut text: String = queries.map(|query| format!("{}\n", query["expr"].as_str().unwrap())).collect();
    // Everything but annotations, which only prose mentions.
    text.extend(
        read("deploy/prometheus/alerts.yml")
            .lines()
            .filter(|line| !line.contains("summary"))
            .map(|line| format!("{line}\n")),
    );
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with("everhook_")).map(str::to_owned).collect()
}

#[test]
fn every_metric_of_the_alerts_and_the_dashboard_exists() {
    let backend = Backend::postgres();
    let (server, receiver) = (Server::start(&backend, &[("LISTEN_OPS", "127.0.0.1:0")]), Receiver::start());
    let (client, application) = (server.client(), server.client().application("Acme"));
    application.endpoint(&receiver.url("/"));
    client.patch("/queue/mail", &json!({ "targetUrl": receiver.url("/push") })).expect(200);
    client.post("/job", &json!({ "queue": "mail", "kind": "welcome", "payload": {} })).expect(202);
    let Backend::Postgres(database) = &*backend else { panic!("it is on PostgreSQL") };
    Session::connect(&database.url).run(&format!("select everhook.send('{}', 'a.b', '{{}}')", application.id));
    let used = used();
    assert!(used.len() > 20, "{used:?}");
    let missing = |page: &str| {
        let has = |name: &String| {
            page.lines().any(|line| line.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(['{', ' '])))
        };
        used.iter().filter(|name| !has(name)).cloned().collect::<Vec<_>>()
    };
    // A metric with labels appears with the first work of its kind.
    let mut left = Vec::new();
    until_true("the server has every metric", || {
        let page = server.ops().send_to("GET", "/metrics", &[], b"").unwrap();
        let now = missing(&String::from_utf8(page.body).unwrap());
        if now != left {
            eprintln!("missing: {now:?}");
            left = now;
        }
        left.is_empty()
    });
}
