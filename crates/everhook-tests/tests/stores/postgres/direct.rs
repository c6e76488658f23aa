//! The append in one statement: it is used, and a wrong guess writes nothing and has the same results as any other
//! append.

use std::sync::Arc;

use everhook_core::id::EndpointId;
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::scope::Scope;
use everhook_store::dedup::DedupKey;
use everhook_store::lease::{Append, Appended, NewMessage};
use everhook_store::resource::{New, ResourceKey};
use everhook_store::store::Resources;
use everhook_testkit::conformance::fixture::{FixedCapacity, fast, new_endpoint, request_key};
use tokio_postgres::Client;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

/// Returns a stage whose store has cached the endpoints, so that the next append uses the guess.
async fn warm(database: &Database) -> Stage {
    let stage = Stage::new(database.store().await).await;
    assert_eq!(stage.append_fast(vec![stage.message(vec![])]).await.unwrap().len(), 1);
    stage
}

fn key(text: &str) -> Vec<DedupKey> {
    vec![request_key(text, "{}")]
}

async fn count(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("select count(*) from everhook.{table}"), &[]).await.unwrap().get(0)
}

async fn append(stage: &Stage, messages: Vec<NewMessage>, capacity: &Arc<FixedCapacity>) -> Vec<Appended> {
    let fast = Some(fast(stage.session, capacity));
    everhook_store::store::Store::append(&*stage.store, Append { fast, messages }).await.unwrap()
}

/// Returns whether the last statement of a connection of the store was the single-statement append.
async fn was_direct(client: &Client) -> bool {
    let sql = "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() \
        and query like '%agreed as materialized%'";
    !client.query(sql, &[]).await.unwrap().is_empty()
}

#[tokio::test]
async fn a_usual_batch_is_one_statement() {
    let database = Database::migrated().await;
    let (stage, client) = (warm(&database).await, database.client().await);
    assert!(!was_direct(&client).await, "the first one has nothing to guess from");
    let messages = (0..20).map(|n| stage.message(key(&format!("k{n}")))).collect();
    assert_eq!(stage.append_fast(messages).await.unwrap().len(), 20);
    assert!(was_direct(&client).await);
    assert_eq!(count(&client, "dedup").await, 20);
    assert_eq!(count(&client, "task where state = 1 and owner is not null and epoch = 1").await, 21);
}

#[tokio::test]
async fn a_key_that_is_taken_undoes_the_guess_and_the_rest_is_accepted() {
    let database = Database::migrated().await;
    let (stage, client) = (warm(&database).await, database.client().await);
    let (first, capacity) = (stage.message(key("k")), FixedCapacity::of(10));
    let id = first.message.id;
    append(&stage, vec![first], &capacity).await;
    let answers = append(&stage, vec![stage.message(key("other")), stage.message(key("k"))], &capacity).await;
    assert!(matches!(&answers[0], Appended::Accepted { leased, .. } if leased.len() == 1), "{answers:?}");
    assert!(matches!(&answers[1], Appended::Repeated(repeated) if *repeated == id), "{answers:?}");
    assert_eq!((count(&client, "message").await, count(&client, "dedup").await), (3, 2));
    drop(answers);
    assert_eq!(capacity.left(), 10, "the slots of a wrong guess are free again");
}

#[tokio::test]
async fn a_lane_with_a_backlog_is_not_overtaken() {
    let database = Database::migrated().await;
    let (stage, client) = (warm(&database).await, database.client().await);
    stage.append(vec![stage.message(vec![])]).await.unwrap();
    let answers = append(&stage, vec![stage.message(key("k"))], &FixedCapacity::of(10)).await;
    assert!(matches!(&answers[0], Appended::Accepted { leased, pending: 1, .. } if leased.is_empty()), "{answers:?}");
    assert_eq!(count(&client, "task where state = 0").await, 2);
    assert_eq!(count(&client, "message").await, 3);
}

#[tokio::test]
async fn endpoints_that_another_node_changed_are_noticed() {
    let database = Database::migrated().await;
    let (stage, elsewhere) = (warm(&database).await, database.store().await);
    let endpoint = new_endpoint(EndpointId(stage.id()), stage.application);
    elsewhere
        .create(Scope::of(stage.environment), New { record: endpoint.clone(), max: ENDPOINTS_MAX }, None)
        .await
        .unwrap();
    assert_eq!(stage.append_fast(vec![stage.message(key("k"))]).await.unwrap().len(), 2);
    elsewhere
        .delete(Scope::of(stage.environment), ResourceKey::Application(stage.application))
        .await
        .unwrap()
        .is_done();
    let answers = append(&stage, vec![stage.message(key("l"))], &FixedCapacity::of(10)).await;
    assert!(matches!(answers[0], Appended::NoApplication), "{answers:?}");
    assert_eq!(count(&database.client().await, "dedup").await, 1, "what is refused keeps no key");
}
