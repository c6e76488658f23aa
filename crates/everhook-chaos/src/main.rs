//! Runs the fault suite from a seed. `cargo xtask chaos` builds the binary and calls this program.

#![expect(clippy::print_stdout, reason = "prints what it found")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use everhook_chaos::cluster::Standby;
use everhook_chaos::event::Event;
use everhook_chaos::run::{Logs, Plan, Store, describe, run};

/// Injects faults into real servers under load and checks their promises.
#[derive(Debug, Parser)]
struct Arguments {
    /// The binary under test.
    #[arg(long)]
    server: PathBuf,
    /// The duration of the faults, in minutes.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The faults to inject, separated by commas; by default all that are possible.
    #[arg(long, value_delimiter = ',')]
    events: Vec<Event>,
    /// The number of replicas.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// The lease of a node, in seconds.
    #[arg(long, default_value_t = 1)]
    lease: u64,
    /// The approximate number of messages per second.
    #[arg(long, default_value_t = 60)]
    rate: usize,
    /// The replication mode of the standby. With async a failover loses messages, which the checker must report.
    #[arg(long, value_enum, default_value_t = Standby::Sync)]
    standby: Standby,
    /// The failover manager; by default this tool performs failovers itself.
    #[arg(long, value_enum, conflicts_with = "standby")]
    manager: Option<Manager>,
    /// Test one process with the embedded store.
    #[arg(long)]
    sqlite: bool,
    /// Print every event.
    #[arg(long)]
    trace: bool,
    /// Keep the logs even if the run succeeds.
    #[arg(long)]
    keep_logs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Manager {
    /// Patroni with etcd, from the distribution's packages.
    Patroni,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (store, everything) = match arguments.manager {
        _ if arguments.sqlite => (Store::Embedded, Event::of_embedded()),
        Some(Manager::Patroni) => (Store::Managed, Event::of_managed()),
        None => (Store::Own(arguments.standby), Event::of_replicas()),
    };
    let events = if arguments.events.is_empty() { everything } else { arguments.events.clone() };
    let plan = Plan {
        binary: arguments.server.clone(),
        store,
        nodes: arguments.nodes,
        span: Duration::from_secs_f64(arguments.minutes * 60.0),
        events,
        seed: arguments.seed,
        lease: Duration::from_secs(arguments.lease),
        patience: Duration::from_secs(120),
        rate: arguments.rate,
        print: arguments.trace,
        logs: if arguments.keep_logs { Logs::Kept } else { Logs::KeptIfBad },
    };
    println!("replay: cargo xtask chaos {}", replay(&arguments));
    match run(&plan).await {
        Ok(outcome) => {
            print!("{}", describe(&plan, &outcome));
            let verdict = if outcome.is_good() { "every promise was kept" } else { "a promise was broken" };
            println!("{verdict}; seed {}", plan.seed);
            if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The arguments that repeat this run.
fn replay(arguments: &Arguments) -> String {
    let Arguments { minutes, seed, nodes, lease, rate, .. } = arguments;
    let mut text = format!("--minutes {minutes} --seed {seed} --nodes {nodes} --lease {lease} --rate {rate}");
    if !arguments.events.is_empty() {
        text += &format!(" --events {}", arguments.events.iter().map(Event::to_string).collect::<Vec<_>>().join(","));
    }
    if arguments.standby == Standby::Async {
        text += " --standby async";
    }
    if arguments.manager.is_some() {
        text += " --manager patroni";
    }
    if arguments.sqlite {
        text += " --sqlite";
    }
    text
}
