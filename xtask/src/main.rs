//! Everhook's development tasks: `cargo xtask <task>`.
//!
//! Each task is one file. This one reads the command line and hands over; it decides nothing.

#![expect(clippy::print_stdout, reason = "a command-line tool talks to its user on stdout")]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod debian;
mod postgres;
mod workspace;

/// Everhook's development tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start a throwaway PostgreSQL, print its URL, and keep it until Ctrl-C.
    Pg(postgres::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Pg(arguments) => postgres::run(&arguments),
    }
}
