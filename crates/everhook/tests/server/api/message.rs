//! Messages.

use std::time::Duration;

use everhook_core::limits::DELIVER_AHEAD_MAX;
use everhook_core::time::Timestamp;
use serde_json::json;

use crate::api::world::World;

#[tokio::test]
async fn a_message_is_accepted_and_shown_byte_for_byte() {
    let world = World::with_application().await;
    let payload = "{ \"b\":1e2,\n\t\"a\" : \"\\u00e4\", \"a\": 0.10 }";
    let body = format!(
        r#"{{"eventType": "user.created", "payload": {payload}, "eventId": "e-1", "channels": ["eu"], "tags": ["t"]}}"#
    );
    let created = world.post("/app/acme/msg", &body).await;
    insta::assert_snapshot!(created, @r#"
    202 {"id":"msg_#1","eventType":"user.created","eventId":"e-1","channels":["eu"],"tags":["t"],"payload":{ "b":1e2,
    	"a" : "\u00e4", "a": 0.10 },"timestamp":"<time>"}
    "#);
    assert!(created.body.contains(payload), "{created}");
    let id = created.created();
    assert_eq!(world.get(&format!("/app/acme/msg/{id}")).await.body, created.body);
    assert_eq!(world.get("/app/acme/msg/e-1").await.body, created.body, "by event id");
    insta::assert_snapshot!(world.get("/app/acme/msg/e-1?with_content=false").await, @r#"200 {"id":"msg_#1","eventType":"user.created","eventId":"e-1","channels":["eu"],"tags":["t"],"payload":{},"timestamp":"<time>"}"#);
    insta::assert_snapshot!(world.delete("/app/acme/msg/e-1/content").await, @"204");
    insta::assert_snapshot!(world.get("/app/acme/msg/e-1").await, @r#"200 {"id":"msg_#1","eventType":"user.created","eventId":"e-1","channels":["eu"],"tags":["t"],"payload":{"expired":true},"timestamp":"<time>"}"#);
    insta::assert_snapshot!(world.get("/app/acme/msg/nothing").await, @r#"404 {"code":"not_found","detail":"message \"nothing\" not found"}"#);
    insta::assert_snapshot!(world.get("/app/acme/msg/msg_nothing").await, @r#"404 {"code":"not_found","detail":"message msg_nothing not found"}"#);
}

#[tokio::test]
async fn an_application_is_named_by_id_or_uid_or_created_on_the_fly() {
    let world = World::new().await;
    let id = world.application("acme").await;
    let simple = r#"{"eventType": "a", "payload": {}}"#;
    assert_eq!(world.post(&format!("/app/{id}/msg/"), simple).await.status, 202);
    insta::assert_snapshot!(world.post("/app/nobody/msg", simple).await, @r#"404 {"code":"not_found","detail":"application \"nobody\" not found"}"#);
    insta::assert_snapshot!(world.post("/app/app_23rb8YdGqMT0qIzpgGwdXfHirMu/msg", simple).await, @r#"404 {"code":"not_found","detail":"application app_#1 not found"}"#);
    insta::assert_snapshot!(world.post("/app/app_short/msg", simple).await, @r#"404 {"code":"not_found","detail":"application app_short not found"}"#);
    let with = |uid: &str| format!(r#"{{"eventType": "a", "payload": {{}}, "application": {{"name": "New"{uid}}}}}"#);
    insta::assert_snapshot!(world.post("/app/new/msg", &with("")).await, @r#"422 {"detail":[{"loc":["body","application","uid"],"msg":"must be the uid of the path","type":"application_uid_missing"}]}"#);
    insta::assert_snapshot!(world.post("/app/new/msg", &with(r#", "uid": "old""#)).await, @r#"422 {"detail":[{"loc":["body","application","uid"],"msg":"is not the uid of the path","type":"application_uid_mismatch"}]}"#);
    assert_eq!(world.post("/app/new/msg", &with(r#", "uid": "new""#)).await.status, 202);
    assert_eq!(world.get("/app/new").await.text("/name"), "New");
    assert_eq!(world.post("/app/new/msg", &with(r#", "uid": "new""#)).await.status, 202);
    assert_eq!(world.get("/app/new/msg").await.each("id").len(), 2);
}

#[tokio::test]
async fn a_uid_that_moves_takes_its_messages_along() {
    let world = World::new().await;
    let (first, second) = (world.application("acme").await, world.application("other").await);
    let simple = r#"{"eventType": "a", "payload": {}}"#;
    assert_eq!(world.post("/app/acme/msg", simple).await.status, 202);
    assert_eq!(world.post("/app/acme/msg", simple).await.status, 202);
    assert_eq!(world.patch(&format!("/app/{first}"), r#"{"uid": null}"#).await.status, 200);
    assert_eq!(world.post("/app/acme/msg", simple).await.status, 404);
    assert_eq!(world.patch(&format!("/app/{second}"), r#"{"uid": "acme"}"#).await.status, 200);
    assert_eq!(world.post("/app/acme/msg", simple).await.status, 202);
    assert_eq!(world.get(&format!("/app/{first}/msg")).await.each("id").len(), 2);
    assert_eq!(world.get(&format!("/app/{second}/msg")).await.each("id").len(), 1);
}

#[tokio::test]
async fn an_event_id_is_accepted_once_per_application() {
    let world = World::with_application().await;
    world.application("other").await;
    let body = r#"{"eventType": "a", "payload": {}, "eventId": "e-1"}"#;
    assert_eq!(world.post("/app/acme/msg", body).await.status, 202);
    insta::assert_snapshot!(world.post("/app/acme/msg", body).await, @r#"409 {"code":"conflict","detail":"A message with this eventId already exists."}"#);
    assert_eq!(world.post("/app/other/msg", body).await.status, 202);
}

#[tokio::test]
async fn a_raw_payload_takes_the_place_of_the_payload() {
    let world = World::with_application().await;
    let with = async |raw: &str| {
        let body =
            format!(r#"{{"eventType": "a", "payload": {{}}, "transformationsParams": {{"rawPayload": {raw}}}}}"#);
        world.post("/app/acme/msg?with_content=true", &body).await.json()["payload"].clone()
    };
    assert_eq!(with(r#""{\"a\": 1}""#).await, json!({"a": 1}));
    assert_eq!(with(r#""plain <text>""#).await, json!({"rawPayload": "plain <text>"}));
    let listed = world.get("/app/acme/msg").await.each("payload");
    assert_eq!(listed, [r#"{"rawPayload":"plain <text>"}"#, r#"{"a":1}"#]);
}

#[tokio::test]
async fn the_payload_may_be_called_data() {
    let world = World::with_application().await;
    let created = world.post("/app/acme/msg", r#"{"eventType": "a", "data": {"x": 1}}"#).await;
    assert_eq!(created.json()["payload"], json!({"x": 1}));
}

#[tokio::test]
async fn bad_messages_are_refused_by_field() {
    let world = World::with_application().await;
    let with = async |body: &str| world.post("/app/acme/msg", body).await;
    insta::assert_snapshot!(with(r#"{"payload": {}}"#).await, @r#"422 {"detail":[{"loc":["body"],"msg":"missing field `eventType` at line 1 column 15","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a"}"#).await, @r#"422 {"detail":[{"loc":["body","payload"],"msg":"is required","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": null}"#).await, @r#"422 {"detail":[{"loc":["body","payload"],"msg":"is required","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": [1]}"#).await, @r#"422 {"detail":[{"loc":["body","payload"],"msg":"must be a JSON object","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a b", "payload": {}}"#).await, @r#"422 {"detail":[{"loc":["body","eventType"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": {}, "eventId": "msg_1"}"#).await, @r#"422 {"detail":[{"loc":["body","eventId"],"msg":"must not start with \"msg_\", which is reserved for ids","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": {}, "channels": []}"#).await, @r#"422 {"detail":[{"loc":["body","channels"],"msg":"must have 1 to 10 entries, or be null","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": {}, "channels": ["ok", "\u0000"]}"#).await, @r#"422 {"detail":[{"loc":["body","channels","[1]"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": {}, "channels": "eu"}"#).await, @r#"422 {"detail":[{"loc":["body","channels"],"msg":"invalid type: string \"eu\", expected a sequence at line 1 column 50","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": {}, "payloadRetentionPeriod": 4}"#).await, @r#"422 {"detail":[{"loc":["body","payloadRetentionPeriod"],"msg":"must be from 5 to 90","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": {}, "deliverAt": "9999-01-01T00:00:00Z"}"#).await, @r#"422 {"detail":[{"loc":["body","deliverAt"],"msg":"must be at most 30 days ahead","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"eventType": "a", "payload": {}, "deliverAt": "tomorrow"}"#).await, @r#"422 {"detail":[{"loc":["body","deliverAt"],"msg":"not an RFC 3339 date and time, such as 2026-01-31T12:00:00Z at line 1 column 58","type":"value_error.jsondecode"}]}"#);
    let channels = (0..11).map(|n| format!("\"c{n}\"")).collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"eventType": "a", "payload": {{}}, "channels": [{channels}]}}"#);
    insta::assert_snapshot!(with(&body).await, @r#"422 {"detail":[{"loc":["body","channels"],"msg":"must have 1 to 10 entries, or be null","type":"value_error"}]}"#);
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), 0, "none was accepted");
}

#[tokio::test]
async fn a_list_of_messages_is_filtered() {
    let world = World::with_application().await;
    let send = async |event_type: &str, more: &str| {
        let body = format!(r#"{{"eventType": "{event_type}", "payload": {{"t": "{event_type}"}}{more}}}"#);
        world.post("/app/acme/msg", &body).await
    };
    send("a", r#", "channels": ["eu"]"#).await;
    send("b", r#", "channels": ["us", "eu"], "tags": ["t1"]"#).await;
    send("c", "").await;
    let types = async |query: &str| world.get(&format!("/app/acme/msg{query}")).await.each("eventType");
    assert_eq!(types("").await, ["c", "b", "a"]);
    assert_eq!(types("?event_types=a,c").await, ["c", "a"]);
    assert_eq!(types("?event_types=a&event_types=b").await, ["b", "a"]);
    assert_eq!(types("?event_types[]=a").await, ["a"]);
    assert_eq!(types("?channel=eu").await, ["b", "a"]);
    assert_eq!(types("?tag=t1").await, ["b"]);
    assert_eq!(types("?payload_contains=%22t%22:%20%22b").await, ["b"]);
    assert_eq!(types("?payload_contains=t&channel=eu").await, ["b", "a"]);
    assert_eq!(types("?payload_contains=T").await, [""; 0]);
    insta::assert_snapshot!(world.get("/app/acme/msg?payload_contains=").await, @r#"422 {"detail":[{"loc":["query","payload_contains"],"msg":"must have 1 to 256 bytes","type":"value_error"}]}"#);
    assert_eq!(types("?before=2020-01-01T00:00:00Z").await, [""; 0]);
    assert_eq!(types("?after=2020-01-01T00:00:00%2B01:00").await, ["c", "b", "a"]);
    assert_eq!(types("?after=2020-01-01T00:00:00Z&limit=2").await, ["b", "a"], "the oldest after that time");
    assert_eq!(world.get("/app/acme/msg?with_content=false").await.each("payload"), ["{}", "{}", "{}"]);
    insta::assert_snapshot!(world.get("/app/acme/msg?before=yesterday").await, @r#"422 {"detail":[{"loc":["query","before"],"msg":"not an RFC 3339 date and time, such as 2026-01-31T12:00:00Z","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app/acme/msg?channel=a%20b").await, @r#"422 {"detail":[{"loc":["query","channel"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app/acme/msg?with_content=1").await, @r#"422 {"detail":[{"loc":["query","with_content"],"msg":"provided string was not `true` or `false`","type":"value_error"}]}"#);
}

#[tokio::test]
async fn a_message_may_be_delivered_later() {
    let world = World::with_endpoint().await;
    let at = |ahead: Duration| world.node.now().plus(ahead);
    let send = async |at: Timestamp| {
        let body = json!({ "eventType": "a", "payload": {}, "deliverAt": at });
        world.post("/app/acme/msg", &body.to_string()).await
    };
    let latest = at(DELIVER_AHEAD_MAX);
    let later = send(latest).await;
    assert_eq!(later.status, 202);
    let shown = world.get(&format!("/app/acme/msg/{}/endpoint", later.text("/id"))).await;
    assert_eq!(shown.text("/data/0/nextAttempt").parse::<Timestamp>().unwrap(), latest);
    assert_eq!(world.lease().await.len(), 0);
    assert_eq!(send(at(DELIVER_AHEAD_MAX + Duration::from_secs(60))).await.status, 422);
    assert_eq!(send("2001-01-01T00:00:00Z".parse().unwrap()).await.status, 202);
    assert_eq!(world.lease().await.len(), 1, "a time in the past means now");
}

#[tokio::test]
async fn a_payload_is_gone_when_its_retention_ends() {
    let world = World::with_endpoint().await;
    let create = async |more: &str| {
        world.post("/app/acme/msg", &format!(r#"{{"eventType": "a", "payload": {{"n": 1}}, {more}}}"#)).await
    };
    let days = create(r#""payloadRetentionPeriod": 5"#).await.created();
    let hours = create(r#""payloadRetentionHours": 2"#).await.created();
    let plain = world.message("acme", "a").await;
    let payload = async |id: &str| world.get(&format!("/app/acme/msg/{id}")).await.json()["payload"].clone();
    let resend = async |id: &str| world.post(&format!("/app/acme/msg/{id}/endpoint/main/resend"), "").await.status;
    world.pass(Duration::from_secs(2 * 3600 - 1)).await;
    assert_eq!(payload(&hours).await, json!({ "n": 1 }));
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(payload(&hours).await, json!({ "expired": true }));
    assert_eq!(resend(&hours).await, 400);
    assert_eq!(payload(&days).await, json!({ "n": 1 }));
    world.pass(Duration::from_secs(5 * 24 * 3600)).await;
    assert_eq!(payload(&days).await, json!({ "expired": true }));
    assert_eq!(payload(&plain).await, json!({ "n": 1 }));
    let listed = world.get("/app/acme/msg").await.json();
    let expired = listed["data"].as_array().unwrap().iter().filter(|one| one["payload"] == json!({ "expired": true }));
    assert_eq!(expired.count(), 2, "{listed}");
    let late = world.node.now().plus(Duration::from_secs(6 * 24 * 3600));
    let late = create(&format!(r#""payloadRetentionPeriod": 5, "deliverAt": "{late}""#)).await;
    assert_eq!(late.json()["detail"][0]["loc"], json!(["body", "deliverAt"]), "{late}");
    for bad in [
        r#""payloadRetentionHours": 0"#,
        r#""payloadRetentionHours": 2161"#,
        r#""payloadRetentionHours": 24, "payloadRetentionPeriod": 5"#,
    ] {
        assert_eq!(create(bad).await.status, 422, "{bad}");
    }
}

#[tokio::test]
async fn the_time_of_delivery_is_shown() {
    let world = World::with_application().await;
    let at = world.node.now().plus(Duration::from_secs(24 * 3600));
    let body = format!(r#"{{"eventType": "a", "payload": {{}}, "deliverAt": "{at}"}}"#);
    let created = world.post("/app/acme/msg", &body).await;
    assert_eq!(created.text("/deliverAt"), at.to_string());
    let found = world.get(&format!("/app/acme/msg/{}", created.created())).await;
    assert_eq!(found.text("/deliverAt"), at.to_string());
    let plain = world.message("acme", "a").await;
    assert_eq!(world.get(&format!("/app/acme/msg/{plain}")).await.json().get("deliverAt"), None);
}

#[tokio::test]
async fn a_raw_payload_names_its_content_type_and_no_other_header() {
    let world = World::with_endpoint().await;
    let with = async |headers: &str| {
        let body = format!(
            r#"{{"eventType": "a", "payload": {{}}, "transformationsParams": {{"rawPayload": "a,b", "headers": {headers}}}}}"#
        );
        world.post("/app/acme/msg", &body).await
    };
    assert_eq!(with(r#"{"Content-Type": "text/csv"}"#).await.status, 202);
    let leased = world.lease().await;
    assert_eq!(leased[0].message().unwrap().rest.content_type.as_deref(), Some("text/csv"));
    insta::assert_snapshot!(with(r#"{"x-other": "1"}"#).await, @r#"422 {"detail":[{"loc":["body","transformationsParams","headers","x-other"],"msg":"only one content-type is allowed here: set other headers on the endpoint","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"{"content-type": "a\nb"}"#).await, @r#"422 {"detail":[{"loc":["body","transformationsParams","headers","content-type"],"msg":"must have at most 256 bytes and no control characters","type":"value_error"}]}"#);
    assert_eq!(with(r#"{"content-type": "a/b", "Content-Type": "c/d"}"#).await.status, 422);
}
