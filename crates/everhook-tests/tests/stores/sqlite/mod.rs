//! The SQLite store: what the conformance suite cannot know of, because only this store has it.

mod clock;
mod conformance;
mod engine;
mod files;
mod group;
mod jobs;
mod outbox;
mod payloads;
mod plans;
mod resource;
mod stage;
