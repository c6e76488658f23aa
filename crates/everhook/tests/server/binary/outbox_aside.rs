//! Rows that were set aside: list, fix, retry and discard, by API and command line.

use everhook_testkit::wait::{until, until_true};
use serde_json::{Value, json};

use crate::binary::environment::everhook;
use crate::binary::outbox::Stage;
use crate::binary::server::Backend;

/// A stage with three rows set aside, and an admin key.
fn stage() -> (Stage, String) {
    let stage = Stage::new(&[]);
    stage.session.run(
        "select everhook.send('acme', 'order.paid', payload) from unnest(array['one', '[2]', '{\"three\"']) as payload",
    );
    until("three rows are aside", || {
        (stage.session.column("select id from everhook.outbox_aside").len() == 3).then_some(())
    });
    let admin = Backend::postgres_at(stage.url.clone()).run(&["key", "create", "--admin"]);
    (stage, admin.trim().to_owned())
}

#[test]
fn rows_that_were_set_aside_are_seen_fixed_retried_and_discarded() {
    let (stage, admin) = stage();
    let client = stage.server.client_with(&admin);
    let outboxes = client.get("/outbox").expect(200);
    let main = &outboxes["data"][0];
    assert_eq!(
        (&main["name"], &main["reachable"], &main["depth"], &main["setAside"]),
        (&json!("main"), &json!(true), &json!(0), &json!(3))
    );
    let rows = client.get("/outbox/main/aside").expect(200);
    assert_eq!((&rows["data"][0]["payload"], &rows["done"]), (&json!("one"), &json!(true)));
    assert_eq!(rows["data"][0]["error"], "payload must be a JSON object");
    let id = |index: usize| rows["data"][index]["id"].as_i64().unwrap();
    let page = client.get("/outbox/main/aside?limit=2").expect(200);
    assert_eq!((page["data"].as_array().unwrap().len(), &page["done"]), (2, &json!(false)));
    let page = client.get(&format!("/outbox/main/aside?limit=2&iterator={}", id(1))).expect(200);
    assert_eq!((&page["data"][0]["id"], &page["done"]), (&json!(id(2)), &json!(true)));

    // An unchanged row is set aside again; a fixed row is delivered.
    client.post(&format!("/outbox/main/aside/{}/retry", id(0)), &json!({})).expect(202);
    until("it is aside again", || {
        let rows = client.get("/outbox/main/aside").expect(200);
        (rows["data"].as_array().unwrap().len() == 3).then_some(())
    });
    client.patch(&format!("/outbox/main/aside/{}", id(0)), &json!({ "payload": "{\"number\": 1}" })).expect(204);
    client.post(&format!("/outbox/main/aside/{}/retry", id(0)), &json!({})).expect(202);
    assert_eq!(stage.receiver.wait_for("/", 1)[0].body, b"{\"number\": 1}");
    client.delete(&format!("/outbox/main/aside/{}", id(1))).expect(204);
    client.patch(&format!("/outbox/main/aside/{}", id(2)), &json!({ "payload": "{\"number\": 3}" })).expect(204);
    assert_eq!(client.post("/outbox/main/aside/retry", &json!({})).expect(202), json!({ "retried": 1, "done": true }));
    stage.receiver.wait_for("/", 2);
    assert_eq!(client.get("/outbox/main/aside").expect(200)["data"], json!([]));

    // Missing rows are not found, and only an admin key sees any rows.
    for path in ["/outbox/main/aside/1000", "/outbox/main/aside/x", "/outbox/other/aside/1"] {
        client.delete(path).expect(404);
    }
    client.post("/outbox/main/aside/1000/retry", &json!({})).expect(404);
    client.patch("/outbox/main/aside/1000", &json!({})).expect(404);
    for path in ["/outbox", "/outbox/main/aside"] {
        stage.server.client().get(path).expect(403);
    }
}

#[test]
fn the_command_line_shows_and_repairs_an_outbox() {
    let (stage, admin) = stage();
    let run = |arguments: &[&str]| {
        let mut command = everhook();
        command.arg("outbox").args(arguments).env("EVERHOOK_URL", stage.server.url()).env("EVERHOOK_KEY", &admin);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let status = run(&["status"]);
    assert!(status.starts_with("OUTBOX ") && status.contains("main    reachable  0      -       3"), "{status}");
    let rows: Value = serde_json::from_str(&run(&["list", "main", "--json"])).unwrap();
    let id = |index: usize| rows[index]["id"].to_string();
    let listed = run(&["list", "main"]);
    assert!(listed.lines().count() == 4 && listed.contains("payload must be a JSON object"), "{listed}");
    run(&["fix", "main", &id(0), "--payload", "{\"number\": 1}", "--event-type", "order.fixed"]);
    assert_eq!(run(&["retry", "main", &id(0)]), "returned 1 row to the outbox\n");
    let seen = stage.receiver.wait_for("/", 1);
    assert_eq!(seen[0].body, b"{\"number\": 1}");
    assert_eq!(run(&["discard", "main", &id(1), "--yes"]), "discarded 1 row\n");
    assert_eq!(run(&["retry", "main", "--all"]), "returned 1 row to the outbox\n");
}

#[test]
fn what_waits_is_in_the_metrics() {
    let (stage, admin) = stage();
    stage.session.run("select everhook.send('acme', 'order.paid', '{}')");
    stage.receiver.wait_for("/", 1);
    // The relay counts a row after its message was accepted, and looks at the depth at an interval.
    for line in [
        "everhook_outbox_aside{outbox=\"main\"} 3",
        "everhook_outbox_rows_relayed_total{outbox=\"main\"} 4",
        "everhook_outbox_rows_set_aside_total{outbox=\"main\"} 3",
        "everhook_outbox_depth{outbox=\"main\"} 0",
        "everhook_outbox_oldest_age_seconds{outbox=\"main\"} 0.0",
        "everhook_outbox_lag_seconds_count 4",
    ] {
        until_true(&format!("the metrics contain {line}"), || {
            let page = stage.server.client_with(&admin).send_to("GET", "/metrics", &[], b"").unwrap();
            String::from_utf8(page.body).unwrap().lines().any(|found| found == line)
        });
    }
}

#[test]
fn rows_that_cannot_be_read_are_set_aside_and_shown_as_far_as_they_can_be() {
    let stage = Stage::new(&[]);
    stage.session.run(
        "begin;
        insert into everhook.outbox (application, event_type, payload, deliver_at) values ('acme', 'order.paid', '{}', 'infinity');
        insert into everhook.outbox (application, event_type, payload, tags) values ('acme', 'order.paid', '{}', array['a', null]);
        insert into everhook.outbox (application, event_type, payload, tags)
        select 'acme', 'order.paid', '{}', array_agg(md5(number::text)) from generate_series(1, 100000) as number;
        select everhook.send('acme', 'order.paid', '{\"number\": 1}');
        commit",
    );
    assert_eq!(stage.receiver.wait_for("/", 1)[0].body, b"{\"number\": 1}");
    stage.wait_until_empty();
    let admin = Backend::postgres_at(stage.url.clone()).run(&["key", "create", "--admin"]);
    let rows = stage.server.client_with(admin.trim()).get("/outbox/main/aside").expect(200);
    let told = |index: usize| (rows["data"][index]["error"].as_str().unwrap(), &rows["data"][index]["tags"]);
    assert_eq!(told(0), ("deliverAt must be from 1970 to 9998", &Value::Null));
    assert_eq!(rows["data"][0]["deliverAt"].as_str().map(|time| &time[..4]), Some("9999"));
    assert_eq!(told(1), ("tags must not hold nulls", &json!(["a", ""])));
    assert_eq!(told(2), ("the row is larger than the 1114112 bytes that are relayed", &Value::Null));
    stage.server.wait_for_log("aside: tags must not hold nulls");
}
