//! The store on a real PostgreSQL: the suite every store has to pass, and what only this one promises.

mod conformance;
mod database;
mod migrations;
mod outage;
mod partitions;
mod plans;
mod pooler;
mod stage;
