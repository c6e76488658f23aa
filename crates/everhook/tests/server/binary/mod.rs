//! Everhook as its users see it: the real binary, on both stores, over HTTP.
//!
//! Every test starts servers of its own, with receivers and clients in the test process. Tests that kill servers carry `crash`
//! in their names, tests with other people's client libraries `contract`, tests with an earlier binary `upgrade`. `cargo xtask
//! test` provides what they need.

mod beside;
mod checker;
mod cli;
mod client;
mod contract;
mod crash;
mod delivery;
mod egress;
mod endpoint_state;
pub(crate) mod environment;
mod examples;
mod fields;
mod input;
mod isolation;
mod job_replicas;
mod jobs;
mod logs;
mod lost_file;
mod once;
mod outage;
mod outbox;
mod outbox_aside;
mod outbox_elsewhere;
mod outbox_examples;
mod postgres;
mod replicas;
mod retry;
mod rolling;
mod server;
mod signature;
mod stop;
mod upgrade;
