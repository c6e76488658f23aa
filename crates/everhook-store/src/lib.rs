//! The storage seam.
//!
//! One method is one transaction, and no transaction type crosses the seam. Every write is repeatable, because a failed
//! call may have been committed. Two crates implement the seam with SQL. `everhook-testkit` implements the lease engine
//! in memory as an executable specification, and has the conformance suite for all of them. The seam makes no
//! decisions: these are in the core.

pub mod append;
pub mod audit;
pub mod background;
pub mod backlog;
pub mod batch;
pub mod cache;
pub mod capacity;
pub mod catalog;
pub mod dedup;
pub mod delivery;
pub mod directory;
pub mod error;
pub mod failure;
pub mod hints;
pub mod history;
pub mod ids;
pub mod job;
pub mod lease;
pub mod made;
pub mod once;
pub mod operational;
pub mod outbox;
pub mod piece;
pub mod poll;
pub mod query;
pub mod queue;
pub mod quota;
pub mod request;
pub mod resource;
pub mod retention;
pub mod schedule;
pub mod seal;
pub mod shares;
pub mod sql;
pub mod steer;
pub mod store;
pub mod transfer;
pub mod uids;
pub mod worker;
