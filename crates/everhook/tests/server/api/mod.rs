//! The API over HTTP: the real router and a real node on a store in memory. The node delivers nothing.

mod application;
mod attempt;
mod auth;
mod bad_input;
mod batch;
mod document;
mod endpoint;
mod environment;
mod event_type;
mod idempotency;
mod isolation;
mod job;
mod jobs;
mod message;
mod node;
mod once;
mod operational_webhook;
mod paging;
mod queue;
mod schedule;
mod server;
mod strict;
mod switches;
mod worker;
mod world;
