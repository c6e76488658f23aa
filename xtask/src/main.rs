//! Everhook's development tasks: `cargo xtask <task>`.
//!
//! Each task is one file. This file parses the command line.

#![expect(clippy::print_stdout, reason = "a command-line tool prints to stdout")]
#![expect(clippy::disallowed_methods, reason = "tasks read the environment, as the binary does")]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod callgrind;
mod chaos;
mod ci;
mod count;
mod debian;
mod fuzz;
mod mutants;
mod node;
mod openapi;
mod package;
mod packages;
mod pgbouncer;
mod postgres;
mod python;
mod rust_client;
mod sbom;
mod sql;
mod test;
mod tidy;
mod upgrade;
mod web;
mod workspace;

/// Development tasks of the Everhook repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Test(test::Arguments),
    Bench(bench::Arguments),
    Callgrind(callgrind::Arguments),
    Chaos(chaos::Arguments),
    Mutants(mutants::Arguments),
    Fuzz(fuzz::Arguments),
    /// Check rules that the compiler cannot: boundaries, SQL files, links, words.
    Tidy,
    Openapi(openapi::Arguments),
    /// Build the dashboard: web/dist, which the binary contains.
    Web,
    Package(package::Arguments),
    /// Print the packages that the binary is built from, as CycloneDX JSON.
    Sbom,
    /// Run all checks of a change: formatting, clippy, dependencies, then `test`.
    Ci,
    Pg(postgres::Arguments),
    Sql(sql::Arguments),
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
        Task::Test(arguments) => test::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Callgrind(arguments) => callgrind::run(&arguments),
        Task::Chaos(arguments) => chaos::run(&arguments),
        Task::Mutants(arguments) => mutants::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Tidy => tidy::run(),
        Task::Openapi(arguments) => openapi::run(&arguments),
        Task::Web => web::run(),
        Task::Package(arguments) => package::run(&arguments),
        Task::Sbom => sbom::run(),
        Task::Ci => ci::run(),
        Task::Pg(arguments) => postgres::run(&arguments),
        Task::Sql(arguments) => sql::run(&arguments),
    }
}
