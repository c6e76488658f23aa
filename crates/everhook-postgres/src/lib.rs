//! The shared store: one PostgreSQL server, any number of nodes.
//!
//! All transactions are READ COMMITTED. All objects are in the schema `everhook` and have qualified names, so that the
//! store works behind a transaction pooler. The store refuses an unknown schema, and a server that could lose confirmed
//! writes. It makes no decisions: these are in the core, and the statements are in `queries/`.

mod append;
mod audit;
mod background;
mod backlog;
mod batch;
mod columns;
mod connection;
mod dedup;
mod deliveries;
mod directory;
mod egress;
mod endpoints;
mod environment;
mod error;
mod examine;
mod failure;
mod feed;
mod history;
mod hosts;
mod job;
mod lease;
mod lease_sizing;
mod migrate;
mod once;
mod operational;
mod operations;
mod optimistic_append;
mod order;
mod outbox;
mod partition;
mod poll;
mod preplan;
mod queue;
mod quota;
mod reads;
mod renew;
mod request;
mod resource;
mod retention;
mod scan_cursor;
mod schedule;
mod seal;
mod session;
mod settle;
mod sql;
mod steer;
mod store;
mod svix;
mod tenant;
mod tls;
mod token;
mod traffic;
mod transfer;
mod tx;
mod url;
mod value;
mod wakeup;
mod worker;

use everhook_store::sql::statement::Dialect;

pub use crate::error::PostgresOpenError;
pub use crate::examine::{PostgresFacts, examine};
pub use crate::migrate::{PostgresMigrationReport, migrate};
pub use crate::outbox::PostgresOutbox;
pub use crate::sql::{StoreStatement, statements};
pub use crate::store::{PostgresConfig, PostgresStore};
pub use crate::svix::{SvixApplication, SvixDatabase, SvixEndpoint, SvixEventType, SvixOrganization};
pub use crate::transfer::{PostgresTransfer, TransferError, TransferWeeks, TransferWriter};
pub use crate::url::{check_url, shown_url};

/// The dialect for query files.
const DIALECT: Dialect = Dialect::Postgres;
