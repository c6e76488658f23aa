//! The overview of an environment, the endpoints of all applications, and the look-up by id.

use std::time::Duration;

use everhook_core::lifecycle::NextRow;
use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Call, World};

#[tokio::test]
async fn an_overview_has_every_part_before_the_first_message() {
    let world = World::new().await;
    let overview = world.get("/overview?range=15m").await.json();
    assert_eq!((&overview["range"], &overview["stepSeconds"]), (&json!("15m"), &json!(60)));
    let series = overview["series"].as_object().unwrap();
    for (name, steps) in series {
        assert_eq!(steps.as_array().unwrap().len(), 15, "{name}");
    }
    let names: Vec<_> = series.keys().map(String::as_str).collect();
    assert_eq!(names, ["accepted", "dead", "delivered", "failed", "p50", "p95", "p99", "t"]);
    let totals = &overview["totals"];
    assert_eq!((&totals["successRate"], &totals["oldestDueSeconds"]), (&Value::Null, &Value::Null));
    for list in ["failures", "topEndpoints", "queues"] {
        assert_eq!(overview[list], json!([]), "{list}");
    }
}

#[tokio::test]
async fn an_overview_counts_accepted_messages_and_open_tasks() {
    let world = World::with_endpoint().await;
    for row in [NextRow::Dead, NextRow::Pending { due_in: Duration::from_secs(3600) }, NextRow::Gone] {
        world.message("acme", "a.b").await;
        world.deliver(500, b"", row).await;
    }
    world.message("acme", "a.b").await;
    for range in ["15m", "1h", "6h", "24h", "7d"] {
        let overview = world.get(&format!("/overview?range={range}")).await.json();
        let accepted = overview["series"]["accepted"].as_array().unwrap();
        // A step may have ended since the first message.
        let latest: i64 = accepted.iter().rev().take(2).map(|count| count.as_i64().unwrap()).sum();
        assert_eq!(latest, 4, "{range}");
        assert_eq!(overview["totals"]["accepted"], 4);
        let totals = ["pending", "due", "retrying", "leased", "dead"].map(|name| overview["totals"][name].clone());
        assert_eq!(totals, [2, 1, 1, 0, 1].map(Value::from), "{range}");
    }
    world.post("/job", r#"{"queue": "email", "kind": "send", "payload": {}}"#).await;
    let queues = world.get("/overview").await.json()["queues"].clone();
    let want = json!([{"name": "email", "pending": 1, "leased": 0, "dead": 0, "limit": null, "paused": false}]);
    assert_eq!(queues, want);
}

#[tokio::test]
async fn an_overview_refuses_other_ranges_and_callers() {
    let world = World::new().await;
    insta::assert_snapshot!(world.get("/overview?range=2h").await, @r#"422 {"detail":[{"loc":["query","range"],"msg":"must be 15m, 1h, 6h, 24h or 7d","type":"value_error"}]}"#);
    assert_eq!(world.get("/overview?app=acme").await.status, 422, "counters are not kept by application");
    assert_eq!(world.call(Call::new(Method::GET, "/overview").anonymous()).await.status, 401);
    assert_eq!(world.get("/overview").await.json()["nodes"], json!([]), "nodes are for admin keys");
    let nodes = world.call(Call::new(Method::GET, "/overview").bearer(&world.admin_key)).await.json()["nodes"].clone();
    assert_eq!(nodes.as_array().unwrap().len(), 2, "{nodes}");
    assert!(nodes[0]["leases"].is_u64() && nodes[0]["lastSeenAt"].is_string(), "{nodes}");
}

#[tokio::test]
async fn endpoints_of_all_applications_are_listed() {
    let world = World::new().await;
    for application in ["acme", "globex"] {
        world.application(application).await;
        for endpoint in ["one", "two"] {
            world.endpoint(application, endpoint).await;
        }
    }
    world.patch("/app/globex/endpoint/two", r#"{"disabled": true}"#).await;
    world.post("/operational-webhook/endpoint", r#"{"url": "https://example.com/"}"#).await;
    let page = world.get("/endpoint?limit=3").await;
    assert_eq!(
        (page.each("appUid"), page.json()["done"].clone()),
        (vec!["globex".to_owned(), "globex".to_owned(), "acme".to_owned()], json!(false))
    );
    assert_eq!(page.each("state"), ["disabled", "enabled", "enabled"]);
    assert_eq!(page.json()["data"][0]["reason"], "user");
    let rest = world.get(&format!("/endpoint?limit=3&iterator={}", page.text("/iterator"))).await;
    assert_eq!((rest.each("uid"), rest.json()["done"].clone()), (vec!["one".to_owned()], json!(true)));
    assert_eq!(world.get("/endpoint?order=ascending").await.each("appUid"), ["acme", "acme", "globex", "globex"]);
    assert_eq!(world.get("/endpoint?iterator=nonsense").await.status, 422);
}

#[tokio::test]
async fn messages_of_all_applications_are_listed() {
    let world = World::new().await;
    let mut sent = Vec::new();
    for application in ["acme", "globex"] {
        world.application(application).await;
        world.endpoint(application, "main").await;
    }
    for (application, event_type) in [("acme", "a"), ("globex", "b"), ("acme", "b"), ("globex", "a")] {
        sent.push(world.message(application, event_type).await);
    }
    sent.reverse();
    let page = world.get("/message?limit=3").await;
    assert_eq!((page.each("id"), page.json()["done"].clone()), (sent[..3].to_vec(), json!(false)));
    assert_eq!(page.each("appUid"), ["globex", "acme", "globex"]);
    assert!(page.json()["data"][0].get("payload").is_none(), "payloads are not part of the list");
    let rest = world.get(&format!("/message?limit=3&iterator={}", page.text("/iterator"))).await;
    assert_eq!((rest.each("id"), rest.json()["done"].clone()), (sent[3..].to_vec(), json!(true)));
    assert_eq!(world.get("/message?event_types=b").await.each("id"), [&*sent[1], &*sent[2]]);
    assert_eq!(world.get("/message?tag=none").await.json()["data"], json!([]));
    world.deliver(200, b"", NextRow::Gone).await;
    let counted = world.get("/message?limit=1&with_deliveries=true").await.json()["data"][0]["deliveries"].clone();
    assert_eq!((&counted["succeeded"], &counted["pending"]), (&json!(1), &json!(0)));
    let there = world.call(Call::new(Method::GET, "/message").bearer(&world.other_key)).await;
    assert_eq!(there.json()["data"], json!([]), "another environment");
    assert_eq!(world.get("/message?iterator=nonsense").await.status, 422);
    assert_eq!(world.get("/message?status=dead").await.status, 422, "unknown parameters are refused");
}

#[tokio::test]
async fn an_id_leads_to_its_object() {
    let world = World::new().await;
    let application = world.application("acme").await;
    let endpoint = world.endpoint("acme", "main").await;
    let message = world.message("acme", "a.b").await;
    let job = world.post("/job", r#"{"queue": "email", "kind": "send", "payload": {}}"#).await.text("/id");
    let batch = world.post("/batch", r#"{"name": "b", "application": "acme", "prefix": "p"}"#).await.created();
    let known = [
        (application.clone(), "application"),
        (endpoint, "endpoint"),
        (message, "message"),
        (job, "job"),
        (batch, "batch"),
    ];
    for (id, kind) in known {
        let found = world.get(&format!("/lookup/{id}")).await.json();
        assert_eq!((&found["kind"], &found["id"]), (&json!(kind), &json!(id)));
        let path = found["path"].as_str().unwrap().strip_prefix("/api/v1").unwrap();
        assert_eq!(world.get(path).await.json()["id"], json!(id), "{path}");
        if kind == "message" || kind == "endpoint" {
            assert_eq!(found["appId"], json!(application));
        }
    }
    for unknown in ["ep_2DjGKmz0kEYqEVzyXrzfOGlSzvO", "msg_2DjGKmz0kEYqEVzyXrzfOGlSzvO", "acme", "atmpt_1"] {
        assert_eq!(world.get(&format!("/lookup/{unknown}")).await.code(), (404, "not_found".to_owned()), "{unknown}");
    }
}

#[tokio::test]
async fn a_list_of_messages_counts_their_deliveries_on_request() {
    let world = World::with_application().await;
    world.message("acme", "to.nobody").await;
    world.endpoint("acme", "one").await;
    let retry = NextRow::Pending { due_in: Duration::from_secs(3600) };
    for (status, row) in [(200, NextRow::Gone), (500, NextRow::Dead), (500, retry)] {
        world.message("acme", "a.b").await;
        world.deliver(status, b"", row).await;
    }
    world.endpoint("acme", "two").await;
    world.message("acme", "a.b").await;
    let page = world.get("/app/acme/msg?with_deliveries=true").await.json();
    let states = ["pending", "retrying", "sending", "held", "succeeded", "dead", "cancelled"];
    let counts = |message: &Value| states.map(|state| message["deliveries"][state].as_u64().unwrap());
    let counts: Vec<_> = page["data"].as_array().unwrap().iter().map(counts).collect();
    let want = [[2, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0, 0], [0; 7]];
    assert_eq!(counts, want);
    assert!(world.get("/app/acme/msg").await.json()["data"][0]["deliveries"].is_null());
}
