//! Everhook: webhooks, jobs and once-only notifications, durably, from one binary.
//!
//! This crate holds the command line, the configuration and the wiring of the other crates.

mod batch;
mod cli;
mod config;
mod environment;
mod files;
mod first_key;
mod import;
mod job;
mod keys;
mod logging;
mod nodes;
mod once;
mod outbox;
mod outboxes;
mod plain;
mod queue;
mod remote;
mod schedule;
mod serve;
mod startup_retry;
mod store;
mod table;
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
            eprintln!("everhook: {}", plain::plain(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
