//! Endpoints, their secrets and headers.

use crate::api::world::{Switches, World};

#[tokio::test]
async fn an_endpoint_lives_from_create_to_delete() {
    let world = World::with_application().await;
    world.post("/event-type", r#"{"name": "user.created", "description": "d"}"#).await;
    let body = r#"{"url": "http://127.0.0.1:9", "uid": "main", "description": "Main", "filterTypes": ["user.created"],
        "channels": ["eu"], "rateLimit": 5, "metadata": {"a": "b"}, "version": 3, "headers": {"X-Team": "1"}}"#;
    let created = world.post("/app/acme/endpoint", body).await;
    insta::assert_snapshot!(created, @r#"201 {"id":"ep_#1","url":"http://127.0.0.1:9/","description":"Main","disabled":false,"uid":"main","throttleRate":5,"rateLimit":5,"eventTypes":["user.created"],"filterTypes":["user.created"],"channels":["eu"],"version":3,"createdAt":"<time>","updatedAt":"<time>","metadata":{"a":"b"}}"#);
    assert_eq!(world.get("/app/acme/endpoint/main").await.body, created.body);
    let put = r#"{"url": "https://example.com/hook?x=1", "disabled": true}"#;
    insta::assert_snapshot!(world.put("/app/acme/endpoint/main", put).await, @r#"200 {"id":"ep_#1","url":"https://example.com/hook?x=1","description":"","disabled":true,"uid":"main","throttleRate":null,"rateLimit":null,"eventTypes":null,"filterTypes":null,"channels":null,"version":1,"createdAt":"<time>","updatedAt":"<time>","metadata":{}}"#);
    assert_eq!(
        world.get("/app/acme/endpoint/main/headers").await.json()["headers"]["X-Team"],
        "1",
        "PUT keeps headers"
    );
    let patch = r#"{"channels": ["us", "eu"], "eventTypes": ["user.created"], "disabled": false}"#;
    insta::assert_snapshot!(world.patch("/app/acme/endpoint/main", patch).await, @r#"200 {"id":"ep_#1","url":"https://example.com/hook?x=1","description":"","disabled":false,"uid":"main","throttleRate":null,"rateLimit":null,"eventTypes":["user.created"],"filterTypes":["user.created"],"channels":["us","eu"],"version":1,"createdAt":"<time>","updatedAt":"<time>","metadata":{}}"#);
    let patch = r#"{"channels": null, "eventTypes": null, "uid": null}"#;
    insta::assert_snapshot!(world.patch("/app/acme/endpoint/main", patch).await, @r#"200 {"id":"ep_#1","url":"https://example.com/hook?x=1","description":"","disabled":false,"uid":null,"throttleRate":null,"rateLimit":null,"eventTypes":null,"filterTypes":null,"channels":null,"version":1,"createdAt":"<time>","updatedAt":"<time>","metadata":{}}"#);
    let id = created.created();
    insta::assert_snapshot!(world.delete(&format!("/app/acme/endpoint/{id}")).await, @"204");
    assert_eq!(world.get(&format!("/app/acme/endpoint/{id}")).await.status, 404);
    assert_eq!(world.delete(&format!("/app/acme/endpoint/{id}")).await.status, 404);
}

#[tokio::test]
async fn a_change_of_an_endpoint_is_merged_into_what_there_is() {
    let world = World::with_application().await;
    world.post("/event-type", r#"{"name": "old", "description": ""}"#).await;
    let body = r#"{"url": "http://127.0.0.1:9", "uid": "main", "description": "Main", "eventTypes": ["old"],
        "throttleRate": 5, "metadata": {"a": "b"}, "version": 3}"#;
    world.post("/app/acme/endpoint", body).await;
    world.delete("/event-type/old").await;
    let patch = async |body: &str| world.patch("/app/acme/endpoint/main", body).await.json();
    let kept = patch(r#"{"disabled": true}"#).await;
    assert_eq!((&kept["eventTypes"][0], &kept["version"]), (&"old".into(), &3.into()), "an archived type stays");
    let changed = patch(r#"{"rateLimit": 7, "metadata": {"c": "d"}}"#).await;
    assert_eq!((&changed["throttleRate"], changed["metadata"].to_string()), (&7.into(), r#"{"c":"d"}"#.to_owned()));
    let removed = patch(r#"{"filterTypes": null, "rateLimit": null, "metadata": null, "description": null}"#).await;
    let rest = ["eventTypes", "throttleRate", "metadata", "description"].map(|name| removed[name].to_string());
    assert_eq!(rest, ["null", "null", "{}", "\"\""]);
    assert_eq!(removed["disabled"], true);
    let refused = patch(r#"{"eventTypes": ["old"]}"#).await;
    assert_eq!(refused["detail"][0]["msg"], "no event type \"old\" exists");
}

#[tokio::test]
async fn put_creates_under_an_unknown_uid() {
    let world = World::with_application().await;
    let body = r#"{"url": "https://example.com/"}"#;
    let created = world.put("/app/acme/endpoint/main", body).await;
    assert_eq!((created.status.as_u16(), created.text("/uid")), (201, "main".to_owned()));
    assert_eq!(world.put("/app/acme/endpoint/main", body).await.status, 200);
    let body = r#"{"url": "https://example.com/", "uid": "main"}"#;
    assert_eq!(world.post("/app/acme/endpoint", body).await.code(), (409, "conflict".to_owned()));
}

#[tokio::test]
async fn an_endpoint_asks_for_event_types_that_exist() {
    let world = World::with_application().await;
    world.post("/event-type", r#"{"name": "old", "description": "", "archived": true}"#).await;
    let with = async |types: &str| {
        let body = format!(r#"{{"url": "https://example.com/", "eventTypes": {types}}}"#);
        world.post("/app/acme/endpoint", &body).await
    };
    insta::assert_snapshot!(with(r#"["nothing"]"#).await, @r#"422 {"detail":[{"loc":["body","eventTypes"],"msg":"no event type \"nothing\" exists","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"["old"]"#).await, @r#"422 {"detail":[{"loc":["body","eventTypes"],"msg":"no event type \"old\" exists","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#"["a b"]"#).await, @r#"422 {"detail":[{"loc":["body","eventTypes","[0]"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    assert!(with("[]").await.json()["eventTypes"].is_null(), "an empty list means all");
    assert!(with("null").await.json()["filterTypes"].is_null());
}

#[tokio::test]
async fn bad_endpoints_are_refused_by_field() {
    let world = World::with_application().await;
    let with = async |fields: &str| world.post("/app/acme/endpoint", &format!("{{{fields}}}")).await;
    insta::assert_snapshot!(with("").await, @r#"422 {"detail":[{"loc":["body"],"msg":"missing field `url` at line 1 column 2","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(with(r#""url": "ftp://example.com""#).await, @r#"422 {"detail":[{"loc":["body","url"],"msg":"url scheme is not supported; use https or http","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "http://user:pw@example.com""#).await, @r#"422 {"detail":[{"loc":["body","url"],"msg":"url has a user name or password; send credentials in a header","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "http://10.0.0.1/""#).await, @r#"422 {"detail":[{"loc":["body","url"],"msg":"url has a private or reserved address; use a public one, or have the operator add it to EVERHOOK_EGRESS_ALLOW","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "nonsense""#).await, @r#"422 {"detail":[{"loc":["body","url"],"msg":"url is not valid; use the form https://host/path","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "https://a.example", "channels": []"#).await, @r#"422 {"detail":[{"loc":["body","channels"],"msg":"must have 1 to 10 entries, or be null","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "https://a.example", "channels": ["a", "b c"]"#).await, @r#"422 {"detail":[{"loc":["body","channels","[1]"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "https://a.example", "secret": "whsec_*""#).await, @r#"422 {"detail":[{"loc":["body","secret","__all__"],"msg":"must be base64 after its prefix","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "https://a.example", "secret": "whsec_YWJj""#).await, @r#"422 {"detail":[{"loc":["body","secret","__all__"],"msg":"must have 24 to 75 bytes, or 64 for an ed25519 key","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "https://a.example", "headers": {"Webhook-Id": "x"}"#).await, @r#"422 {"detail":[{"loc":["body","headers","Webhook-Id"],"msg":"is a header that cannot be set","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(r#""url": "https://a.example", "throttleRate": -1"#).await, @r#"422 {"detail":[{"loc":["body","throttleRate"],"msg":"invalid value: integer `-1`, expected u16 at line 1 column 47","type":"value_error.jsondecode"}]}"#);
    assert_eq!(world.get("/app/acme/endpoint").await.json()["data"], serde_json::json!([]), "none was created");
}

#[tokio::test]
async fn a_secret_is_random_or_given_and_can_be_rotated() {
    let world = World::with_application().await;
    let random = world.endpoint("acme", "random").await;
    let key = world.get(&format!("/app/acme/endpoint/{random}/secret")).await.text("/key");
    assert!(key.starts_with("whsec_") && key.len() == 6 + 44, "32 bytes");
    let given = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = format!(r#"{{"url": "https://example.com", "uid": "given", "secret": "{given}"}}"#);
    let created = world.post("/app/acme/endpoint", &body).await;
    assert!(!created.body.contains("MfKQ"), "a secret is shown on its own route only");
    assert_eq!(world.get("/app/acme/endpoint/given/secret").await.text("/key"), given);

    let rotated = world.post("/app/acme/endpoint/given/secret/rotate", "{}").await.text("/key");
    assert_eq!(world.get("/app/acme/endpoint/given/secret").await.text("/key"), rotated);
    assert_ne!(rotated, given);
    let without_prefix = r#"{"key": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "gracePeriodSeconds": 0}"#;
    assert_eq!(world.post("/app/acme/endpoint/given/secret/rotate", without_prefix).await.status, 200);
    assert_eq!(world.get("/app/acme/endpoint/given/secret").await.text("/key"), given);
    let long = r#"{"gracePeriodSeconds": 604801}"#;
    insta::assert_snapshot!(world.post("/app/acme/endpoint/given/secret/rotate", long).await, @r#"422 {"detail":[{"loc":["body","gracePeriodSeconds"],"msg":"must be at most 604800","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/app/acme/endpoint/given/secret/rotate", "").await, @r#"422 {"detail":[{"loc":["body"],"msg":"EOF while parsing a value at line 1 column 0","type":"value_error.jsondecode"}]}"#);
    for _ in 0..9 {
        assert_eq!(world.post("/app/acme/endpoint/given/secret/rotate", "{}").await.status, 200);
    }
    insta::assert_snapshot!(world.post("/app/acme/endpoint/given/secret/rotate", "{}").await, @r#"400 {"code":"limit_reached","detail":"at most 10 old keys may be unexpired: wait for one to expire, or rotate with a shorter grace period"}"#);
}

#[tokio::test]
async fn a_secret_or_header_that_would_be_ignored_is_refused_or_honoured() {
    let world = World::with_application().await;
    let given = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let put = format!(r#"{{"url": "https://example.com", "secret": "{given}", "headers": {{"X-One": "1"}}}}"#);
    assert_eq!(world.put("/app/acme/endpoint/main", &put).await.status, 201);
    assert_eq!(world.put("/app/acme/endpoint/main", &put).await.status, 200, "it is the secret that it has");
    let other = put.replace("MfKQ", "AAAA").replace(r#""1""#, r#""2""#);
    insta::assert_snapshot!(world.put("/app/acme/endpoint/main", &other).await, @r#"422 {"detail":[{"loc":["body","secret"],"msg":"cannot be changed here: use POST …/secret/rotate","type":"value_error"}]}"#);
    let headers = r#"{"url": "https://example.com", "headers": {"X-Team": "2"}}"#;
    assert_eq!(world.put("/app/acme/endpoint/main", headers).await.status, 200);
    assert_eq!(
        world.get("/app/acme/endpoint/main/headers").await.json()["headers"],
        serde_json::json!({"X-Team": "2"})
    );
    insta::assert_snapshot!(world.patch("/app/acme/endpoint/main", r#"{"secret": "whsec_x"}"#).await, @r#"422 {"detail":[{"loc":["body","secret"],"msg":"cannot be changed here: use POST …/secret/rotate","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.patch("/app/acme/endpoint/main", r#"{"headers": {}}"#).await, @r#"422 {"detail":[{"loc":["body","headers"],"msg":"cannot be changed here: use PATCH …/headers","type":"value_error"}]}"#);
    assert_eq!(world.get("/app/acme/endpoint/main/secret").await.text("/key"), given);
}

#[tokio::test]
async fn headers_are_set_changed_and_hidden() {
    let world = World::with_endpoint().await;
    let path = "/app/acme/endpoint/main/headers";
    insta::assert_snapshot!(world.get(path).await, @r#"200 {"headers":{},"sensitive":[]}"#);
    let headers = r#"{"headers": {"X-Team": "1", "X-Two": "2", "Authorization": "Basic abc"}}"#;
    insta::assert_snapshot!(world.put(path, headers).await, @"204");
    insta::assert_snapshot!(world.get(path).await, @r#"200 {"headers":{"X-Team":"1"},"sensitive":["Authorization","X-Two"]}"#);
    let patch = r#"{"headers": {"x-team": "one", "X-Two": null, "X-Three": "3"}, "deleteHeaders": ["AUTHORIZATION"]}"#;
    insta::assert_snapshot!(world.patch(path, patch).await, @"204");
    insta::assert_snapshot!(world.get(path).await, @r#"200 {"headers":{"x-team":"one"},"sensitive":["X-Three"]}"#);
    for name in [
        "Host",
        "content-type",
        "Svix-Id",
        "webhook-signature",
        "X-Amz-Date",
        "a b",
        "",
        "cookie",
        "Connection",
        "Metadata",
        "Metadata-Flavor",
        "X-aws-ec2-metadata-token",
        "X-aws-ec2-metadata-token-ttl-seconds",
        "X-Google-Metadata-Request",
        "X-Metadata-Token",
        "Proxy-Authorization",
    ] {
        let refused = world.put(path, &format!(r#"{{"headers": {{"{name}": "x"}}}}"#)).await;
        assert_eq!((refused.status.as_u16(), refused.text("/detail/0/loc/2")), (422, name.to_owned()), "{name}");
    }
    assert_eq!(world.put(path, r#"{"headers": {"X-One": "a\r\nb"}}"#).await.status, 422);
    assert_eq!(world.put(path, r#"{"headers": {"X-One": "a", "x-one": "b"}}"#).await.status, 422);
    assert_eq!(world.put(path, &format!(r#"{{"headers": {{"X-One": "{}"}}}}"#, "x".repeat(4097))).await.status, 422);
}

#[tokio::test]
async fn an_application_has_a_limit_of_endpoints() {
    let world = World::with_switches(Switches { endpoints_max: 2, ..Switches::default() }).await;
    let app = world.application("acme").await;
    let first = world.endpoint(&app, "first").await;
    world.endpoint(&app, "second").await;
    let body = r#"{"url": "http://127.0.0.1:9/", "uid": "third"}"#;
    let refused = world.post(&format!("/app/{app}/endpoint"), body).await;
    assert_eq!(refused.code(), (400, "limit_reached".to_owned()));
    assert_eq!(refused.text("/detail"), "An application has at most 2 endpoints: delete one first.");
    let refused = world.put(&format!("/app/{app}/endpoint/third"), body).await;
    assert_eq!(refused.code(), (400, "limit_reached".to_owned()), "however it is created");
    assert_eq!(world.put(&format!("/app/{app}/endpoint/second"), &body.replace("third", "second")).await.status, 200);
    assert_eq!(world.delete(&format!("/app/{app}/endpoint/{first}")).await.status, 204);
    world.endpoint(&app, "third").await;
}
