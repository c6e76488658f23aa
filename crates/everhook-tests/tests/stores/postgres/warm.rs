//! A server's store before it is ready: its connections are open and have planned their statements.

use everhook_store::store::Store;

use crate::postgres::database::Database;

/// Counts the connections of the store whose last transaction was rolled back, as the planning one is.
async fn planned(database: &Database) -> i64 {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() \
        and state = 'idle' and query = 'rollback'";
    database.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn connections_are_open_and_have_planned_before_anyone_waits() {
    let database = Database::migrated().await;
    let store = database.store_with(|config| config.pool_size = 12).await;
    assert_eq!(planned(&database).await, 0);
    store.preplan().await;
    assert_eq!(planned(&database).await, 6);
    store.close().await;
    let other = database.store_with(|config| config.pool_size = 2).await;
    other.preplan().await;
    assert_eq!(planned(&database).await, 2, "no more than there may be");
    other.close().await;
}

#[tokio::test]
async fn behind_a_pooler_nothing_is_planned_ahead() {
    let database = Database::migrated().await;
    let store = database.store_with(|config| config.pooler = true).await;
    store.preplan().await;
    assert_eq!(planned(&database).await, 0);
}

#[tokio::test]
async fn a_store_that_cannot_plan_works_all_the_same() {
    let database = Database::migrated().await;
    let store = database.store().await;
    let client = database.client().await;
    client.batch_execute("alter table everhook.attempt rename to elsewhere").await.unwrap();
    store.preplan().await;
    assert_eq!(planned(&database).await, 0);
    store.now().await.unwrap();
    client.batch_execute("alter table everhook.elsewhere rename to attempt").await.unwrap();
    store.preplan().await;
    assert_eq!(planned(&database).await, 4);
}
