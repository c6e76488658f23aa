//! `cargo xtask chaos`: builds the release binary and hurts it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// Run the fault suite on real processes, and check every promise.
///
/// Builds the release binary and starts replicas of it on a PostgreSQL primary with a synchronous standby, each behind a
/// proxy, with clients and receivers that record everything. Kills, pauses, cuts and fails over by a seed, heals, and
/// compares what clients were told with what receivers got. Ends with 1 if a promise was broken.
///
///     cargo xtask chaos --minutes 10 --seed 7              everything that can go wrong
///     cargo xtask chaos --minutes 5 --events failover      one kind; `--events help` names them all
///     cargo xtask chaos --minutes 1 --events failover --standby async      must report loss
///     cargo xtask chaos --minutes 5 --manager patroni      failovers that Patroni with etcd decides about
///     cargo xtask chaos --minutes 2 --sqlite               one process: kill -9, pauses, a full disk
///
/// More: --nodes, --lease, --rate, --trace, --keep-logs.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Handed to the suite.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// `cargo xtask chaos`.
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
