//! The deterministic simulator, for tests only.
//!
//! The simulator runs several nodes with the real engine on one thread in virtual time. An in-memory store replaces the
//! database, and scripted endpoints replace the receivers. Handlers and remote workers succeed, fail, snooze, panic and
//! hang as planned. A nemesis crashes and pauses nodes and disturbs the database, controlled by a seed. The same seed
//! gives the same trace. At the end, the simulator checks the promises against the answers to clients and the requests
//! to receivers.

mod check;
mod client;
mod crowd;
mod gate;
mod job;
mod nemesis;
mod network;
mod node;
mod operator;
mod producer;
mod remote;
mod store;
mod trace;
mod witness;
pub mod world;
