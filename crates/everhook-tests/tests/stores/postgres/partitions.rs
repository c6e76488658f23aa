//! A message finds its partition, whatever time its id contains.

use everhook_core::id::{Id, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Locator;
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::store::{Reads, Store};

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

#[tokio::test]
async fn ids_of_any_time_are_taken() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let long_ago = Id::floor(Timestamp::from_millis(1_500_000_000_000));
    let far_ahead = Id::floor(Timestamp::from_millis(4_000_000_000_000));
    let ids = [Id::MIN, long_ago, far_ahead, Id::MAX];
    let messages = ids.map(|id| stage.message_with_id(id, Vec::new()));
    let tasks = stage.append_fast(messages.into()).await.unwrap();
    assert_eq!(tasks.iter().map(|task| task.key.subject).collect::<Vec<_>>(), ids);
    for task in tasks {
        let locator = Locator::Id(MessageId(task.key.subject));
        let found = stage
            .store
            .read(query::FindMessage {
                scope: AppScope::of(stage.environment, stage.application),
                locator: locator.clone(),
            })
            .await
            .unwrap();
        assert!(found.is_some());
        stage.end(&task, NextRow::Gone).await;
    }
}

#[tokio::test]
async fn a_missing_partition_is_made_when_it_is_needed() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let first = stage.append_fast(vec![stage.message(Vec::new())]).await.unwrap();
    // This drops partitions as retention does, but too early.
    let drop_all = "do $$ declare name regclass; begin
        for name in select inhrelid::regclass from pg_inherits
            where inhparent in ('everhook.message'::regclass, 'everhook.attempt_delivery'::regclass)
        loop execute format('drop table %s', name); end loop; end $$";
    let client = database.client().await;
    client.batch_execute(drop_all).await.unwrap();
    stage.end(&first[0], NextRow::Gone).await;
    client.batch_execute(drop_all).await.unwrap();
    let second = stage.append_fast(vec![stage.message(Vec::new())]).await.unwrap();
    let retry = NextRow::Pending { due_in: Default::default() };
    client.batch_execute(drop_all).await.unwrap();
    stage.end(&second[0], retry).await;
    client.batch_execute(drop_all).await.unwrap();
    stage.store.maintain().await.unwrap();
    let made = "select count(*) from pg_inherits where inhparent = 'everhook.message'::regclass";
    assert_eq!(client.query_one(made, &[]).await.unwrap().get::<_, i64>(0), 3, "this week and two ahead");
}

#[tokio::test]
async fn nodes_may_make_partitions_at_once() {
    let database = Database::migrated().await;
    let (one, other) = (database.store().await, database.store().await);
    let (first, second) = tokio::join!(one.ensure_partitions(), other.ensure_partitions());
    first.and(second).unwrap();
}

#[tokio::test]
async fn a_store_beyond_its_size_loses_whole_weeks_and_keeps_the_current_one() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let old = Id::floor(Timestamp::from_millis(1_500_000_000_000));
    let (kept, id) = (stage.message(Vec::new()), stage.message_with_id(old, Vec::new()));
    for task in stage.append_fast(vec![kept, id]).await.unwrap() {
        stage.store.settle([stage.settlement(&task, NextRow::Gone)].into()).await.unwrap();
    }
    let client = database.client().await;
    let weeks = async || {
        let count = "select count(*) from pg_inherits where inhparent = 'everhook.message'::regclass";
        client.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    let cut = async |bytes_max| stage.store.read(query::FindSizeCut { bytes_max }).await.unwrap();
    assert_eq!(cut(u64::MAX).await, None);
    let (before, many) = (cut(0).await.expect("the old week does not fit"), weeks().await);
    stage.store.prune(Prune { what: Prunable::Messages, before, limit: 200 }).await.unwrap();
    assert_eq!((weeks().await, cut(0).await), (many - 1, None), "the space of the week is back; the others stay");
}
