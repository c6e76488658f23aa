//! Nodes wake each other, and reconnect after a broken connection.

use everhook_store::store::Store;

use crate::postgres::database::Database;

#[tokio::test]
async fn a_node_hears_the_others_and_not_itself() {
    let database = Database::migrated().await;
    let (here, there) = (database.store().await, database.store().await);
    let (ours, theirs) = (here.hints().unwrap(), there.hints().unwrap());
    ours.next().await.unwrap(); // The node is listening from now on.
    ours.notify().await.unwrap();
    theirs.notify().await.unwrap();
    theirs.notify().await.unwrap();
    ours.next().await.unwrap();
    // Several hints and the node's own hints result in at most one more.
    let heard = async { (ours.next().await, ours.next().await) };
    tokio::select! {
        biased;
        heard = heard => panic!("{heard:?}"),
        done = round_trips(&here) => done,
    }
}

/// Waits long enough for a hint to arrive.
async fn round_trips(store: &impl Store) {
    for _ in 0..20 {
        store.now().await.unwrap();
    }
}

#[tokio::test]
async fn a_line_that_broke_is_opened_again() {
    let database = Database::migrated().await;
    let (here, there) = (database.store().await, database.store().await);
    let (ours, theirs) = (here.hints().unwrap(), there.hints().unwrap());
    ours.next().await.unwrap();
    theirs.notify().await.unwrap();
    ours.next().await.unwrap();
    let end = "select pg_terminate_backend(pid) from pg_stat_activity \
        where datname = current_database() and pid <> pg_backend_pid()";
    database.client().await.batch_execute(end).await.unwrap();
    assert!(ours.next().await.is_err(), "it tells that it may have missed something");
    ours.next().await.unwrap(); // The node is listening again.
    while theirs.notify().await.is_err() {}
    ours.next().await.unwrap();
}

#[tokio::test]
async fn through_a_pooler_alone_there_are_no_wakeups() {
    let database = Database::migrated().await;
    assert!(database.store_with(|config| config.pooler = true).await.hints().is_none());
    let direct = database.url().to_owned();
    let both = |config: &mut everhook_postgres::PostgresConfig| {
        config.pooler = true;
        config.direct_url = Some(direct);
    };
    assert!(database.store_with(both).await.hints().is_some());
}

#[tokio::test]
async fn a_closed_store_hears_nothing() {
    let database = Database::migrated().await;
    let store = database.store().await;
    let hints = store.hints().unwrap();
    hints.next().await.unwrap();
    hints.notify().await.unwrap();
    store.close().await;
    let listening = "select count(*) from pg_stat_activity where datname = current_database() and query ~ 'listen|notify' \
        and pid <> pg_backend_pid()";
    let client = database.client().await;
    while client.query_one(listening, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
}
