//! The fault suite on real processes.
//!
//! Several `everhook serve` share one PostgreSQL (a primary and a standby of this tool's own), each behind a proxy that can
//! cut, delay and hold its connections. Clients send messages and enqueue jobs under load, alone and in batches, and repeat what they are not told; receivers record
//! everything; a nemesis kills, pauses, cuts and fails over, by a seed. Afterwards a checker compares what clients were told
//! and receivers got with what the database says. Knows nothing of the product's code but the format of its ids and classes.

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
