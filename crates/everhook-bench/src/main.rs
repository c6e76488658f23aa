//! Measures the server between a load generator and a receiver, with real sockets and disks.
//!
//! Machines vary, so rates are relative to the rate of the same generator and receiver without Everhook in the same
//! run. Every scenario checks that no message was lost, invented or duplicated.

#![expect(clippy::print_stdout, reason = "prints its report")]
#![expect(clippy::disallowed_methods, reason = "measures time and owns its connections' tasks")]

mod bench;
mod expired;
mod fill;
mod load;
mod metrics;
mod process;
mod receiver;
mod report;
mod scenario;

use std::path::PathBuf;

use clap::Parser;

/// Runs benchmark scenarios and prints a table.
#[derive(Debug, Parser)]
struct Arguments {
    /// The everhook binary to measure.
    #[arg(long)]
    server: PathBuf,
    /// A PostgreSQL URL to create databases in; without it, only the embedded store is measured.
    #[arg(long)]
    database: Option<String>,
    /// Measure only this store: sqlite or postgres.
    #[arg(long)]
    store: Option<String>,
    /// The number of runs of each scenario.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Scales the number of messages and rows, and shortens times; 0.01 is a smoke run.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The time in seconds for which `pinned` keeps its snapshot open.
    #[arg(long, default_value_t = 60.0)]
    pinned_seconds: f64,
    /// A folder with the packages of other job queues, for `jobs`; without it, no other queue is measured.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Scenarios to run: one, five, outbox, jobs, latency, rate, flat, drain, isolation, limited, pinned, scrape,
    /// pages, retention, replicas, start; all if none is named.
    names: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    let report = runtime.block_on(scenario::run(&arguments))?;
    println!("{}", if arguments.json { report.to_json() } else { report.to_table() });
    Ok(())
}
