//! The suite that every store must pass.

use everhook_postgres::PostgresStore;
use everhook_testkit::conformance::{Backend, Fresh};

use crate::postgres::database::Database;

struct Postgres;

impl Backend for Postgres {
    type Store = PostgresStore;

    async fn fresh() -> Fresh<PostgresStore> {
        let database = Database::migrated().await;
        Fresh::two(database.store().await, database.store().await, database)
    }
}

everhook_testkit::conformance_full!(Postgres);
