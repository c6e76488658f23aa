//! Attempts, destinations, resend and redrive.

use std::time::Duration;

use everhook_core::lifecycle::NextRow;
use http::Method;

use crate::api::world::{Call, World};

#[tokio::test]
async fn attempts_are_listed_by_message_and_by_endpoint() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "user.created").await;
    let listed = world.get(&format!("/app/acme/attempt/msg/{message}")).await;
    insta::assert_snapshot!(listed, @r#"200 {"data":[],"iterator":null,"done":true}"#);
    let retry = NextRow::Pending { due_in: Duration::ZERO };
    assert_eq!(world.deliver(500, b"\xff\xfe not text", retry).await, 1);
    assert_eq!(world.deliver(200, b"fine", NextRow::Gone).await, 1);
    let listed = world.get(&format!("/app/acme/attempt/msg/{message}")).await;
    insta::assert_snapshot!(listed, @r#"200 {"data":[{"id":"atmpt_#1","msgId":"msg_#2","endpointId":"ep_#3","url":"http://127.0.0.1:9/main","response":"fine","responseStatusCode":200,"responseDurationMs":12,"status":0,"statusText":"success","triggerType":0,"class":"success","timestamp":"<time>","phases":{"reused":false,"connectMs":1.204,"firstByteMs":20.111},"responseHeaders":[{"name":"server","value":"a \"quoted\" \u0000 name"},{"name":"set-cookie","value":null}]},{"id":"atmpt_#4","msgId":"msg_#2","endpointId":"ep_#3","url":"http://127.0.0.1:9/main","response":"//4gbm90IHRleHQ=","responseStatusCode":500,"responseDurationMs":12,"status":2,"statusText":"fail","triggerType":0,"class":"status","timestamp":"<time>"}],"iterator":"atmpt_#4","prevIterator":"-atmpt_#1","done":true}"#);
    assert_eq!(world.get("/app/acme/attempt/endpoint/main").await.body, listed.body);
    assert_eq!(world.get(&format!("/app/acme/msg/{message}/attempt")).await.body, listed.body);
    assert_eq!(world.get(&format!("/app/acme/msg/{message}/endpoint/main/attempt")).await.body, listed.body);
    assert_eq!(world.get(&format!("/app/acme/attempt/msg/{message}?endpoint_id=main")).await.body, listed.body);
    assert_eq!(world.get(&format!("/app/acme/attempt/msg/{message}?endpoint_id=nobody")).await.status, 404);

    let statuses = async |query: &str| {
        world.get(&format!("/app/acme/attempt/endpoint/main?{query}")).await.each("responseStatusCode")
    };
    assert_eq!(statuses("status=0").await, ["200"]);
    assert_eq!(statuses("status=2").await, ["500"]);
    assert_eq!(statuses("status=1").await, [""; 0]);
    assert_eq!(statuses("status_code_class=500").await, ["500"]);
    assert_eq!(statuses("status_code_class=0").await, [""; 0]);
    assert_eq!(statuses("event_types=user.created").await, ["200", "500"]);
    assert_eq!(statuses("event_types=other").await, [""; 0]);
    assert_eq!(statuses("channel=eu").await, [""; 0]);
    assert_eq!(statuses("before=2020-01-01T00:00:00Z").await, [""; 0]);
    assert_eq!(statuses("after=2020-01-01T00:00:00Z&limit=1").await, ["500"]);
    insta::assert_snapshot!(world.get("/app/acme/attempt/endpoint/main?status=9").await, @r#"422 {"detail":[{"loc":["query","status"],"msg":"must be from 0 to 4","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app/acme/attempt/endpoint/main?status_code_class=250").await, @r#"422 {"detail":[{"loc":["query","status_code_class"],"msg":"must be 0, 100, 200, 300, 400 or 500","type":"value_error"}]}"#);
    let bare = world.get("/app/acme/attempt/endpoint/main?with_content=false").await;
    assert_eq!(bare.each("response"), ["{}", "{}"]);
    let newest = &bare.json()["data"][0];
    assert!(newest.get("phases").is_some() && newest.get("responseHeaders").is_none(), "{newest}");

    let attempt = listed.text("/data/0/id");
    let path = format!("/app/acme/msg/{message}/attempt/{attempt}");
    let mut single = world.get(&path).await.json();
    let request = single.as_object_mut().and_then(|members| members.remove("request")).unwrap_or_default();
    assert_eq!(request["exact"], false, "the attempt has no number");
    assert_eq!(single, listed.json()["data"][0], "lists have no requests");
    assert_eq!(world.delete(&format!("{path}/content")).await.status, 204);
    assert_ne!(world.get(&path).await.text("/response"), "fine");
    let unknown = format!("/app/acme/msg/{message}/attempt/atmpt_23rb8YdGqMT0qIzpgGwdXfHirMu");
    assert_eq!(world.get(&unknown).await.status, 404);
    assert_eq!(world.delete(&format!("{unknown}/content")).await.status, 404);
    assert_eq!(world.get(&format!("/app/acme/msg/{message}/attempt/nonsense")).await.status, 404);
}

#[tokio::test]
async fn destinations_tell_where_a_message_stands() {
    let world = World::with_application().await;
    for uid in ["one", "two", "three"] {
        world.endpoint("acme", uid).await;
    }
    let message = world.message("acme", "a").await;
    let path = format!("/app/acme/msg/{message}/endpoint");
    let first = world.get(&format!("{path}?limit=1")).await;
    insta::assert_snapshot!(first, @r#"200 {"data":[{"id":"ep_#1","url":"http://127.0.0.1:9/one","description":"","disabled":false,"uid":"one","throttleRate":null,"rateLimit":null,"eventTypes":null,"filterTypes":null,"channels":null,"version":1,"createdAt":"<time>","updatedAt":"<time>","status":1,"statusText":"pending","nextAttempt":"<time>","held":false}],"iterator":"ep_#1","prevIterator":"-ep_#1","done":false}"#);
    let second = world.get(&format!("{path}?limit=2&iterator={}", first.text("/iterator"))).await;
    assert_eq!((second.each("uid"), second.json()["done"].clone()), (vec!["two".into(), "three".into()], true.into()));
    let back = world.get(&format!("{path}?limit=5&iterator={}", second.text("/prevIterator"))).await;
    assert_eq!(back.each("uid"), ["one"]);

    world.patch("/app/acme/endpoint/two", r#"{"disabled": true}"#).await;
    world.delete("/app/acme/endpoint/three").await;
    let statuses = async || {
        let all = world.get(&path).await;
        (all.each("statusText").join(" "), all.each("held").join(" "))
    };
    assert_eq!(statuses().await, ("pending pending canceled".into(), "false true false".into()));
    world.deliver(200, b"", NextRow::Gone).await;
    assert_eq!(statuses().await.0, "success pending canceled");
}

#[tokio::test]
async fn a_dead_delivery_is_redriven() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "a").await;
    world.message("acme", "b").await;
    assert_eq!(world.deliver(500, b"", NextRow::Dead).await, 2);
    let path = format!("/app/acme/msg/{message}/endpoint");
    assert_eq!(world.get(&path).await.each("statusText"), ["fail"]);
    insta::assert_snapshot!(world.post(&format!("{path}/main/redrive"), "").await, @r#"202 {"redriven":1,"done":true}"#);
    assert_eq!(world.get(&path).await.each("status").len(), 1);
    assert_ne!(world.get(&path).await.each("statusText"), ["fail"]);
    insta::assert_snapshot!(world.post("/app/acme/endpoint/main/redrive", r#"{"until": "2020-01-01T00:00:00Z"}"#).await, @r#"202 {"redriven":0,"done":true}"#);
    insta::assert_snapshot!(world.post("/app/acme/endpoint/main/redrive", r#"{"since": "2020-01-01T00:00:00Z"}"#).await, @r#"202 {"redriven":1,"done":true}"#);
    insta::assert_snapshot!(world.post("/app/acme/endpoint/main/redrive", "").await, @r#"202 {"redriven":0,"done":true}"#);
    insta::assert_snapshot!(world.post("/app/acme/endpoint/main/redrive", r#"{"since": 5}"#).await, @r#"422 {"detail":[{"loc":["body","since"],"msg":"invalid type: integer `5`, expected a string at line 1 column 11","type":"value_error.jsondecode"}]}"#);
    assert_eq!(world.deliver(200, b"", NextRow::Gone).await, 2);
    assert_eq!(world.get(&path).await.each("statusText"), ["success"]);
}

#[tokio::test]
async fn a_message_is_sent_once_more() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "a").await;
    assert_eq!(world.deliver(200, b"", NextRow::Gone).await, 1);
    let path = format!("/app/acme/msg/{message}/endpoint/main/resend");
    let call = |key: &str| Call::new(Method::POST, &path).header("idempotency-key", key);
    insta::assert_snapshot!(world.call(call("k1")).await, @"202 {}");
    assert_eq!(world.call(call("k1")).await.status, 202, "the same request again");
    assert_eq!(world.call(call("k1").body("{}")).await.code(), (409, "idempotency_key_reused".to_owned()));
    assert_eq!(world.deliver(200, b"", NextRow::Gone).await, 1, "one attempt");
    let attempts = world.get(&format!("/app/acme/attempt/msg/{message}")).await;
    assert_eq!(attempts.each("triggerType"), ["1", "0"]);
    assert_eq!(world.post(&path.replace("main", "nobody"), "").await.status, 404);
    world.delete(&format!("/app/acme/msg/{message}/content")).await;
    insta::assert_snapshot!(world.post(&path, "").await, @r#"400 {"code":"missing_payload","detail":"The payload of the message was removed."}"#);
}

#[tokio::test]
async fn an_expunged_reply_says_so() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "a").await;
    assert_eq!(world.deliver(200, b"thanks", NextRow::Gone).await, 1);
    let attempt = world.get("/app/acme/attempt/endpoint/main").await.text("/data/0/id");
    let path = format!("/app/acme/msg/{message}/attempt/{attempt}");
    assert_eq!(world.get(&path).await.text("/response"), "thanks");
    assert_eq!(world.delete(&format!("{path}/content")).await.status, 204);
    assert_eq!(world.get(&path).await.text("/response"), "EXPUNGED");
}

#[tokio::test]
async fn attempts_are_shown_with_their_messages_on_request() {
    let world = World::with_endpoint().await;
    let messages = [world.message("acme", "a").await, world.message("acme", "b").await];
    assert_eq!(world.deliver(200, b"", NextRow::Gone).await, 2);
    let plain = world.get("/app/acme/attempt/endpoint/main").await;
    assert_eq!(plain.json()["data"][0].get("msg"), None, "{plain}");
    for path in ["/app/acme/attempt/endpoint/main", &format!("/app/acme/attempt/msg/{}", messages[0])] {
        let shown = world.get(&format!("{path}?with_msg=true")).await.json();
        for attempt in shown["data"].as_array().unwrap() {
            assert_eq!(attempt["msg"]["id"], attempt["msgId"], "{attempt}");
            assert_eq!(attempt["msg"]["payload"], serde_json::json!({}), "never the payload: {attempt}");
        }
        assert!(!shown["data"].as_array().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_delivery_that_waits_for_its_retry_is_pending() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "a").await;
    let path = format!("/app/acme/msg/{message}/endpoint");
    assert_eq!(world.get(&path).await.each("statusText"), ["pending"]);
    assert_eq!(world.deliver(500, b"", NextRow::Pending { due_in: std::time::Duration::from_secs(3600) }).await, 1);
    assert_eq!(world.get(&path).await.each("statusText"), ["pending"]);
    assert_eq!(world.get(&path).await.each("status"), ["1"]);
    assert!(world.get(&path).await.json()["data"][0]["nextAttempt"].is_string());
}

#[tokio::test]
async fn times_without_an_offset_are_utc_and_after_includes_its_boundary() {
    let world = World::with_application().await;
    let message = world.message("acme", "a").await;
    let created = world.get(&format!("/app/acme/msg/{message}")).await.text("/timestamp");
    let naive = created.strip_suffix('Z').unwrap();
    let spaced = format!("{}%20UTC", naive.replace('T', "%20"));
    for time in [&*created, naive, &spaced] {
        assert_eq!(world.get(&format!("/app/acme/msg?after={time}")).await.each("id"), [&*message], "{time}");
        assert_eq!(world.get(&format!("/app/acme/msg?before={time}")).await.each("id"), [""; 0], "{time}");
    }
    assert_eq!(world.get("/app/acme/msg?after=yesterday").await.status, 422);
}
