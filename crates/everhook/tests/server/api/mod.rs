//! The API over HTTP: the real router and a real node on a store in memory. The node delivers nothing.

mod application;
mod attempt;
mod auth;
mod background_task;
mod bad_input;
mod batch;
mod document;
mod endpoint;
mod event_type;
mod idempotency;
mod isolation;
mod job;
mod jobs;
mod message;
mod node;
mod once;
mod paging;
mod queue;
mod schedule;
mod server;
mod strict;
mod switches;
mod worker;
mod world;
