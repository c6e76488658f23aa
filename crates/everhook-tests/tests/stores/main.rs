//! The stores: the suite that all of them pass, and what only one of them promises.

#![allow(clippy::unwrap_used, reason = "in tests an error is a failure")]

mod kit;
mod memory;
mod postgres;
mod seam;
mod sqlite;
