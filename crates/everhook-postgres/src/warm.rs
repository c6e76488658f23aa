//! Makes the first transactions as fast as the later ones: connections are opened, and what runs all the time is planned on them, before
//! anyone waits for it. Connections that the pool opens later plan their statements as they meet them.

use futures_util::future::try_join_all;
use tokio_postgres::types::{ToSql, Type};
use tracing::warn;

use crate::error::Fault;
use crate::sql::{self, Sql};
use crate::statement::{Database, within};
use crate::store::PostgresStore;
use everhook_store::store::Op;

/// As many as are busy when all of that is done at once, with some for what a node looks after besides.
const CONNECTIONS: usize = 6;

/// What accepting, leasing and settling send.
static HOT: [&Sql; 12] = [
    &sql::APPEND_DIRECT,
    &sql::NEXT_LANE,
    &sql::NEXT_READY,
    &sql::LEASE_TASK,
    &sql::NEXT_DUE,
    &sql::DRAIN_LANE,
    &sql::REFILL_LANE,
    &sql::ROTATE_LANE,
    &sql::CALM_LANE,
    &sql::FIND_MESSAGE,
    &sql::SETTLE_TASK_GONE,
    &sql::SETTLE_TASK_PENDING,
];

impl PostgresStore {
    /// Opens connections and has them plan; for a server, before it is ready. Does nothing behind a pooler, where nothing is planned ahead.
    /// Where it cannot, those who come first wait instead.
    pub async fn warm(&self) {
        let database = &self.database;
        if database.pooler {
            return;
        }
        let connections = CONNECTIONS.min(database.pool.status().max_size);
        // At once, so that none of them gets the connection of another.
        if let Err(fault) = try_join_all((0..connections).map(|_| warm_one(database))).await {
            let error = fault.told(Op::PlanStatements);
            warn!(error = &error as &dyn std::error::Error, "could not open {connections} connections ahead: {error}");
        }
    }
}

/// Runs every hot statement with nothing to do: the server plans a statement when it first runs.
async fn warm_one(database: &Database) -> Result<(), Fault> {
    let transaction = database.transaction().await?;
    let prepared = try_join_all(HOT.iter().map(|sql| transaction.prepare(sql))).await?;
    transaction.begin().await?;
    let nothing: Vec<Vec<Box<dyn ToSql + Sync + Send>>> =
        HOT.iter().map(|sql| sql.types.iter().map(nothing).collect()).collect();
    let params: Vec<Vec<&(dyn ToSql + Sync)>> =
        nothing.iter().map(|values| values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()).collect();
    let runs = prepared.iter().zip(&params).map(|(prepared, params)| transaction.query(prepared, params));
    within(try_join_all(runs)).await?;
    transaction.roll_back().await
}

/// No rows, or none at most.
fn nothing(of: &Type) -> Box<dyn ToSql + Sync + Send> {
    match *of {
        Type::BOOL_ARRAY => Box::new(Vec::<bool>::new()),
        Type::INT2_ARRAY => Box::new(Vec::<i16>::new()),
        Type::INT4_ARRAY => Box::new(Vec::<i32>::new()),
        Type::INT8_ARRAY => Box::new(Vec::<i64>::new()),
        Type::TEXT_ARRAY => Box::new(Vec::<String>::new()),
        Type::BYTEA_ARRAY => Box::new(Vec::<Vec<u8>>::new()),
        Type::INT2 => Box::new(0_i16),
        Type::INT8 => Box::new(0_i64),
        _ => Box::new(Vec::<u8>::new()),
    }
}
