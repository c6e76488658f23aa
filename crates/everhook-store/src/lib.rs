//! The storage seam.
//!
//! One method is one transaction; no transaction type crosses it. Every write is repeatable, because "unavailable" may mean
//! "perhaps written". Two crates implement it with SQL; `everhook-testkit` has the lease engine in memory as its executable
//! specification, and the conformance suite that holds all of them to the same behaviour. Decides nothing: decisions are in
//! the core.

pub mod append;
pub mod backlog;
pub mod batch;
pub mod cache;
pub mod capacity;
pub mod catalog;
pub mod dedup;
pub mod error;
pub mod hints;
pub mod history;
pub mod ids;
pub mod job;
pub mod lease;
pub mod made;
pub mod once;
pub mod outbox;
pub mod piece;
pub mod query;
pub mod queue;
pub mod resource;
pub mod retention;
pub mod schedule;
pub mod shares;
pub mod sql;
pub mod steer;
pub mod store;
pub mod uids;
pub mod worker;
