//! The SQLite store: what the conformance suite cannot know of, because only this store has it.

#![allow(clippy::unwrap_used, reason = "in tests an error is a failure")]

mod clock;
mod conformance;
mod engine;
mod files;
mod group;
mod jobs;
mod mutants;
mod outbox;
mod payloads;
mod plans;
mod stage;
