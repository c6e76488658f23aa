//! The deterministic simulator.
//!
//! Runs the real engine, several nodes of it, on one thread of virtual time: the store in memory stands for the database, a
//! network of scripted endpoints for the receivers, handlers that succeed, fail, snooze, panic and hang for the workers, some of them remote, and a nemesis crashes, pauses and cuts by a seed. The same seed gives the
//! same trace. Afterwards the invariants are checked against what clients were told and receivers got. For tests only.

mod check;
mod client;
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
