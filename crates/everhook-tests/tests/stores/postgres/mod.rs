//! The store on a real PostgreSQL: the suite every store has to pass, and what only this one promises.

mod conformance;
mod database;
mod direct;
mod grants;
mod hosts;
mod job;
mod lanes;
mod migrations;
mod order;
mod outage;
mod outbox;
mod partitions;
mod payloads;
mod pgbouncer;
mod plans;
mod pooler;
mod refused;
mod resource;
mod stage;
mod wakeup;
mod warm;
