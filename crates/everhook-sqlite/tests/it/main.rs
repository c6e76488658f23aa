//! The SQLite store: what the conformance suite cannot know of, because only this store has it.

mod conformance;
mod engine;
mod files;
mod group;
mod plans;
mod stage;
