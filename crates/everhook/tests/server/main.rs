//! A server: its API, the binary as its users see it, and the fault suite, short.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod api;
mod binary;
mod chaos;
