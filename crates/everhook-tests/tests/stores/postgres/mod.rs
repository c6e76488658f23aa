//! The store on a real PostgreSQL: the common suite, and the promises of this store only.

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
mod secrets;
mod stage;
mod tenant;
mod wakeup;
mod warm;
