//! `cargo xtask sql`: prints a statement of the PostgreSQL store as it is sent, for psql.

use std::process::ExitCode;

use anyhow::Result;

use crate::workspace::Workspace;

/// Print a statement of the PostgreSQL store as `prepare NAME (types) as …`, or the names of all of them.
///
/// Query files name their parameters and rows; what the server gets is expanded from them.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The name of the query file, without its ending.
    name: Option<String>,
}

/// `cargo xtask sql`.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let example = ["run", "--quiet", "--package", "everhook-postgres", "--example", "sql", "--"];
    let status = Workspace::find()?.cargo().args(example).args(&arguments.name).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
