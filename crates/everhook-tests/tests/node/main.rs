//! Nodes without the API: the engine, and workers in a customer's program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod engine;
mod fuzz;
mod worker;
