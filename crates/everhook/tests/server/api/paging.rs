//! Pages of every list.

use serde_json::json;

use crate::api::world::World;

/// Walks a list forwards and backwards in pages of two and answers what was seen.
async fn walk(world: &World, path: &str, member: &str) -> (String, String) {
    let and = if path.contains('?') { '&' } else { '?' };
    let get = async |iterator: &str| {
        let iterator = iterator.replace('+', "%2B");
        world.get(&format!("{path}{and}limit=2&iterator={iterator}")).await
    };
    let (mut forwards, mut page) = (Vec::new(), get("").await);
    loop {
        forwards.push(page.each(member).join(","));
        if page.json()["done"] == json!(true) {
            break;
        }
        page = get(&page.text("/iterator")).await;
    }
    let mut backwards = Vec::new();
    loop {
        page = get(&page.text("/prevIterator")).await;
        backwards.push(page.each(member).join(","));
        if page.json()["done"] == json!(true) {
            break;
        }
    }
    (forwards.join(" | "), backwards.join(" | "))
}

#[tokio::test]
async fn every_list_can_be_walked_both_ways() {
    let world = World::new().await;
    for uid in ["a1", "a2", "a3", "a4", "a5"] {
        world.application(uid).await;
        world.endpoint("a1", &uid.replace('a', "e")).await;
        world.message("a1", &uid.replace('a', "m")).await;
        let body = format!(r#"{{"name": "{}", "description": ""}}"#, uid.replace('a', "t"));
        world.post("/event-type", &body).await;
    }
    let check = async |path: &str, member: &str, forwards: &str, backwards: &str| {
        assert_eq!(walk(&world, path, member).await, (forwards.to_owned(), backwards.to_owned()), "{path}");
    };
    check("/app", "uid", "a1,a2 | a3,a4 | a5", "a3,a4 | a1,a2").await;
    check("/app?order=descending", "uid", "a5,a4 | a3,a2 | a1", "a3,a2 | a5,a4").await;
    check("/app/a1/endpoint", "uid", "e5,e4 | e3,e2 | e1", "e3,e2 | e5,e4").await;
    check("/app/a1/endpoint?order=ascending", "uid", "e1,e2 | e3,e4 | e5", "e3,e4 | e1,e2").await;
    check("/app/a1/msg", "eventType", "m5,m4 | m3,m2 | m1", "m3,m2 | m5,m4").await;
    check("/event-type", "name", "t1,t2 | t3,t4 | t5", "t3,t4 | t1,t2").await;
    let message = world.get("/app/a1/msg?limit=1").await.text("/data/0/id");
    let path = format!("/app/a1/msg/{message}/endpoint");
    check(&path, "uid", "e1,e2 | e3,e4 | e5", "e3,e4 | e1,e2").await;
}

#[tokio::test]
async fn names_that_begin_with_a_minus_do_not_turn_a_walk_around() {
    let world = World::new().await;
    for name in ["-a", "-b", "-c", "d", "e"] {
        world.post("/event-type", &format!(r#"{{"name": "{name}", "description": ""}}"#)).await;
    }
    let (forwards, backwards) = walk(&world, "/event-type", "name").await;
    assert_eq!((forwards.as_str(), backwards.as_str()), ("-a,-b | -c,d | e", "-c,d | -a,-b"));
}

#[tokio::test]
async fn pages_have_bounds() {
    let world = World::new().await;
    insta::assert_snapshot!(world.get("/app").await, @r#"200 {"data":[],"iterator":null,"done":true}"#);
    insta::assert_snapshot!(world.get("/app?limit=251").await, @r#"422 {"detail":[{"loc":["query","limit"],"msg":"must be from 1 to 250","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app?limit=0").await, @r#"422 {"detail":[{"loc":["query","limit"],"msg":"must be from 1 to 250","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app?limit=-1").await, @r#"422 {"detail":[{"loc":["query","limit"],"msg":"invalid digit found in string","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app?iterator=nonsense").await, @r#"422 {"detail":[{"loc":["query","iterator"],"msg":"is not an iterator of this list","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app?iterator=-").await, @r#"422 {"detail":[{"loc":["query","iterator"],"msg":"is not an iterator of this list","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/app?order=sideways").await, @r#"422 {"detail":[{"loc":["query","order"],"msg":"must be ascending or descending","type":"value_error"}]}"#);
    assert_eq!(world.get("/app?limit=250&iterator=&order=ascending&unknown=1").await.status, 200);
}

#[tokio::test]
async fn a_page_of_large_messages_ends_early_and_the_list_goes_on() {
    let world = World::with_application().await;
    let text = "x".repeat(1024 * 1024 - 1024);
    let names: Vec<_> = (0..12).map(|number| format!("m{number:02}")).collect();
    for name in &names {
        let body = format!(r#"{{"eventType": "{name}", "payload": {{"text": "{text}"}}}}"#);
        assert_eq!(world.post("/app/acme/msg", &body).await.status, 202);
    }
    let get = async |iterator: &str| world.get(&format!("/app/acme/msg?limit=250&iterator={iterator}")).await;
    let (mut forwards, mut page) = (Vec::new(), get("").await);
    loop {
        assert!(page.body.len() <= 6 * 1024 * 1024, "{} bytes", page.body.len());
        forwards.extend(page.each("eventType"));
        if page.json()["done"] == json!(true) {
            break;
        }
        page = get(&page.text("/iterator")).await;
    }
    assert_eq!(forwards, names.iter().rev().cloned().collect::<Vec<_>>());
    let mut backwards = page.each("eventType");
    loop {
        page = get(&page.text("/prevIterator")).await;
        backwards.splice(0..0, page.each("eventType"));
        if page.json()["done"] == json!(true) {
            break;
        }
    }
    assert_eq!(backwards, forwards, "and back again");
}
