//! The whole suite through a real pgbouncer in transaction mode.
//!
//! Debian has version 1.18, which does not support named statements in that mode.

use everhook_postgres::{PostgresStore, migrate};
use everhook_store::lease::Renewed;
use everhook_store::store::Store;
use everhook_testkit::conformance::{Backend, Fresh};

use crate::postgres::database::Database;
use crate::postgres::pgbouncer::PgBouncer;
use crate::postgres::stage::Stage;

struct Pooled;

impl Backend for Pooled {
    type Store = PostgresStore;

    async fn fresh() -> Fresh<PostgresStore> {
        let database = Database::migrated().await;
        let pooler = PgBouncer::start(database.url());
        let (store, other) = (through(&database, &pooler).await, through(&database, &pooler).await);
        Fresh::two(store, other, (pooler, database))
    }
}

everhook_testkit::conformance_full!(Pooled);

/// Opens the store of a node that only reaches the pooler.
async fn through(database: &Database, pooler: &PgBouncer) -> PostgresStore {
    let configure = |config: &mut everhook_postgres::PostgresConfig| {
        config.url = pooler.url(database.url());
        config.pooler = true;
    };
    database.store_with(configure).await
}

#[tokio::test]
async fn a_schema_is_made_through_it_where_there_is_no_other_way() {
    let database = Database::empty().await;
    let pooler = PgBouncer::start(database.url());
    let url = pooler.url(database.url());
    let (one, other) = tokio::join!(migrate(&url), migrate(&url));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.applied.len() + other.applied.len(), one.from.min(other.from)), (one.to as usize, 0));
    through(&database, &pooler).await.now().await.unwrap();
}

#[tokio::test]
async fn heartbeats_and_wakeups_go_past_the_pooler_where_they_can() {
    let database = Database::migrated().await;
    let pooler = PgBouncer::start(database.url());
    let configure = |config: &mut everhook_postgres::PostgresConfig| {
        config.direct_url = Some(config.url.clone());
        config.url = pooler.url(&config.url);
        config.pooler = true;
    };
    let stage = Stage::new(database.store_with(configure).await).await;
    let hints = stage.store.hints().unwrap();
    hints.next().await.unwrap();
    drop(pooler);
    assert!(matches!(stage.store.renew_session(stage.session).await.unwrap(), Renewed::Open(_)));
    hints.notify().await.unwrap();
    assert!(stage.store.now().await.is_err());
}
