//! Queues: limits, targets, pauses, and what they tell of themselves.

use http::Method;
use serde_json::{Value, json};

use crate::api::jobs::broken;
use crate::api::world::World;

#[tokio::test]
async fn a_queue_is_there_from_its_first_job_on() {
    let world = World::new().await;
    assert_eq!(world.get("/queue/q").await.code(), (404, "not_found".to_owned()));
    world.job(json!({})).await;
    let queue = world.get("/queue/q").await.json();
    let limits = ["limit", "keyLimit", "ratePerSecond", "targetUrl"].map(|key| queue[key].clone());
    assert_eq!((limits, &queue["state"]), ([const { Value::Null }; 4], &json!("open")));
    let stats = &queue["stats"];
    assert_eq!((&stats["pending"], &stats["due"], &stats["running"]), (&json!(1), &json!(1), &json!(0)));
    assert!(stats["oldestDueSeconds"].is_number(), "{queue}");
}

#[tokio::test]
async fn limits_are_set_kept_and_removed() {
    let world = World::new().await;
    let patch = async |body: &str| world.patch("/queue/q", body).await;
    let set = patch(r#"{"limit": 3, "keyLimit": 1, "ratePerSecond": 0.5}"#).await.json();
    assert_eq!([&set["limit"], &set["keyLimit"], &set["ratePerSecond"]], [&json!(3), &json!(1), &json!(0.5)]);
    let set = patch(r#"{"keyLimit": null}"#).await.json();
    assert_eq!([&set["limit"], &set["keyLimit"], &set["ratePerSecond"]], [&json!(3), &Value::Null, &json!(0.5)]);
    for (body, place) in [
        (r#"{"limit": 0}"#, "body.limit"),
        (r#"{"limit": 100001}"#, "body.limit"),
        (r#"{"limit": "3"}"#, "body.limit"),
        (r#"{"keyLimit": 0}"#, "body.keyLimit"),
        (r#"{"ratePerSecond": 0}"#, "body.ratePerSecond"),
        (r#"{"ratePerSecond": 1e9}"#, "body.ratePerSecond"),
        (r#"{"targetUrl": "ftp://a"}"#, "body.targetUrl"),
        (r#"{"targetUrl": "http://192.168.0.1/"}"#, "body.targetUrl"),
        (r#"{"targetUrl": 1}"#, "body.targetUrl"),
    ] {
        assert_eq!(broken(&patch(body).await).0, place, "{body}");
    }
    assert_eq!(broken(&world.patch("/queue/everhook.mine", "{}").await).0, "path.queue");
    assert_eq!(broken(&world.post("/queue/everhook.mine/pause", "").await).0, "path.queue");
    assert_eq!(world.patch("/queue/a%20b", "{}").await.code().0, 404);
}

#[tokio::test]
async fn a_limit_holds() {
    let world = World::new().await;
    world.patch("/queue/q", r#"{"limit": 2}"#).await;
    let worker = world.worker(json!({})).await;
    for _ in 0..4 {
        world.job(json!({})).await;
    }
    let lease = async || world.post(&format!("/worker/{worker}/lease"), r#"{"limit": 10}"#).await.each("id").len();
    assert_eq!((lease().await, lease().await), (2, 0));
    world.patch("/queue/q", r#"{"limit": null}"#).await;
    assert_eq!(lease().await, 2);
}

#[tokio::test]
async fn a_target_has_a_secret_that_stays_with_it() {
    let world = World::new().await;
    assert_eq!(world.get("/queue/q/secret").await.code().0, 404);
    let set = world.patch("/queue/q", r#"{"targetUrl": "http://127.0.0.1:9/a"}"#).await;
    assert_eq!(set.text("/targetUrl"), "http://127.0.0.1:9/a");
    let secret = world.get("/queue/q/secret").await.text("/key");
    assert!(secret.starts_with("whsec_") && !set.body.contains(&secret), "{set}");
    world.patch("/queue/q", r#"{"targetUrl": "http://127.0.0.1:9/b"}"#).await;
    assert_eq!(world.get("/queue/q/secret").await.text("/key"), secret);
    assert_eq!(world.patch("/queue/q", r#"{"targetUrl": null}"#).await.json()["targetUrl"], Value::Null);
    assert_eq!(world.get("/queue/q/secret").await.code().0, 404);
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_until_it_is_resumed() {
    let world = World::new().await;
    for what in ["pause", "resume"] {
        let refused = world.post(&format!("/queue/q/{what}"), "").await;
        assert_eq!(refused.status.as_u16(), 404, "{refused}");
        assert_eq!(refused.text("/detail"), "queue \"q\" not found");
    }
    assert_eq!(world.get("/queue").await.each("name"), [""; 0], "none was made");
    world.patch("/queue/q", r#"{"limit": 2}"#).await;
    assert_eq!(world.post("/queue/q/pause", "").await.text("/state"), "paused", "ahead of its first job");
    let worker = world.worker(json!({})).await;
    let id = world.job(json!({})).await;
    let lease = async || world.post(&format!("/worker/{worker}/lease"), "").await.each("id");
    assert_eq!(lease().await, [""; 0]);
    assert_eq!(world.post("/queue/q/resume", "").await.text("/state"), "open");
    assert_eq!(lease().await, [id]);
}

#[tokio::test]
async fn a_queue_is_deleted_once_its_jobs_have_ended() {
    let world = World::new().await;
    let delete = async || world.delete("/queue/q").await;
    assert_eq!(delete().await.text("/detail"), "queue \"q\" not found");
    world.patch("/queue/q", r#"{"limit": 2}"#).await;
    let id = world.job(json!({})).await;
    let refused = delete().await;
    assert_eq!(refused.code(), (409, "conflict".to_owned()), "{refused}");
    assert!(refused.text("/detail").starts_with("queue \"q\" has jobs that wait, run or are dead"), "{refused}");
    world.post(&format!("/job/{id}/cancel"), "").await;
    assert_eq!(delete().await.status.as_u16(), 204);
    assert_eq!(world.get("/queue/q").await.code().0, 404);
    assert_eq!(world.get(&format!("/job/{id}")).await.text("/state"), "cancelled", "its record stays");
    world.job(json!({})).await;
    assert_eq!(world.get("/queue/q").await.json()["limit"], Value::Null);
    assert_eq!(broken(&world.delete("/queue/everhook.mine").await).0, "path.queue");
}

#[tokio::test]
async fn a_kind_that_nobody_takes_is_told() {
    let world = World::new().await;
    world.job(json!({ "kind": "email.send" })).await;
    world.job(json!({ "kind": "email.check" })).await;
    let warnings = async || {
        let mut warnings = world.get("/queue/q").await.json()["warnings"].as_array().unwrap().clone();
        warnings.sort_by_key(ToString::to_string);
        warnings
    };
    let (check, send) = ("no worker for this kind: email.check", "no worker for this kind: email.send");
    assert_eq!(warnings().await, [check, send]);
    world.worker(json!({ "queues": ["other"] })).await;
    world.worker(json!({ "kinds": ["email.check"] })).await;
    assert_eq!(warnings().await, [send]);
    world.worker(json!({})).await;
    assert_eq!(warnings().await, [""; 0]);
    world.job(json!({ "queue": "pushed" })).await;
    world.patch("/queue/pushed", r#"{"targetUrl": "http://127.0.0.1:9/"}"#).await;
    assert_eq!(world.get("/queue/pushed").await.json()["warnings"], json!([]), "it needs no worker");
    let list = world.get("/queue").await;
    assert_eq!(list.each("name"), ["pushed", "q"]);
    assert!(list.json()["data"][0]["stats"].is_object());
    assert!(world.get("/queue?with_stats=false").await.json()["data"][0].get("stats").is_none());
    assert_eq!(world.get("/queue?limit=1").await.json()["done"], false);
    assert_eq!(world.elsewhere(Method::GET, "/queue", &Value::Null).await.each("name"), [""; 0]);
}
