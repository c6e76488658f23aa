//! Alert rules over the API: from create to delete, refusals by field, and test pages.

use serde_json::json;

use crate::api::world::{Call, World};

const RULE: &str = r#"{"name": "dead", "signal": "dead", "threshold": 10}"#;
const ENDPOINT: &str = "/operational-webhook/endpoint";

#[tokio::test]
async fn an_alert_lives_from_create_to_delete() {
    let world = World::new().await;
    let created = world.post("/alert", RULE).await;
    insta::assert_snapshot!(created, @r#"201 {"id":"alert_#1","name":"dead","description":"","signal":"dead","queue":null,"endpointId":null,"condition":"above","threshold":10,"windowSeconds":null,"forSeconds":60,"resolveAfterSeconds":300,"cooldownSeconds":3600,"destinations":null,"escalation":null,"disabled":false,"state":"quiet","since":null,"clearSince":null,"escalated":false,"lastPage":null,"createdAt":"<time>","updatedAt":"<time>"}"#);
    assert_eq!(world.get("/alert/dead").await.body, created.body);
    assert_eq!(world.get("/alert").await.each("name"), ["dead"]);
    assert_eq!(world.post("/alert", RULE).await.code(), (409, "conflict".to_owned()));
    for (method, path) in [
        ("GET", "/alert/dead"),
        ("PATCH", "/alert/dead"),
        ("DELETE", "/alert/dead"),
        ("GET", "/alert/dead/page"),
        ("POST", "/alert/dead/test"),
    ] {
        let call = Call::new(method.parse().unwrap(), path).bearer(&world.other_key).body("{}");
        assert_eq!(world.call(call).await.status, 404, "another environment: {method} {path}");
    }

    let changed = world.patch("/alert/dead", r#"{"threshold": 0.5, "forSeconds": 5}"#).await.json();
    assert_eq!((&changed["threshold"], &changed["forSeconds"]), (&json!(0.5), &json!(5)));
    let reset = world.patch("/alert/dead", r#"{"forSeconds": null}"#).await.json();
    assert_eq!((&reset["threshold"], &reset["forSeconds"]), (&json!(0.5), &json!(60)));
    let replaced = world.put("/alert/dead", r#"{"signal": "due", "threshold": 7, "disabled": true}"#).await;
    assert_eq!((replaced.status.as_u16(), &replaced.json()["state"]), (200, &json!("disabled")));
    assert_eq!(world.put("/alert/new", r#"{"signal": "due", "threshold": 7}"#).await.status, 201);

    assert_eq!(world.get("/alert/dead/page").await.json(), json!({ "data": [] }));
    assert_eq!(world.delete("/alert/dead").await.status, 204);
    for path in ["/alert/dead", "/alert/dead/page", "/alert/no%20name"] {
        assert_eq!(world.get(path).await.code(), (404, "not_found".to_owned()), "{path}");
    }
    assert_eq!(world.delete("/alert/dead").await.status, 404);
}

#[tokio::test]
async fn a_bad_rule_is_refused_by_field() {
    let world = World::new().await;
    assert_eq!(world.post("/alert", RULE).await.status, 201);
    let mut answers = Vec::new();
    for body in [
        r#"{"signal": "dead", "threshold": 1}"#,
        r#"{"name": "everhook.x", "signal": "dead", "threshold": 1}"#,
        r#"{"name": "x", "threshold": 1}"#,
        r#"{"name": "x", "signal": "noise", "threshold": 1}"#,
        r#"{"name": "x", "signal": "dead"}"#,
        r#"{"name": "x", "signal": "dead", "threshold": -1}"#,
        r#"{"name": "x", "signal": "dead", "threshold": 1, "window": 3}"#,
        r#"{"name": "x", "signal": "failure-rate", "threshold": 0.1}"#,
        r#"{"name": "x", "signal": "dead", "threshold": 1, "destinations": ["nobody"]}"#,
        r#"{"name": "x", "signal": "dead", "threshold": 1, "destinations": ["a b"]}"#,
        r#"{"name": "x", "signal": "dead", "threshold": 1, "destinations": ["ep_x"]}"#,
        r#"{"name": "x", "signal": "dead", "threshold": 1, "escalation": {"destinations": ["nobody"]}}"#,
        r#"{"name": "x", "signal": "dead", "threshold": 1, "escalation": {"afterSeconds": 5, "destinations": []}}"#,
    ] {
        answers.push(world.post("/alert", body).await.to_string());
    }
    answers.push(world.patch("/alert/dead", r#"{"name": "other"}"#).await.to_string());
    insta::assert_snapshot!(answers.join("\n"), @r#"
    422 {"detail":[{"loc":["body","name"],"msg":"is required","type":"value_error"}]}
    422 {"detail":[{"loc":["body","name"],"msg":"must not begin with \"everhook.\", which is reserved for Everhook","type":"value_error"}]}
    422 {"detail":[{"loc":["body","signal"],"msg":"is required","type":"value_error"}]}
    422 {"detail":[{"loc":["body","signal"],"msg":"unknown variant `noise`, expected one of `dead`, `due`, `oldest-due-age`, `failure-rate`, `queue-depth` at line 1 column 31","type":"value_error.jsondecode"}]}
    422 {"detail":[{"loc":["body","threshold"],"msg":"is required","type":"value_error"}]}
    422 {"detail":[{"loc":["body","threshold"],"msg":"must be from 0 to 9000000000 at line 1 column 48","type":"value_error.jsondecode"}]}
    422 {"detail":[{"loc":["body","window"],"msg":"is not a known field: did you mean `windowSeconds`?","type":"value_error"}]}
    422 {"detail":[{"loc":["body","windowSeconds"],"msg":"is required for failure-rate, and for the condition change","type":"value_error"}]}
    422 {"detail":[{"loc":["body","destinations","[0]"],"msg":"must be the id or uid of an operational endpoint","type":"value_error"}]}
    422 {"detail":[{"loc":["body","destinations","[0]"],"msg":"must be the id or uid of an operational endpoint","type":"value_error"}]}
    422 {"detail":[{"loc":["body","destinations","[0]"],"msg":"must be the id or uid of an operational endpoint","type":"value_error"}]}
    422 {"detail":[{"loc":["body","escalation","destinations","[0]"],"msg":"must be the id or uid of an operational endpoint","type":"value_error"}]}
    422 {"detail":[{"loc":["body","escalation","destinations"],"msg":"must have 1 to 20 entries, or be null","type":"value_error"}]}
    422 {"detail":[{"loc":["body","name"],"msg":"cannot be changed","type":"value_error"}]}
    "#);
}

#[tokio::test]
async fn a_test_page_goes_to_the_destinations() {
    let world = World::new().await;
    world.post("/alert", RULE).await;
    assert_eq!(world.post("/alert/dead/test", "").await.code(), (400, "no_destination".to_owned()));
    world.post(ENDPOINT, r#"{"url": "http://127.0.0.1:9", "uid": "ops", "eventTypes": ["endpoint.disabled"]}"#).await;
    assert_eq!(world.post("/alert/dead/test", "").await.status, 400, "the endpoint wants other events");
    assert_eq!(world.patch("/alert/dead", r#"{"destinations": ["ops"]}"#).await.status, 200);
    let sent = world.post("/alert/dead/test", "").await;
    assert_eq!((sent.status.as_u16(), sent.json()["messages"].as_array().unwrap().len()), (202, 1));
    let leased = world.lease().await;
    let message = leased[0].message().unwrap();
    assert_eq!((leased.len(), message.event_type.as_str()), (1, "alert.triggered"));
    let shown = world.get("/alert/dead").await.json();
    assert_eq!((&shown["state"], &shown["lastPage"]), (&json!("quiet"), &json!(null)), "a test changes nothing");
    assert_eq!(world.delete(&format!("{ENDPOINT}/ops")).await.status, 204);
    assert_eq!(
        world.patch("/alert/dead", r#"{"threshold": 3}"#).await.status,
        200,
        "a member that stays is not checked"
    );
}
