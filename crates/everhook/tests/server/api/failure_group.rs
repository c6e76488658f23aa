//! Groups of dead deliveries: listed, acknowledged, resolved, redriven.

use std::time::Duration;

use everhook_core::lifecycle::NextRow;
use serde_json::json;

use crate::api::world::World;

/// A server with an endpoint that has dead deliveries.
async fn world(dead: usize) -> World {
    let world = World::with_endpoint().await;
    for _ in 0..dead {
        world.message("acme", "a.b").await;
    }
    assert_eq!(world.deliver(500, b"", NextRow::Dead).await, dead);
    world
}

#[tokio::test]
async fn dead_deliveries_are_grouped_and_a_group_can_be_noted() {
    let world = world(3).await;
    // The attempts end a little later than they are written, and a death after a note would open the group again.
    world.pass(Duration::from_secs(1)).await;
    let listed = world.get("/failure-group").await;
    let day = listed.json()["data"][0]["lastDay"].clone();
    let deaths: Vec<u64> = day.as_array().expect("hours").iter().filter_map(serde_json::Value::as_u64).collect();
    assert_eq!((deaths.len(), deaths.iter().sum()), (24, 3));
    let listed = listed.to_string().replace(&format!(r#""lastDay":{day},"#), "");
    insta::assert_snapshot!(listed, @r#"200 {"data":[{"id":"ep_#1.5xx","appId":"app_#2","appName":"An application","endpointId":"ep_#1","url":"http://127.0.0.1:9/main","class":"5xx","count":3,"firstDiedAt":"<time>","lastDiedAt":"<time>","state":"open"}],"iterator":"ep_#1","done":true}"#);
    let id = world.get("/failure-group").await.text("/data/0/id");
    let path = format!("/failure-group/{id}");
    let acknowledged = world.post(&format!("{path}/acknowledge"), r#"{"note": "asked them"}"#).await;
    assert_eq!((acknowledged.text("/state"), acknowledged.text("/note")), ("acknowledged".into(), "asked them".into()));
    assert_eq!(world.get("/failure-group?state=open").await.json()["data"], json!([]));
    assert_eq!(world.get("/failure-group?state=acknowledged").await.each("id"), [&*id]);
    let resolved = world.post(&format!("{path}/resolve"), "").await;
    assert_eq!((resolved.text("/state"), resolved.json()["note"].is_null()), ("resolved".into(), true));
    assert_eq!(world.post(&format!("{path}/reopen"), "{}").await.text("/state"), "open");
    assert_eq!(world.get(&path).await.json()["count"], 3);
}

#[tokio::test]
async fn bad_requests_for_groups_name_the_problem() {
    let world = world(1).await;
    let id = world.get("/failure-group").await.text("/data/0/id");
    let post = async |path: String, body: &str| world.post(&path, body).await;
    insta::assert_snapshot!(post(format!("/failure-group/{id}/resolve"), r#"{"remark": "a"}"#).await, @r#"422 {"detail":[{"loc":["body","remark"],"msg":"is not a known field: use one of note","type":"value_error"}]}"#);
    let long = json!({ "note": "x".repeat(1001) }).to_string();
    insta::assert_snapshot!(post(format!("/failure-group/{id}/resolve"), &long).await, @r#"422 {"detail":[{"loc":["body","note"],"msg":"must have at most 1000 characters","type":"value_error"}]}"#);
    for unknown in [id.replace("5xx", "timeout"), id.replace("5xx", "moon"), "nonsense".to_owned()] {
        assert_eq!(world.get(&format!("/failure-group/{unknown}")).await.code(), (404, "not_found".to_owned()));
        assert_eq!(post(format!("/failure-group/{unknown}/redrive"), "").await.status, 404);
    }
    assert_eq!(world.get("/failure-group?state=closed").await.status, 422);
    assert_eq!(world.get("/failure-group?iterator=nonsense").await.status, 422);
    assert_eq!(world.get("/failure-group?limit=3").await.status, 422, "a page has all groups of its endpoints");
}

#[tokio::test]
async fn a_redrive_counts_first_and_starts_a_background_task() {
    let world = world(2).await;
    let id = world.get("/failure-group").await.text("/data/0/id");
    let path = format!("/failure-group/{id}/redrive");
    let dry = world.post(&path, r#"{"dryRun": true}"#).await;
    assert_eq!((dry.status.as_u16(), dry.json()), (200, json!({ "count": 2 })));
    let started = world.post(&path, "").await;
    assert_eq!((started.status.as_u16(), &started.json()["count"]), (202, &json!(2)));
    assert_eq!(started.text("/task/task"), "endpoint.recover");
    let task = world.get(&format!("/background-task/{}", started.text("/task/id"))).await;
    assert_eq!(task.status, 200);
    let found = world.get(&format!("/lookup/{}", started.text("/task/id"))).await;
    assert_eq!(found.text("/kind"), "backgroundTask");
}
