//! The fault suite with real processes.
//!
//! Several `everhook serve` processes share one PostgreSQL with a primary and a standby, which this tool starts. A
//! proxy in front of each process can cut, delay and hold its connections. Clients send messages and enqueue jobs,
//! alone and in batches, and repeat requests that are not acknowledged. Receivers record all requests. A nemesis kills
//! and pauses processes, cuts connections and triggers failovers, controlled by a seed.
//!
//! At the end a checker compares the answers to clients and the requests to receivers with the database. The suite uses
//! no product code except the formats of ids and classes.

#![expect(
    clippy::disallowed_methods,
    reason = "drives real processes by the real clock, and waits for none of its tasks"
)]

pub mod check;
pub mod cluster;
pub mod event;
pub mod history;
pub mod load;
pub mod nemesis;
pub mod node;
pub mod patroni;
mod process;
pub mod receiver;
pub mod run;
pub mod state;
pub mod workshop;
