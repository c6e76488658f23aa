//! Delivery of a message: once, signed, with the right headers and the accepted bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until_true;
use serde_json::json;

use crate::binary::client::text;
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};
use crate::binary::signature::Signed as _;
use crate::binary::signature::is_signed;

on_both_stores! {
    a_message_arrives_signed_with_its_headers,
    the_body_is_what_was_accepted_byte_for_byte,
    without_faults_every_message_arrives_exactly_once,
    only_the_endpoints_that_want_it_get_a_message,
    while_a_secret_is_rotated_both_keys_sign,
    an_attempt_keeps_the_reply,
    an_attempt_shows_the_request_that_was_sent,
    an_attempt_to_push_a_job_keeps_its_steps,
    replies_are_not_kept_where_the_environment_does_not_want_it,
    a_repeated_request_is_the_same_message,
    environments_never_touch_each_other,
}

fn a_message_arrives_signed_with_its_headers(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/hook?kind=all"));
    let message = json!({ "eventType": "invoice.paid", "payload": { "amount": 42 }, "eventId": "evt-1" });
    let made = application.client.post(&application.path("/msg"), &message).expect(202);

    let seen = receiver.wait_for("/hook?kind=all", 1).remove(0);
    seen.verify(&endpoint.secret);
    assert_eq!(seen.method, "POST");
    assert_eq!(seen.body, br#"{"amount":42}"#);
    let id = text(&made["id"]);
    for name in ["webhook-id", "svix-id", "idempotency-key"] {
        assert_eq!(seen.header(name), id, "{name}");
    }
    assert_eq!(seen.header("webhook-timestamp"), seen.header("svix-timestamp"));
    assert_eq!(seen.header("webhook-signature"), seen.header("svix-signature"));
    assert_eq!(seen.header("everhook-event-type"), "invoice.paid");
    assert_eq!(seen.header("everhook-attempt"), "1");
    assert_eq!(seen.header("content-type"), "application/json");
    assert_eq!(seen.header("user-agent"), format!("Everhook/{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(application.wait_for(&id, &endpoint, "success")["status"], 0);
    let attempts = application.client.get(&application.path(&format!("/attempt/msg/{id}"))).expect(200);
    assert_eq!(text(&attempts["data"][0]["id"]), seen.header("webhook-attempt-id"));
}

fn the_body_is_what_was_accepted_byte_for_byte(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[]);
    let large = format!(r#"{{"large":"{}"}}"#, "x".repeat(900 * 1024));
    let payloads = [
        "{ \"z\" : 1,\n\t\"a\":2 ,\"m\" :\r\n [ 1 , 2,3 ] }",
        r#"{"same":1,"same":2}"#,
        r#"{"number":1.0,"big":123456789012345678901234567890,"exponent":1E+2,"small":0.10}"#,
        r#"{"text":"ž 日本語 🪝 \u017e \ud83e\ude9d \/ \\","\u0061":null}"#,
        "{}",
        r#"{"deep":[[[[[[[[[[{"a":[]}]]]]]]]]]]}"#,
        &large,
    ];
    for payload in payloads {
        let body = format!(r#"{{"payload":{payload},"eventType":"a.b"}}"#);
        let path = application.path("/msg");
        let made = application.client.send("POST", &path, &[], body.as_bytes()).unwrap().expect(202);
        let id = text(&made["id"]);
        receiver.wait_for_messages("/", &[&id]);
        let seen = receiver.seen("/").into_iter().find(|seen| seen.message() == id).unwrap();
        assert!(seen.body == payload.as_bytes(), "{payload:.100} arrived as {seen:?}");
        seen.verify(&endpoint.secret);
    }
}

fn without_faults_every_message_arrives_exactly_once(backend: Arc<Backend>) {
    const SENDERS: usize = 4;
    const EACH: usize = 50;
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let endpoints = ["/a", "/b"].map(|path| application.endpoint(&receiver.url(path)));
    let sent = std::thread::scope(|scope| {
        let senders = (0..SENDERS).map(|_| scope.spawn(|| application.send_many(EACH))).collect::<Vec<_>>();
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect::<Vec<_>>()
    });
    for (path, endpoint) in ["/a", "/b"].iter().zip(&endpoints) {
        receiver.wait_for_messages(path, &sent);
        for message in &sent {
            application.wait_for(message, endpoint, "success");
        }
    }
    for path in ["/a", "/b"] {
        let seen = receiver.seen(path);
        let came = seen.iter().map(|seen| seen.message()).collect::<BTreeSet<_>>();
        assert_eq!((came.len(), seen.len()), (SENDERS * EACH, SENDERS * EACH), "at {path}");
    }
    for message in &sent {
        assert_eq!(application.attempts(message).len(), endpoints.len());
    }
}

fn only_the_endpoints_that_want_it_get_a_message(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let client = server.client();
    client.post("/event-type", &json!({ "name": "a.b", "description": "" })).expect(201);
    let application = client.application("Acme");
    let other = client.application("Other");
    application.endpoint_with(json!({ "url": receiver.url("/all") }));
    application.endpoint_with(json!({ "url": receiver.url("/type"), "eventTypes": ["a.b"] }));
    application.endpoint_with(json!({ "url": receiver.url("/channel"), "channels": ["red", "blue"] }));
    application.endpoint_with(json!({ "url": receiver.url("/disabled"), "disabled": true }));
    other.endpoint_with(json!({ "url": receiver.url("/other") }));
    let send = |fields| text(&client.post(&application.path("/msg"), &fields).expect(202)["id"]);
    let plain = send(json!({ "eventType": "x", "payload": {} }));
    let typed = send(json!({ "eventType": "a.b", "payload": {} }));
    let on_channel = send(json!({ "eventType": "x", "payload": {}, "channels": ["blue"] }));

    receiver.wait_for_messages("/all", &[&plain, &typed, &on_channel]);
    receiver.wait_for_messages("/type", &[&typed]);
    receiver.wait_for_messages("/channel", &[&on_channel]);
    for (message, wanted) in [(plain, 1), (typed, 2), (on_channel, 2)] {
        let destinations = client.list(&application.path(&format!("/msg/{message}/endpoint")));
        assert_eq!(destinations.len(), wanted, "{destinations:?}");
    }
    assert_eq!(receiver.count(), 5);
}

fn while_a_secret_is_rotated_both_keys_sign(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[]);
    let secret = application.path(&format!("/endpoint/{}/secret", endpoint.id));
    let new = text(&application.client.post(&format!("{secret}/rotate"), &json!({})).expect(200)["key"]);
    assert_ne!(new, endpoint.secret);
    application.send(&json!({}));
    let seen = receiver.wait_for("/", 1).remove(0);
    assert!(is_signed(&seen, "webhook", &endpoint.secret) && is_signed(&seen, "webhook", &new));

    application.client.post(&format!("{secret}/rotate"), &json!({ "gracePeriodSeconds": 0 })).expect(200);
    let newest = text(&application.client.get(&secret).expect(200)["key"]);
    application.send(&json!({}));
    let seen = receiver.wait_for("/", 2).remove(1);
    assert!(is_signed(&seen, "webhook", &newest) && !is_signed(&seen, "webhook", &new));
}

fn an_attempt_keeps_the_reply(backend: Arc<Backend>) {
    const KEPT: usize = 16 * 1024;
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let short = application.endpoint(&receiver.url("/short"));
    // At a port of its own, so that no connection can be reused.
    let other = Receiver::start();
    let long = application.endpoint(&other.url("/long"));
    let answer = Answer::status(201).header("set-cookie", "session=secret").header("x-request-id", "<b>7</b>");
    receiver.answer("/short", answer.body("thank you"));
    other.answer("/long", Answer::status(200).body("x".repeat(5 * KEPT)));
    let message = application.send(&json!({}));
    let attempts = application.wait_for_attempts(&message, 2);
    let of = |id: &str| attempts.iter().find(|attempt| attempt["endpointId"] == id).unwrap();
    let attempt = of(&short.id);
    assert_eq!(attempt["response"], "thank you");
    assert_eq!(attempt["responseStatusCode"], 201);
    assert_eq!((&attempt["status"], &attempt["triggerType"]), (&json!(0), &json!(0)));
    assert_eq!(attempt["url"], receiver.url("/short"));
    assert_eq!(attempt["msgId"], message);
    assert_eq!(attempt["phases"]["reused"], false);
    for phase in ["connectMs", "firstByteMs"] {
        assert!(attempt["phases"][phase].is_number(), "{attempt}");
    }
    let header = |name: &str| {
        let headers = attempt["responseHeaders"].as_array().expect("headers").iter();
        headers.filter(|header| header["name"] == name).map(|header| header["value"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(header("x-request-id"), [json!("<b>7</b>")]);
    assert_eq!(header("set-cookie"), [json!(null)], "a credential is not stored");
    assert_eq!(text(&of(&long.id)["response"]).len(), KEPT);
    let listed = application.client.list(&application.path(&format!("/attempt/endpoint/{}", short.id)));
    assert_eq!(listed.iter().map(|attempt| &attempt["id"]).collect::<Vec<_>>(), [&attempt["id"]]);
}

fn an_attempt_shows_the_request_that_was_sent(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("RETRY_SCHEDULE", "0")]), Receiver::start());
    receiver.answer("/", Answer::status(500));
    let application = server.client().application("Acme");
    let endpoint = application.endpoint_with(json!({
        "url": receiver.url("/"),
        "headers": { "X-Region": "eu", "X-Api-Key": "canary-1" },
        "policy": { "legacySignature": { "header": "x-old-signature" } },
    }));
    let auth = json!({ "username": "acme", "password": "canary-2" });
    application.client.put(&application.path(&format!("/endpoint/{}/basic-auth", endpoint.id)), &auth).expect(204);
    let message = application.send(&json!({ "amount": 42 }));
    let sent = receiver.wait_for("/", 2);
    let attempts = application.wait_for_attempts(&message, 2);
    let show = |id: &str| {
        application.client.get(&application.path(&format!("/msg/{message}/attempt/{id}"))).expect(200)["request"]
            .clone()
    };
    for seen in &sent {
        let id = seen.header("webhook-attempt-id");
        let request = show(id);
        let shown = request["headers"].as_array().expect("headers");
        let shown = shown.iter().map(|header| (text(&header["name"]), header["value"].clone()));
        let shown = shown.collect::<std::collections::BTreeMap<_, _>>();
        for (name, value) in
            seen.headers.iter().filter(|(name, _)| !["host", "content-length", "accept-encoding"].contains(&&**name))
        {
            let is_secret = ["x-api-key", "authorization"].contains(&&**name);
            let want = if is_secret { json!(null) } else { json!(value) };
            assert_eq!(shown.get(name), Some(&want), "{name} in {request}");
        }
        assert!(!request.to_string().contains("canary"), "{request}");
        let listed = attempts.iter().find(|attempt| attempt["id"] == id).expect("the attempt is listed");
        assert_eq!(listed["number"].to_string(), seen.header("everhook-attempt"));
        // The credentials were set after the endpoint was made.
        assert_eq!(request["exact"], false);
    }

    let other = application.endpoint(&receiver.url("/other"));
    let message = application.send(&json!({}));
    receiver.wait_for("/other", 1);
    application.wait_for(&message, &other, "success");
    let id = text(&application.client.list(&application.path(&format!("/attempt/endpoint/{}", other.id)))[0]["id"]);
    let path = application.path(&format!("/msg/{message}/attempt/{id}"));
    let show = || application.client.get(&path).expect(200);
    assert_eq!(show()["request"]["exact"], true);
    let rotate = application.path(&format!("/endpoint/{}/secret/rotate", other.id));
    application.client.post(&rotate, &json!({})).expect(200);
    assert_eq!(show()["request"]["exact"], false, "the signature is that of another secret");
    application.client.delete(&application.path(&format!("/msg/{message}/content"))).expect(204);
    let names = show()["request"]["headers"].to_string();
    assert!(names.contains("webhook-timestamp") && !names.contains("-signature"), "{names}");
}

fn an_attempt_to_push_a_job_keeps_its_steps(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    receiver.answer("/push", Answer::status(503).header("set-cookie", "session=secret").body("busy"));
    let client = server.client();
    client.patch("/queue/mail", &json!({ "targetUrl": receiver.url("/push") })).expect(200);
    let job = json!({ "queue": "mail", "kind": "welcome", "payload": {}, "maxAttempts": 1 });
    let path = format!("/job/{}", text(&client.post("/job", &job).expect(202)["id"]));
    until_true("the job is dead", || client.get(&path).expect(200)["state"] == "dead");
    let attempt = client.get(&path).expect(200)["attempts"][0].clone();
    assert!(attempt["phases"]["connectMs"].is_number() && attempt["phases"]["firstByteMs"].is_number(), "{attempt}");
    let headers = attempt["responseHeaders"].as_array().expect("headers");
    assert!(headers.contains(&json!({ "name": "set-cookie", "value": null })), "{attempt}");
}

fn replies_are_not_kept_where_the_environment_does_not_want_it(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("POLL_INTERVAL_MS", "10")]), Receiver::start());
    receiver.answer("/", Answer::status(200).body("canary"));
    let client = server.client();
    client.put("/environment/policy", &json!({ "keepReplies": false })).expect(200);
    let application = client.application("Acme");
    let endpoint = application.endpoint_with(json!({ "url": receiver.url("/"), "policy": { "keepReplies": true } }));
    let shown = client.get(&application.path(&format!("/endpoint/{}/policy", endpoint.id))).expect(200);
    let wanted = json!({ "value": false, "from": "environment", "forEventType": false });
    assert_eq!(shown["keepReplies"], wanted, "an endpoint cannot keep what the environment does not want kept");
    // The node learns of the policy of an environment with a delay.
    everhook_testkit::wait::until("a reply is not kept", || {
        let message = application.send(&json!({}));
        let attempts = application.wait_for_attempts(&message, 1);
        assert_eq!(attempts[0]["responseStatusCode"], 200);
        let has_headers = attempts[0].get("responseHeaders").is_some();
        assert_eq!(has_headers, attempts[0]["response"] != "", "headers are kept with the reply");
        (attempts[0]["response"] == "").then_some(())
    });
}

fn a_repeated_request_is_the_same_message(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } = Scene::start(&backend, &[]);
    let send = |key: &str, body: &str| {
        application
            .client
            .send("POST", &application.path("/msg"), &[("idempotency-key", key)], body.as_bytes())
            .unwrap()
    };
    let body = r#"{"eventType":"a","payload":{"n":1},"eventId":"event-1"}"#;
    let first = send("key-1", body).expect(202);
    let again = send("key-1", body).expect(202);
    assert_eq!(first, again);
    assert_eq!(send("key-1", r#"{"eventType":"a","payload":{"n":2}}"#).expect(409)["code"], "idempotency_key_reused");
    assert_eq!(send("key-2", body).expect(409)["code"], "conflict");
    application.wait_for(&text(&first["id"]), &endpoint, "success");
    assert_eq!(application.client.list(&application.path("/msg")).len(), 1);
    assert_eq!(receiver.count(), 1);
}

fn environments_never_touch_each_other(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let other_key = backend.run(&["key", "create", "--environment", "other"]);
    let clients = [server.client(), server.client_with(other_key.trim())];
    let ids = clients.iter().enumerate().map(|(number, client)| {
        let headers = [("idempotency-key", "same")];
        let send = |path: &str, body: serde_json::Value| {
            client.send("POST", path, &headers, body.to_string().as_bytes()).unwrap()
        };
        let application = send("/app", json!({ "name": "Same", "uid": "same" })).expect(201);
        let url = receiver.url(&format!("/{number}"));
        let endpoint = send("/app/same/endpoint", json!({ "url": url, "uid": "same" })).expect(201);
        let message = json!({ "eventType": "a", "payload": { "number": number }, "eventId": "same" });
        let message = send("/app/same/msg", message).expect(202);
        [application, endpoint, message].map(|made| text(&made["id"]))
    });
    let ids = ids.collect::<Vec<_>>();
    for (number, path) in ["/0", "/1"].iter().enumerate() {
        let seen = receiver.wait_for(path, 1).remove(0);
        assert_eq!(seen.message(), ids[number][2]);
        assert_eq!(seen.body, format!(r#"{{"number":{number}}}"#).as_bytes());
        let listed = clients[number].list("/app/same/msg");
        assert_eq!(listed.iter().map(|message| text(&message["id"])).collect::<Vec<_>>(), [ids[number][2].clone()]);
    }
    let [application, endpoint, message] = &ids[0];
    for path in [
        format!("/app/{application}"),
        format!("/app/{application}/endpoint/{endpoint}"),
        format!("/app/{application}/msg/{message}"),
        format!("/app/same/endpoint/{endpoint}"),
        format!("/app/same/msg/{message}"),
        format!("/app/same/attempt/msg/{message}"),
        format!("/app/same/attempt/endpoint/{endpoint}"),
    ] {
        assert_eq!(clients[1].get(&path).expect(404)["code"], "not_found", "{path}");
    }
    assert_eq!(receiver.count(), 2);
}
