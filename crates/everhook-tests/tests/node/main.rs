//! A node without its API: the engine, and workers as a program of a customer runs them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod engine;
mod worker;
