//! The stores: the common suite, and the promises of single stores.

#![allow(clippy::unwrap_used, reason = "in tests an error is a failure")]

mod kit;
mod memory;
mod postgres;
mod seam;
mod secrets;
mod sqlite;
