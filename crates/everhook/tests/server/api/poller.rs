//! Polled endpoints: readers fetch messages, and named consumers continue where they confirmed.

use serde_json::json;

use crate::api::world::World;

async fn with_poller() -> World {
    let world = World::with_application().await;
    let created = world.post("/app/acme/endpoint", r#"{"url": "poll:", "uid": "poll"}"#).await;
    assert_eq!((created.status.as_u16(), created.text("/url")), (201, "poll:".to_owned()));
    world
}

#[tokio::test]
async fn a_reader_pages_through_messages_by_its_iterator() {
    let world = with_poller().await;
    let start = world.get("/app/acme/poller/poll").await;
    assert_eq!((&start.json()["data"], &start.json()["done"]), (&json!([]), &json!(true)));
    let sent = [world.message("acme", "a").await, world.message("acme", "b").await, world.message("acme", "a").await];
    assert_eq!(world.lease().await.len(), 0, "nothing is delivered");
    let first = world.get(&format!("/app/acme/poller/poll?limit=2&iterator={}", start.text("/iterator"))).await;
    assert_eq!((&first.each("id")[..], &first.json()["done"]), (&sent[..2], &json!(false)));
    let rest = world.get(&format!("/app/acme/poller/poll?iterator={}", first.text("/iterator"))).await;
    assert_eq!((&rest.each("id")[..], &rest.json()["done"]), (&sent[2..], &json!(true)));
    assert_eq!(world.get("/app/acme/poller/poll?event_type=b").await.each("id"), sent[1..2]);
    assert_eq!(world.get("/app/acme/poller/poll?after=2020-01-01T00:00:00Z").await.each("id"), sent);
}

#[tokio::test]
async fn a_consumer_is_moved_by_a_seek() {
    let world = with_poller().await;
    let sent = [world.message("acme", "a").await, world.message("acme", "a").await];
    let path = "/app/acme/poller/poll/consumer/one";
    let page = world.get(path).await;
    assert_eq!(page.each("id"), sent);
    let confirm = format!("{path}?iterator={}", page.text("/iterator"));
    assert_eq!(world.get(&confirm).await.each("id").len(), 0);
    assert_eq!(world.get(path).await.each("id").len(), 0);
    let sought = world.post(&format!("{path}/seek"), r#"{"after": "2020-01-01T00:00:00Z"}"#).await;
    assert_eq!(sought.status, 200);
    assert_eq!(world.get(&confirm).await.code(), (400, "invalid_iterator".to_owned()));
    assert_eq!(world.get(&format!("{path}?iterator={}", sought.text("/iterator"))).await.each("id"), sent);
}

#[tokio::test]
async fn bad_requests_of_readers_are_refused() {
    let world = with_poller().await;
    world.endpoint("acme", "main").await;
    let other = world.post("/app/acme/destination", r#"{"type": "pollingEndpoint", "config": {}}"#).await;
    assert_eq!(other.status, 201);
    let foreign = world.get(&format!("/app/acme/poller/{}", other.text("/id"))).await.text("/iterator");
    for iterator in ["nonsense", &foreign] {
        let answer = world.get(&format!("/app/acme/poller/poll?iterator={iterator}")).await;
        assert_eq!(answer.code(), (400, "invalid_iterator".to_owned()));
    }
    for path in ["/app/acme/poller/main", "/app/acme/poller/unknown", "/app/unknown/poller/poll"] {
        assert_eq!(world.get(path).await.status, 404, "{path}");
    }
    assert_eq!(world.get("/app/acme/poller/poll?limit=0").await.status, 422);
    assert_eq!(world.get("/app/acme/poller/poll?limit=251").await.status, 422);
    assert_eq!(world.get("/app/acme/poller/poll/consumer/a%20b").await.status, 422);
    assert_eq!(world.post("/app/acme/poller/poll/consumer/a/seek", "{}").await.status, 422);
    assert_eq!(world.post("/app/acme/destination", r#"{"type": "sqs"}"#).await.status, 422);
    let message = world.message("acme", "a").await;
    let resend = world.post(&format!("/app/acme/msg/{message}/endpoint/poll/resend"), "").await;
    assert_eq!(resend.code(), (400, "polled_endpoint".to_owned()));
}
