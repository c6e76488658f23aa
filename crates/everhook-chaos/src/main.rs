//! Runs the fault suite from a seed; `cargo xtask chaos` builds what it needs and calls it.

#![expect(clippy::print_stdout, reason = "prints what it found")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use everhook_chaos::cluster::Standby;
use everhook_chaos::event::Event;
use everhook_chaos::run::{Logs, Plan, Store, describe, run};

/// Hurts real servers under load and checks what they promised.
#[derive(Debug, Parser)]
struct Arguments {
    /// The binary under test.
    #[arg(long)]
    server: PathBuf,
    /// For how long things go wrong.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// What is chosen follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What goes wrong, separated by commas; everything that can if not given.
    #[arg(long, value_delimiter = ',')]
    events: Vec<Event>,
    /// Replicas.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Seconds a node may be silent.
    #[arg(long, default_value_t = 1)]
    lease: u64,
    /// Messages a second, about.
    #[arg(long, default_value_t = 60)]
    rate: usize,
    /// How the standby follows: with async a failover loses messages, and the checker has to say so.
    #[arg(long, value_enum, default_value_t = Standby::Sync)]
    standby: Standby,
    /// Who decides about failovers; this tool itself if nobody.
    #[arg(long, value_enum, conflicts_with = "standby")]
    manager: Option<Manager>,
    /// One process with the embedded store.
    #[arg(long)]
    sqlite: bool,
    /// Print what happens.
    #[arg(long)]
    trace: bool,
    /// Keep the logs of a good run, too.
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
