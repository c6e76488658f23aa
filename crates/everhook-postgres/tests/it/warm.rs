//! A store that was just opened: its connections are there, and have planned what they will run.

use crate::database::Database;

/// Connections of the store whose last transaction was undone, as the one is that plans.
async fn planned(database: &Database) -> i64 {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() \
        and state = 'idle' and query = 'rollback'";
    database.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn connections_are_open_and_have_planned_before_anyone_waits() {
    let database = Database::migrated().await;
    let store = database.store_with(|config| config.pool_size = 12).await;
    assert_eq!(planned(&database).await, 6);
    store.close().await;
    let other = database.store_with(|config| config.pool_size = 2).await;
    assert_eq!(planned(&database).await, 2, "no more than there may be");
    other.close().await;
}

#[tokio::test]
async fn behind_a_pooler_nothing_is_planned_ahead() {
    let database = Database::migrated().await;
    let _store = database.store_with(|config| config.pooler = true).await;
    assert_eq!(planned(&database).await, 0);
}
