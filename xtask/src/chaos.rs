//! `cargo xtask chaos`: builds the release binary and injects faults.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// Run the fault suite on real processes, and check every promise.
///
/// Builds the release binary and starts replicas on a PostgreSQL primary with a synchronous standby, each behind a
/// proxy, with clients and receivers that record everything. Kills, pauses, cuts and fails over by a seed, heals, and
/// compares the replies of clients with the receipts of receivers. Exits with 1 if a promise was broken.
///
///     cargo xtask chaos --minutes 10 --seed 7              all kinds of faults
///     cargo xtask chaos --minutes 5 --events failover      one kind; `--events help` lists all
///     cargo xtask chaos --minutes 1 --events failover --standby async      must report loss
///     cargo xtask chaos --minutes 5 --manager patroni      failovers by Patroni with etcd
///     cargo xtask chaos --minutes 2 --sqlite               one process: kill -9, pauses, a full disk
///
/// More: --nodes, --lease, --rate, --trace, --keep-logs.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Arguments of the fault suite.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let packages = ["build", "--release", "--bin", "everhook", "--bin", "everhook-chaos"];
    let packages = packages.into_iter().chain(["--package", "everhook", "--package", "everhook-chaos"]);
    let built = workspace.cargo().args(packages).stdin(Stdio::null()).status()?;
    if !built.success() {
        bail!("the build failed (see above)");
    }
    let release = workspace.target().join("release");
    let mut command = Command::new(release.join("everhook-chaos"));
    command.arg("--server").arg(release.join("everhook")).args(&arguments.arguments);
    let status = command.status().context("could not run the fault suite")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
