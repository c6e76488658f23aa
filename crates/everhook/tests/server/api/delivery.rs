//! Deliveries: their states and reasons, the messages and statistics of an endpoint, and commands of operators.

use std::time::Duration;

use everhook_core::lifecycle::NextRow;
use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Answer, Call, World};

const LATER: NextRow = NextRow::Pending { due_in: Duration::from_secs(3600) };

/// The state and the kind of the reason of a delivery.
fn standing(delivery: &Value) -> String {
    format!("{} {}", delivery["state"].as_str().unwrap(), delivery["reason"]["kind"].as_str().unwrap())
}

fn standings(answer: &Answer) -> Vec<String> {
    answer.json()["data"].as_array().unwrap().iter().map(standing).collect()
}

#[tokio::test]
async fn a_delivery_tells_its_state_and_the_reason() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "user.created").await;
    let path = format!("/app/acme/msg/{message}/endpoint/main");
    insta::assert_snapshot!(world.get(&path).await, @r#"200 {"msgId":"msg_#1","endpointId":"ep_#2","appId":"app_#3","eventType":"user.created","eventId":null,"timestamp":"<time>","state":"pending","reason":{"kind":"queued"},"nextAttempt":"<time>","tries":0,"lastAttempt":null}"#);
    world.deliver(500, b"", LATER).await;
    insta::assert_snapshot!(world.get(&path).await, @r#"200 {"msgId":"msg_#1","endpointId":"ep_#2","appId":"app_#3","eventType":"user.created","eventId":null,"timestamp":"<time>","state":"pending","reason":{"kind":"retry","until":"<time>"},"nextAttempt":"<time>","tries":1,"lastAttempt":{"id":"atmpt_#4","class":"status","status":500,"timestamp":"<time>","durationMs":12}}"#);
    world.patch("/app/acme/endpoint/main", r#"{"disabled": true}"#).await;
    assert_eq!(standing(&world.get(&path).await.json()), "held endpointDisabled");
    world.patch("/app/acme/endpoint/main", r#"{"disabled": false, "policy": {"paused": true}}"#).await;
    assert_eq!(standing(&world.get(&path).await.json()), "held endpointPaused");
    assert_eq!(world.get(&path.replace("main", "nobody")).await.status, 404);
    world.endpoint("acme", "late").await;
    let late = world.get(&path.replace("main", "late")).await;
    assert_eq!(late.code(), (404, "not_found".to_owned()), "this endpoint did not get the message");
}

#[tokio::test]
async fn deliveries_are_listed_with_filters() {
    let world = World::with_endpoint().await;
    world.endpoint("acme", "two").await;
    for event_type in ["a", "b"] {
        world.message("acme", event_type).await;
    }
    let page = world.get("/app/acme/delivery?limit=3").await;
    assert_eq!(
        (page.each("eventType"), page.json()["done"].clone()),
        (["b", "b", "a"].map(str::to_owned).to_vec(), false.into())
    );
    let rest = world.get(&format!("/app/acme/delivery?limit=3&iterator={}", page.text("/iterator"))).await;
    assert_eq!((rest.each("eventType"), rest.json()["done"].clone()), (vec!["a".to_owned()], true.into()));
    let back = world.get(&format!("/app/acme/delivery?limit=3&iterator={}", rest.text("/prevIterator"))).await;
    assert_eq!(back.json()["data"], page.json()["data"]);
    world.patch("/app/acme/endpoint/two", r#"{"disabled": true}"#).await;
    assert_eq!(world.deliver(500, b"", NextRow::Dead).await, 2);
    let list = async |query: &str| standings(&world.get(&format!("/app/acme/delivery?{query}")).await);
    assert_eq!(list("state=dead").await, ["dead exhausted"; 2]);
    assert_eq!(list("endpoint_id=two").await, ["held endpointDisabled"; 2]);
    assert_eq!(list("endpoint_id=two&event_types=a").await.len(), 1);
    assert_eq!(list("class=status").await.len(), 2);
    assert_eq!(list("class=timeout").await.len(), 0);
    assert_eq!(list("before=2020-01-01T00:00:00Z").await.len(), 0);
    assert_eq!(list("after=2020-01-01T00:00:00Z").await.len(), 4);
    insta::assert_snapshot!(world.get("/app/acme/delivery?state=lost").await, @r#"422 {"detail":[{"loc":["query","state"],"msg":"must be pending, sending, held, succeeded, dead or cancelled","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app/acme/delivery?class=lost").await, @r#"422 {"detail":[{"loc":["query","class"],"msg":"is not the class of an attempt","type":"value_error"}]}"#);
    assert_eq!(world.get("/app/acme/delivery?endpoint_id=nobody").await.status, 404);
    assert_eq!(world.get("/app/acme/delivery?iterator=nonsense").await.status, 422);
}

#[tokio::test]
async fn the_environment_lists_open_deliveries_of_all_applications() {
    let world = World::with_endpoint().await;
    world.message("acme", "done").await;
    world.deliver(200, b"", NextRow::Gone).await;
    world.application("other").await;
    let endpoint = world.endpoint("other", "main").await;
    world.message("acme", "a").await;
    world.message("other", "b").await;
    assert_eq!(world.get("/delivery").await.each("eventType"), ["b", "a"]);
    assert_eq!(world.get(&format!("/delivery?endpoint_id={endpoint}")).await.each("eventType"), ["b"]);
    assert_eq!(world.get("/delivery?state=dead").await.each("eventType"), [""; 0]);
    insta::assert_snapshot!(world.get("/delivery?state=succeeded").await, @r#"422 {"detail":[{"loc":["query","state"],"msg":"must be pending, sending, held or dead: ended deliveries are in the lists of their applications","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/delivery?endpoint_id=main").await, @r#"422 {"detail":[{"loc":["query","endpoint_id"],"msg":"must be the id of an endpoint","type":"value_error"}]}"#);
    let elsewhere = world.call(Call::new(Method::GET, "/delivery").bearer(&world.other_key)).await;
    assert_eq!(elsewhere.each("eventType"), [""; 0]);
}

#[tokio::test]
async fn the_messages_of_an_endpoint_are_listed_with_their_states() {
    let world = World::with_endpoint().await;
    let done = world.message("acme", "a").await;
    world.deliver(200, b"", NextRow::Gone).await;
    let waiting = world.message("acme", "b").await;
    world.endpoint("acme", "late").await;
    let path = "/app/acme/endpoint/main/msg";
    insta::assert_snapshot!(world.get(path).await, @r#"200 {"data":[{"id":"msg_#1","eventType":"b","eventId":null,"channels":null,"tags":null,"payload":{"n": 1},"timestamp":"<time>","status":1,"statusText":"pending","nextAttempt":"<time>"},{"id":"msg_#2","eventType":"a","eventId":null,"channels":null,"tags":null,"payload":{"n": 1},"timestamp":"<time>","status":0,"statusText":"success"}],"iterator":"msg_#2","prevIterator":"-msg_#1","done":true}"#);
    let first = world.get(&format!("{path}?limit=1")).await;
    assert_eq!(first.each("id"), [&*waiting]);
    let second = world.get(&format!("{path}?limit=1&iterator={}", first.text("/iterator"))).await;
    assert_eq!((second.each("id"), second.json()["done"].clone()), (vec![done.clone()], true.into()));
    let list = async |query: &str| world.get(&format!("{path}?{query}")).await.each("id");
    assert_eq!(list("status=0").await, [&*done]);
    assert_eq!(list("status=1").await, [&*waiting]);
    assert_eq!(list("status=2").await, [""; 0]);
    assert_eq!(list("event_types=a,c").await, [done]);
    assert_eq!(world.get(&format!("{path}?with_content=false")).await.each("payload"), ["{}", "{}"]);
    assert_eq!(world.get("/app/acme/endpoint/late/msg").await.each("id"), [""; 0]);
    world.post(&format!("/app/acme/msg/{waiting}/cancel"), "").await;
    assert_eq!(world.get(&format!("{path}?limit=1")).await.each("statusText"), ["fail"]);
    let expanded = world.get(&format!("{path}?limit=1&expanded_statuses=true")).await;
    assert_eq!(expanded.each("statusText"), ["canceled"]);
    insta::assert_snapshot!(world.get(&format!("{path}?status=9")).await, @r#"422 {"detail":[{"loc":["query","status"],"msg":"must be from 0 to 4","type":"value_error"}]}"#);
}

#[tokio::test]
async fn the_attempts_of_an_endpoint_are_counted() {
    let world = World::with_endpoint().await;
    world.message("acme", "a").await;
    world.deliver(200, b"", NextRow::Gone).await;
    world.message("acme", "b").await;
    world.deliver(500, b"", LATER).await;
    let path = "/app/acme/endpoint/main/stats";
    insta::assert_snapshot!(world.get(path).await, @r#"200 {"success":1,"pending":1,"sending":0,"fail":1,"canceled":0,"capped":false}"#);
    insta::assert_snapshot!(world.get("/app/acme/endpoint/main/attempt-stats").await, @r#"200 {"success":1,"fail":1,"canceled":0,"capped":false}"#);
    let early = "since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z";
    insta::assert_snapshot!(world.get(&format!("{path}?{early}")).await, @r#"200 {"success":0,"pending":0,"sending":0,"fail":0,"canceled":0,"capped":false}"#);
    insta::assert_snapshot!(world.get(&format!("{path}?since=2020-01-01T00:00:00Z")).await, @r#"400 {"code":"invalid_range","detail":"The period must be at most 28 days long: send a later since."}"#);
    insta::assert_snapshot!(world.get(&format!("{path}?until=2100-01-01T00:00:00Z")).await, @r#"400 {"code":"invalid_range","detail":"until must not be in the future."}"#);
    assert_eq!(world.get("/app/acme/endpoint/nobody/stats").await.status, 404);
}

#[tokio::test]
async fn a_waiting_delivery_is_cancelled_and_a_sent_one_is_not() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "a").await;
    let path = format!("/app/acme/msg/{message}/endpoint/main");
    let cancelled = world.post(&format!("{path}/cancel"), "").await;
    assert_eq!((cancelled.status.as_u16(), standing(&cancelled.json())), (200, "cancelled cancelled".to_owned()));
    assert_eq!(cancelled.json()["reason"]["detail"], "the delivery was cancelled on request");
    assert_eq!(world.post(&format!("{path}/cancel"), "").await.status, 200, "the same request again");
    assert_eq!(world.deliver(200, b"", NextRow::Gone).await, 0);
    insta::assert_snapshot!(world.post(&format!("{path}/retry-now"), "").await, @r#"409 {"code":"conflict","detail":"The delivery is cancelled: only a waiting or dead delivery can be retried; resend it instead."}"#);
    let message = world.message("acme", "b").await;
    let path = format!("/app/acme/msg/{message}/endpoint/main");
    let leased = world.lease().await;
    assert_eq!(leased.len(), 1);
    assert_eq!(standing(&world.post(&format!("{path}/cancel"), "").await.json()), "sending cancelRequested");
    let message = world.message("acme", "c").await;
    world.deliver(200, b"", NextRow::Gone).await;
    let path = format!("/app/acme/msg/{message}/endpoint/main/cancel");
    insta::assert_snapshot!(world.post(&path, "").await, @r#"409 {"code":"conflict","detail":"The delivery is succeeded: only a delivery that waits or is being sent can be cancelled."}"#);
}

#[tokio::test]
async fn a_delivery_is_retried_now_or_dismissed() {
    let world = World::with_endpoint().await;
    let message = world.message("acme", "a").await;
    let path = format!("/app/acme/msg/{message}/endpoint/main");
    world.deliver(500, b"", LATER).await;
    assert_eq!(world.deliver(500, b"", LATER).await, 0, "it waits");
    assert_eq!(standing(&world.post(&format!("{path}/retry-now"), "").await.json()), "pending queued");
    assert_eq!(world.deliver(500, b"", NextRow::Dead).await, 1);
    insta::assert_snapshot!(world.post(&format!("{path}/cancel"), "").await, @r#"409 {"code":"conflict","detail":"The delivery is dead: dismiss it instead of cancelling it."}"#);
    assert_eq!(standing(&world.post(&format!("{path}/retry-now"), "").await.json()), "pending queued");
    insta::assert_snapshot!(world.post(&format!("{path}/dismiss"), "").await, @r#"409 {"code":"conflict","detail":"The delivery is pending: only a dead delivery can be dismissed."}"#);
    assert_eq!(world.deliver(500, b"", NextRow::Dead).await, 1);
    let dismissed = world.post(&format!("{path}/dismiss"), "").await;
    assert_eq!((dismissed.status.as_u16(), standing(&dismissed.json())), (200, "cancelled cancelled".to_owned()));
    assert_eq!(world.get("/delivery?state=dead").await.each("msgId"), [""; 0]);
    assert_eq!(world.post("/app/acme/endpoint/main/redrive", "").await.json()["redriven"], 0);
}

#[tokio::test]
async fn a_message_for_later_is_cancelled_everywhere() {
    let world = World::with_endpoint().await;
    world.endpoint("acme", "two").await;
    let body = json!({ "eventType": "a", "payload": {}, "deliverAt": world.node.now().plus(Duration::from_secs(600)) });
    let message = world.post("/app/acme/msg", &body.to_string()).await.created();
    assert_eq!(standings(&world.get("/app/acme/delivery").await), ["pending scheduled"; 2]);
    let path = format!("/app/acme/msg/{message}/cancel");
    insta::assert_snapshot!(world.post(&path, "").await, @r#"200 {"cancelled":2,"requested":0}"#);
    insta::assert_snapshot!(world.post(&path, "").await, @r#"200 {"cancelled":0,"requested":0}"#);
    assert_eq!(standings(&world.get("/app/acme/delivery").await), ["cancelled cancelled"; 2]);
}

#[tokio::test]
async fn a_dead_delivery_is_redriven_with_a_corrected_payload() {
    let world = World::with_endpoint().await;
    let body = r#"{"eventType": "a", "eventId": "e-1", "payload": {"wrong": true}, "tags": ["t"]}"#;
    let message = world.post("/app/acme/msg", body).await.created();
    world.endpoint("acme", "late").await;
    let path = format!("/app/acme/msg/{message}/endpoint/main/redrive");
    let corrected = r#"{"payload": {"right": true}}"#;
    insta::assert_snapshot!(world.post(&path, corrected).await, @r#"409 {"code":"conflict","detail":"Only a dead delivery can be redriven with a corrected payload."}"#);
    world.deliver(500, b"", NextRow::Dead).await;
    insta::assert_snapshot!(world.post(&path, r#"{"payload": [1]}"#).await, @r#"422 {"detail":[{"loc":["body","payload"],"msg":"must be a JSON object","type":"value_error"}]}"#);
    let token = world.post("/auth/app-portal-access/acme", "{}").await.text("/token");
    let call = Call::new(Method::POST, &path).bearer(&token).body(corrected);
    assert_eq!(world.call(call).await.status, 403, "the server signs the payload: only the producer may choose it");
    let answer = world.post(&path, corrected).await;
    insta::assert_snapshot!(answer, @r#"202 {"redriven":1,"done":true,"msg":{"channels":null,"eventId":null,"eventType":"a","id":"msg_#1","payload":{},"redriveOf":"msg_#2","tags":["t"],"timestamp":"<time>"}}"#);
    assert_eq!(answer.text("/msg/redriveOf"), message);
    let new = answer.text("/msg/id");
    let old = world.get(&format!("/app/acme/msg/{message}/endpoint/main")).await;
    assert_eq!(standing(&old.json()), "cancelled cancelled");
    assert_eq!(old.text("/reason/detail"), format!("the dead delivery was replaced by {new}"));
    let leased = world.lease().await;
    assert_eq!(leased.len(), 1, "only this endpoint gets it");
    assert_eq!(leased[0].message().unwrap().payload.as_deref(), Some(&b"{\"right\": true}"[..]));
    assert_eq!(world.get(&format!("/app/acme/msg/{new}")).await.json()["payload"], json!({ "right": true }));
    assert_eq!(world.get("/app/acme/msg/e-1").await.text("/id"), message, "the event id stays with the first message");
}
