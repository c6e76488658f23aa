//! Delivery policies.

use serde_json::json;

use crate::api::world::World;

const ENDPOINT: &str = "/app/acme/endpoint/main";

#[tokio::test]
async fn the_effective_policy_names_the_origin_of_each_setting() {
    let world = World::with_endpoint().await;
    let patch = r#"{"policy": {"timeoutSeconds": 5, "eventTypes": {"a.b": {"retry": {"backoff": [1, 2]}}}}}"#;
    assert_eq!(world.patch(ENDPOINT, patch).await.status, 200);
    let application = r#"{"policy": {"retry": {"maxAttempts": 3, "finalStatuses": ["4xx"]}}}"#;
    assert_eq!(world.patch("/app/acme", application).await.status, 200);
    assert_eq!(world.put("/environment/policy", r#"{"retryBudget": 1, "timeoutSeconds": 9}"#).await.status, 200);
    insta::assert_snapshot!(world.get(&format!("{ENDPOINT}/policy")).await, @r#"200 {"eventType":null,"backoff":{"value":[],"from":"server","forEventType":false},"maxAttempts":{"value":1,"from":"server","forEventType":false},"jitterPercent":{"value":20,"from":"server","forEventType":false},"finalStatuses":{"value":["4xx"],"from":"application","forEventType":false},"retryBudget":{"value":1,"from":"environment","forEventType":false},"timeoutSeconds":{"value":5,"from":"endpoint","forEventType":false},"rate":{"value":null,"from":"server","forEventType":false},"concurrency":{"value":null,"from":"server","forEventType":false},"ordering":{"value":null,"from":"server","forEventType":false},"onDead":{"value":"skip","from":"server","forEventType":false},"breaker":{"value":null,"from":"server","forEventType":false},"disableAfterSeconds":{"value":432000,"from":"server","forEventType":false},"paused":{"value":false,"from":"server","forEventType":false},"whileDisabled":{"value":"skip","from":"server","forEventType":false},"legacySignature":{"value":null,"from":"server","forEventType":false},"keepReplies":{"value":true,"from":"server","forEventType":false}}"#);
    insta::assert_snapshot!(world.get(&format!("{ENDPOINT}/policy?event_type=a.b")).await, @r#"200 {"eventType":"a.b","backoff":{"value":[1,2],"from":"endpoint","forEventType":true},"maxAttempts":{"value":3,"from":"endpoint","forEventType":true},"jitterPercent":{"value":20,"from":"server","forEventType":false},"finalStatuses":{"value":["4xx"],"from":"application","forEventType":false},"retryBudget":{"value":1,"from":"environment","forEventType":false},"timeoutSeconds":{"value":5,"from":"endpoint","forEventType":false},"rate":{"value":null,"from":"server","forEventType":false},"concurrency":{"value":null,"from":"server","forEventType":false},"ordering":{"value":null,"from":"server","forEventType":false},"onDead":{"value":"skip","from":"server","forEventType":false},"breaker":{"value":null,"from":"server","forEventType":false},"disableAfterSeconds":{"value":432000,"from":"server","forEventType":false},"paused":{"value":false,"from":"server","forEventType":false},"whileDisabled":{"value":"skip","from":"server","forEventType":false},"legacySignature":{"value":null,"from":"server","forEventType":false},"keepReplies":{"value":true,"from":"server","forEventType":false}}"#);
    insta::assert_snapshot!(world.get(&format!("{ENDPOINT}/policy?event_type=a%20b")).await, @r#"422 {"detail":[{"loc":["query","event_type"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/environment/policy").await, @r#"200 {"timeoutSeconds":9,"retryBudget":1}"#);
    // Endpoints without settings of their own have the policy of their application, and that of the environment.
    let origins = async |path: &str| {
        let policy = world.get(path).await.json();
        ["timeoutSeconds", "finalStatuses", "rate"].map(|name| policy[name]["from"].as_str().map(str::to_owned))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(origins("/app/acme/policy").await, [some("environment"), some("application"), some("server")]);
    assert_eq!(origins("/environment/effective-policy").await, [some("environment"), some("server"), some("server")]);
    assert_eq!(world.get("/app/nobody/policy").await.status, 404);
}

#[tokio::test]
async fn clients_that_do_not_know_policies_keep_them_and_null_removes_them() {
    let world = World::with_endpoint().await;
    let policy = async |path: &str| world.get(path).await.json().get("policy").cloned();
    let set = r#"{"policy": {"timeoutSeconds": 5}}"#;
    for (path, put) in [("/app/acme", r#"{"name": "Acme"}"#), (ENDPOINT, r#"{"url": "https://example.com/"}"#)] {
        assert_eq!(world.patch(path, set).await.status, 200);
        assert_eq!(world.put(path, put).await.status, 200);
        assert_eq!(world.patch(path, r#"{"metadata": {}}"#).await.status, 200);
        assert_eq!(policy(path).await, Some(json!({ "timeoutSeconds": 5 })), "{path}");
        assert_eq!(world.patch(path, r#"{"policy": {"retry": {"maxAttempts": 2}}}"#).await.status, 200);
        assert_eq!(policy(path).await, Some(json!({ "retry": { "maxAttempts": 2 } })), "replaced as a whole");
        assert_eq!(world.patch(path, r#"{"policy": null}"#).await.status, 200);
        assert_eq!(policy(path).await, None);
    }
}

#[tokio::test]
async fn applications_and_environments_can_be_paused_and_only_endpoints_can_hold_while_disabled() {
    let world = World::with_endpoint().await;
    let paused = async || world.get(&format!("{ENDPOINT}/policy")).await.json()["paused"].clone();
    let (on, hold) = (r#"{"policy": {"paused": true}}"#, r#"{"policy": {"whileDisabled": "hold"}}"#);
    assert_eq!(world.put("/environment/policy", r#"{"paused": true}"#).await.status, 200);
    assert_eq!(paused().await, json!({"value": true, "from": "environment", "forEventType": false}));
    assert_eq!(world.patch("/app/acme", on).await.status, 200);
    assert_eq!(paused().await, json!({"value": true, "from": "application", "forEventType": false}));
    insta::assert_snapshot!(world.patch("/app/acme", hold).await, @r#"422 {"detail":[{"loc":["body","policy","whileDisabled"],"msg":"is a setting of endpoints: set it there","type":"value_error"}]}"#);
}

#[tokio::test]
async fn bad_policies_are_refused_by_field() {
    let world = World::with_endpoint().await;
    let refused = async |policy: &str| world.patch(ENDPOINT, &format!(r#"{{"policy": {policy}}}"#)).await;
    insta::assert_snapshot!(refused("3").await, @r#"422 {"detail":[{"loc":["body","policy"],"msg":"invalid type: integer `3`, expected an object with settings","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"retry": {"backoff": []}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","retry","backoff"],"msg":"a retry schedule requires at least one delay","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"retry": {"backoff": "x"}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","retry","backoff"],"msg":"invalid type: string \"x\", expected a list of seconds, or an object with baseSeconds and capSeconds","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"retry": {"maxAttempts": -1}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","retry","maxAttempts"],"msg":"invalid value: integer `-1`, expected u32","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"retry": {"finalStatuses": [400, 408]}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","retry","finalStatuses","[1]"],"msg":"must not be 408, which asks for a later attempt","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"timeout": 3}"#).await, @r#"422 {"detail":[{"loc":["body","policy","timeout"],"msg":"is not a setting: did you mean `timeoutSeconds`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"breakr": {}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","breakr"],"msg":"is not a setting: did you mean `breaker`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"pausd": null}"#).await, @r#"422 {"detail":[{"loc":["body","policy","pausd"],"msg":"is not a setting: did you mean `paused`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"retry": {"maxAttempt": 3}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","retry","maxAttempt"],"msg":"is not a setting: did you mean `maxAttempts`?","type":"value_error"}]}"#);
    let unknown = async |policy: &str| refused(policy).await.json()["detail"][0]["msg"].clone();
    assert_eq!(unknown(r#"{"max_attempts": 3}"#).await, "is not a setting");
    assert_eq!(unknown(r#"{"maxAttempts": 3}"#).await, "is a setting, but not at this place");
    for (policy, near) in [
        (r#"{"breaker": {"min_attempts": 10}}"#, "minAttempts"),
        (r#"{"rate": {"count": 1, "seconds": 1, "second": 1}}"#, "seconds"),
        (r#"{"legacySignature": {"header": "X-Sig", "signed_text": "{body}"}}"#, "signedText"),
        (r#"{"eventTypes": {"a": {"timeout": 5}}}"#, "timeoutSeconds"),
    ] {
        assert_eq!(unknown(policy).await, format!("is not a setting: did you mean `{near}`?"), "{policy}");
    }
    assert_eq!(world.put("/environment/policy", r#"{"breakr": {}}"#).await.status, 422);
    insta::assert_snapshot!(refused(r#"{"eventTypes": {"a b": {}}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","eventTypes","a b"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"eventTypes": {"a": {"rate": 1}}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","eventTypes","a","rate"],"msg":"is a setting, but not at this place","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"legacySignature": {"header": "webhook-id"}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","legacySignature","header"],"msg":"must not be a header that every delivery has","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"concurrency": 0}"#).await, @r#"422 {"detail":[{"loc":["body","policy","concurrency"],"msg":"must be 1 to 10000, or \"none\"","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"ordering": {"key": "customer"}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","ordering","key"],"msg":"must be a JSON pointer, such as \"/customerId\"","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"ordering": {"key": "/a~b"}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","ordering","key"],"msg":"must be a JSON pointer: write ~0 for ~ and ~1 for / in a name","type":"value_error"}]}"#);
    assert_eq!(refused(r#"{"ordering": {"key": 3}}"#).await.status, 422);
    assert_eq!(refused(r#"{"ordering": {"key": "/a", "lanes": 3}}"#).await.status, 422);
    insta::assert_snapshot!(refused(r#"{"breaker": {"failurePercent": 0}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","breaker","failurePercent"],"msg":"must be 1 to 100","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"breaker": {"openSeconds": 9, "maxOpenSeconds": 8}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","breaker","maxOpenSeconds"],"msg":"must not be less than openSeconds","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"breaker": {"probes": 2}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","breaker","probes"],"msg":"is not a setting","type":"value_error"}]}"#);
    assert_eq!(refused(r#"{"ordering": "sometimes"}"#).await.status, 422);
    assert_eq!(refused(r#"{"onDead": "explode"}"#).await.status, 422);
    insta::assert_snapshot!(refused(r#"{"rate": {"count": 0, "seconds": 1}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","rate","count"],"msg":"must be 1 to 100000","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"rate": {"count": 1}}"#).await, @r#"422 {"detail":[{"loc":["body","policy","rate"],"msg":"missing field `seconds`","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"rate": 5}"#).await, @r#"422 {"detail":[{"loc":["body","policy","rate"],"msg":"invalid type: integer `5`, expected an object with count and seconds","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.put("/environment/policy", r#"{"rate": {"count": 1, "seconds": 86401}}"#).await, @r#"422 {"detail":[{"loc":["body","rate","seconds"],"msg":"must be 1 to 86400","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.put("/environment/policy", r#"{"timeoutSeconds": 0}"#).await, @r#"422 {"detail":[{"loc":["body","timeoutSeconds"],"msg":"must be 1 to 120","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.put("/environment/policy", "[]").await, @r#"422 {"detail":[{"loc":["body"],"msg":"invalid type: sequence, expected a JSON object at line 1 column 0","type":"value_error.jsondecode"}]}"#);
}

#[tokio::test]
async fn a_breaker_is_inherited_and_may_be_switched_off() {
    let world = World::with_endpoint().await;
    let breaker = async || world.get(&format!("{ENDPOINT}/policy")).await.json()["breaker"].clone();
    assert_eq!(breaker().await["value"], json!(null));
    assert_eq!(world.put("/environment/policy", r#"{"breaker": {"minAttempts": 5}}"#).await.status, 200);
    let value = json!({
        "failurePercent": 50, "minAttempts": 5, "windowSeconds": 60, "openSeconds": 30, "maxOpenSeconds": 300
    });
    assert_eq!(breaker().await, json!({ "value": value, "from": "environment", "forEventType": false }));
    assert_eq!(world.patch(ENDPOINT, r#"{"policy": {"breaker": "none"}}"#).await.status, 200);
    assert_eq!(breaker().await, json!({ "value": null, "from": "endpoint", "forEventType": false }));
}

#[tokio::test]
async fn a_concurrency_limit_is_inherited_and_may_be_switched_off() {
    let world = World::with_endpoint().await;
    let limit = async || world.get(&format!("{ENDPOINT}/policy")).await.json()["concurrency"].clone();
    assert_eq!(limit().await, json!({ "value": null, "from": "server", "forEventType": false }));
    assert_eq!(world.put("/environment/policy", r#"{"concurrency": 9}"#).await.status, 200);
    assert_eq!(limit().await, json!({ "value": 9, "from": "environment", "forEventType": false }));
    assert_eq!(world.patch("/app/acme", r#"{"policy": {"concurrency": 7}}"#).await.status, 200);
    assert_eq!(limit().await, json!({ "value": 7, "from": "application", "forEventType": false }));
    assert_eq!(world.patch(ENDPOINT, r#"{"policy": {"concurrency": "none"}}"#).await.status, 200);
    assert_eq!(limit().await, json!({ "value": null, "from": "endpoint", "forEventType": false }));
}

#[tokio::test]
async fn a_throttle_rate_is_a_rate_of_its_level() {
    let world = World::with_endpoint().await;
    let rate = async || world.get(&format!("{ENDPOINT}/policy")).await.json()["rate"].clone();
    assert_eq!(rate().await, json!({ "value": null, "from": "server", "forEventType": false }));
    assert_eq!(world.put("/environment/policy", r#"{"rate": {"count": 9, "seconds": 60}}"#).await.status, 200);
    assert_eq!(rate().await["from"], "environment");
    assert_eq!(world.patch("/app/acme", r#"{"throttleRate": 7}"#).await.status, 200);
    let per_second = |count| json!({ "count": count, "seconds": 1 });
    assert_eq!((rate().await["value"].clone(), rate().await["from"].clone()), (per_second(7), json!("application")));
    assert_eq!(world.patch(ENDPOINT, r#"{"throttleRate": 5}"#).await.status, 200);
    assert_eq!((rate().await["value"].clone(), rate().await["from"].clone()), (per_second(5), json!("endpoint")));
    assert_eq!(world.patch(ENDPOINT, r#"{"policy": {"rate": "none"}}"#).await.status, 200);
    assert_eq!(rate().await["value"], json!(null), "the policy outranks the older field");
}

#[tokio::test]
async fn an_order_by_a_key_is_inherited() {
    let world = World::with_endpoint().await;
    let ordering = async || world.get(&format!("{ENDPOINT}/policy")).await.json()["ordering"].clone();
    assert_eq!(world.patch("/app/acme", r#"{"policy": {"ordering": {"key": "/customer/id"}}}"#).await.status, 200);
    let inherited = json!({ "value": { "key": "/customer/id" }, "from": "application", "forEventType": false });
    assert_eq!(ordering().await, inherited);
    assert_eq!(world.patch(ENDPOINT, r#"{"policy": {"ordering": "none"}}"#).await.status, 200);
    assert_eq!(ordering().await["value"], json!(null));
}
