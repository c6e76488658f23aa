//! The outbox in a PostgreSQL, the store's own and another one.

use async_trait::async_trait;
use everhook_postgres::PostgresOutbox;
use everhook_store::conformance::outbox::{OutboxStage, check};
use everhook_store::error::StoreError;
use everhook_store::outbox::{Batch, Done, Outbox, Relayed, Relayer};
use tokio_postgres::Client;

use crate::database::Database;

struct Postgres {
    outbox: PostgresOutbox,
    client: Client,
}

#[async_trait]
impl OutboxStage for Postgres {
    fn outbox(&self) -> &dyn Outbox {
        &self.outbox
    }

    async fn write(&self, payloads: &[String]) {
        let insert = "insert into everhook.outbox (application, event_type, payload, tags)
            select 'acme', 'a.b', payload, '{x,y}' from unnest($1::text[]) as payload";
        self.client.execute(insert, &[&payloads]).await.unwrap();
    }
}

#[tokio::test]
async fn the_stores_own_outbox_keeps_the_promises_of_every_outbox() {
    let database = Database::migrated().await;
    let store = database.store().await;
    check(&Postgres { outbox: store.outbox(), client: database.client().await }).await;
}

#[tokio::test]
async fn an_outbox_elsewhere_keeps_the_promises_of_every_outbox() {
    let database = Database::empty().await;
    PostgresOutbox::install(database.url()).await.unwrap();
    for pooler in [false, true] {
        let client = database.client().await;
        client.batch_execute("update everhook.outbox_relay set floor = null").await.unwrap();
        let outbox = PostgresOutbox::in_database(database.url(), pooler).unwrap();
        check(&Postgres { outbox, client }).await;
    }
}

/// Looks a second time while the first look is under way.
struct Within<'a>(&'a PostgresOutbox);

#[async_trait]
impl Relayer for Within<'_> {
    async fn relay(&self, batch: &Batch) -> Result<Done, StoreError> {
        let second = self.0.relay(&Nobody).await.unwrap();
        assert!(matches!(second, Relayed::Busy), "{second:?}");
        Ok(Done { relayed: batch.rows.iter().map(|row| row.id).collect(), ..Done::default() })
    }
}

/// Is never asked.
struct Nobody;

#[async_trait]
impl Relayer for Nobody {
    async fn relay(&self, batch: &Batch) -> Result<Done, StoreError> {
        panic!("{batch:?} was relayed twice at once")
    }
}

#[tokio::test]
async fn one_relays_at_a_time_and_a_row_that_someone_has_locked_is_left_for_later() {
    let database = Database::migrated().await;
    let store = database.store().await;
    let stage = Postgres { outbox: store.outbox(), client: database.client().await };
    stage.write(&["one".to_owned(), "two".to_owned(), "three".to_owned()]).await;
    let operator = database.client().await;
    operator.batch_execute("begin; select from everhook.outbox where payload = 'one' for update").await.unwrap();
    let relayed = stage.outbox.relay(&Within(&stage.outbox)).await.unwrap();
    assert!(matches!(relayed, Relayed::Rows(2)), "{relayed:?}");
    let relayed = stage.outbox.relay(&Nobody).await.unwrap();
    assert!(matches!(relayed, Relayed::Nothing), "{relayed:?}");
    operator.batch_execute("commit").await.unwrap();
    let relayed = stage.outbox.relay(&Within(&stage.outbox)).await.unwrap();
    assert!(matches!(relayed, Relayed::Rows(1)), "{relayed:?}");
}
