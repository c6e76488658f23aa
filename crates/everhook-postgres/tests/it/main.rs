//! The store on a real PostgreSQL: the suite every store has to pass, and what only this one promises.

#![allow(clippy::unwrap_used, reason = "in tests an error is a failure")]

mod conformance;
mod database;
mod direct;
mod grants;
mod hosts;
mod job;
mod lanes;
mod migrations;
mod mutants;
mod order;
mod outage;
mod outbox;
mod partitions;
mod payloads;
mod pgbouncer;
mod plans;
mod pooler;
mod proxy;
mod refused;
mod stage;
mod wakeup;
mod warm;
