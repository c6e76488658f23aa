//! Simulates the worlds of one or many seeds.

#![expect(clippy::print_stdout, reason = "prints what it found")]

use std::process::ExitCode;

use clap::Parser;
use everhook_sim::world::{Plan, run};

/// Simulates Everhook under faults that follow from a seed.
#[derive(Debug, Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Messages in each world.
    #[arg(long, default_value_t = 60)]
    messages: usize,
    /// Jobs in each world.
    #[arg(long, default_value_t = 40)]
    jobs: usize,
    /// Hanging endpoints of another application, at most 100. Needs `--calm`.
    #[arg(long, default_value_t = 0)]
    crowd: usize,
    /// Inject no faults.
    #[arg(long)]
    calm: bool,
    /// Stop at the first world with a violation.
    #[arg(long)]
    until_bad: bool,
    /// Print every event.
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (mut acknowledged, mut delivered, mut duplicated, mut bad) = (0, 0, 0, 0);
    let (mut jobs, mut runs, mut announced) = (0, 0, 0);
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let plan = Plan {
            seed,
            faults: !arguments.calm,
            messages: arguments.messages,
            jobs: arguments.jobs,
            crowd: arguments.crowd,
            print: arguments.trace,
        };
        let outcome = run(plan);
        acknowledged += outcome.acknowledged;
        delivered += outcome.delivered;
        duplicated += outcome.duplicated;
        jobs += outcome.jobs;
        runs += outcome.runs;
        announced += outcome.announced;
        if !outcome.violations.is_empty() {
            bad += 1;
            println!("seed {seed}: cargo run --release -p everhook-sim -- --seed {seed} --trace");
            for violation in outcome.violations {
                println!("    {violation}");
            }
            if arguments.until_bad {
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{} worlds: acknowledged {acknowledged}, delivered {delivered}, duplicated with a cause {duplicated}; jobs {jobs}, \
         run by handlers {runs} times, announcements of batches {announced}; bad {bad}",
        arguments.seeds
    );
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
