//! The API over HTTP: the real router and a real node on a store in memory. The node delivers nothing.

mod application;
mod attempt;
mod auth;
mod bad_input;
mod batch;
mod document;
mod endpoint;
mod event_type;
mod example;
mod idempotency;
mod isolation;
mod job;
mod jobs;
mod message;
mod message_batch;
mod node;
mod once;
mod paging;
mod poller;
mod queue;
mod schedule;
mod server;
mod strict;
mod switches;
mod worker;
mod world;
