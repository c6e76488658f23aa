//! Everhook as its users see it: the real binary, on both stores, over HTTP.
//!
//! Every test starts its own servers, with receivers and clients in the test process. Names of tests that kill servers
//! contain `crash`, those with client libraries `contract`, those with an earlier binary `upgrade`. `cargo xtask test`
//! prepares their environment.

mod alert;
mod audit;
mod background;
mod backup;
mod beside;
mod breaker;
mod canaries;
mod chat;
mod checker;
mod cli;
mod client;
mod commands;
mod concurrency;
mod contract;
mod copy;
mod coverage;
mod crash;
mod crash_bulk;
mod dashboard;
mod delivery;
mod doctor;
mod egress;
mod endpoint_auth;
mod endpoint_state;
pub(crate) mod environment;
mod every_command;
mod examples;
mod fields;
mod first_steps;
mod import;
mod input;
mod isolation;
mod job_replicas;
mod jobs;
mod logs;
mod lost_file;
mod monitoring;
mod once;
mod operate;
mod operator;
mod ordering;
mod outage;
mod outbox;
mod outbox_aside;
mod outbox_elsewhere;
mod outbox_examples;
mod overview;
mod pause;
mod postgres;
mod quota;
mod rate_limit;
mod replicas;
mod retry;
mod rolling;
mod scene;
mod secrets;
mod server;
mod signature;
mod stop;
mod tls;
mod tracing;
mod upgrade;
mod webhook_test;
