//! The shared store: one PostgreSQL, any number of nodes.
//!
//! READ COMMITTED throughout. Everything is in the schema `everhook` and named in full, so that it works behind a pooler
//! that hands out connections transaction by transaction. Refuses to run on a schema it does not know and on a server that
//! would lose what it confirmed. Decides nothing: decisions are in the core, statements in `queries/`.

mod append;
mod backlog;
mod batch;
mod columns;
mod connection;
mod dedup;
mod endpoints;
mod environment;
mod error;
mod feed;
mod history;
mod hosts;
mod job;
mod lease;
mod lease_sizing;
mod migrate;
mod once;
mod operations;
mod optimistic_append;
mod outbox;
mod partition;
mod preplan;
mod queue;
mod reads;
mod redrive;
mod renew;
mod resource;
mod retention;
mod scan_cursor;
mod schedule;
mod session;
mod settle;
mod sql;
mod store;
mod tls;
mod tx;
mod url;
mod value;
mod wakeup;
mod worker;

use everhook_store::sql::statement::Dialect;

pub use crate::error::PostgresOpenError;
pub use crate::migrate::{PostgresMigrationReport, migrate};
pub use crate::outbox::PostgresOutbox;
pub use crate::sql::{StoreStatement, statements};
pub use crate::store::{PostgresConfig, PostgresStore};
pub use crate::url::{check_url, shown_url};

/// How query files are expanded.
const DIALECT: Dialect = Dialect::Postgres;
