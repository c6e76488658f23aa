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

#[test]
fn order_survives_a_clock_that_is_set_back() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = runtime.block_on(Database::migrated());
    let set_back = async || {
        let sql = "create or replace function everhook.now_us() returns bigint language sql volatile parallel safe \
                   as $$ select (extract(epoch from pg_catalog.clock_timestamp() - interval '1 hour') * 1000000)::bigint $$";
        database.client().await.batch_execute(sql).await.unwrap();
    };
    let fresh = async { Fresh::two(database.store().await, database.store().await, ()) };
    everhook_testkit::conformance::order::order_survives_a_clock_that_is_set_back(fresh, set_back);
}
