//! The SQLite store: promises that the conformance suite cannot check, because only this store makes them.

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
mod secrets;
mod stage;
