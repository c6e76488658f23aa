//! Everhook: webhooks, jobs and once-only notifications, durably, from one binary.
//!
//! This crate holds the command line, the configuration and the wiring of the other crates.

#![warn(clippy::print_stderr)]

mod alert;
mod app;
mod attempt;
mod audit;
mod backup;
mod batch;
mod bulk;
mod chat_app;
mod cli;
mod config;
mod confirm;
mod context;
mod copy;
mod dead;
mod delivery;
mod demo;
mod doctor;
mod egress;
mod endpoint;
mod environment;
mod environment_file;
mod event_type;
mod exit;
mod failure_group;
mod fields;
mod files;
mod find;
mod first_key;
mod http_client;
mod import;
mod integration;
mod job;
mod key_command;
mod keys;
mod listen;
mod logging;
mod message;
mod metrics_reference;
mod nodes;
mod once;
mod operational;
mod operator;
mod otlp;
mod outbox;
mod outboxes;
mod output;
mod plain;
mod policy;
mod poller;
mod portal;
mod private;
mod process;
mod progress;
mod queue;
mod quota;
mod remote;
mod replay;
mod schedule;
mod secrets;
mod serve;
mod startup_retry;
mod status;
mod store;
mod table;
mod tail;
mod task;
mod trigger;
mod usage;
mod verify;
mod when;
mod worker;

use std::process::ExitCode;

use clap::Parser;

/// Deliveries allocate on one thread and free on another: `docs/benchmarks/optimisations.md` has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            cli::note(&format!("everhook: {error:#}"));
            exit::Failure::exit(&error).into()
        }
    }
}
