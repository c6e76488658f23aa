//! `cargo xtask bench`: builds the binary of packages and measures it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::postgres::{Cluster, Files};
use crate::workspace::Workspace;

/// Measure throughput, latency, flatness and isolation on both stores.
///
/// Builds the binary with the profile of packages, starts a temporary PostgreSQL, a load generator and a receiver, and
/// prints a table: medians over the runs, the raw limit of generator and receiver in the same run, the ratio to it, CPU
/// and WAL per message, and the result of the final check.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Scenarios: one, five, outbox, jobs, latency, rate, flat, drain, isolation, limited, pinned, scrape, pages,
    /// retention, replicas, start. Default: all. `jobs` installs other job queues from npm into a temporary folder.
    names: Vec<String>,
    /// Number of runs per scenario.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Factor for the number of messages and rows and for durations; 0.01 is a smoke test.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Measure only this store: sqlite or postgres.
    #[arg(long)]
    store: Option<String>,
    /// Seconds that the old snapshot of `pinned` stays open.
    #[arg(long, default_value_t = 60.0)]
    pinned_seconds: f64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let packages = ["build", "--profile", "dist", "--bin", "everhook", "--bin", "everhook-bench"];
    let packages = packages.into_iter().chain(["--package", "everhook", "--package", "everhook-bench"]);
    let status = workspace.cargo().args(packages).stdin(Stdio::null()).status()?;
    if !status.success() {
        bail!("the build failed (see above)");
    }
    let built = workspace.target().join("dist");
    let cluster = Cluster::start(Files::OnDisk)?;
    let mut command = Command::new(built.join("everhook-bench"));
    command.arg("--server").arg(built.join("everhook")).args(["--database", cluster.url()]);
    command.args(["--runs", &arguments.runs.to_string(), "--scale", &arguments.scale.to_string()]);
    command.args(["--pinned-seconds", &arguments.pinned_seconds.to_string()]);
    let peers = arguments.wants("jobs").then(install_peers).transpose()?;
    if let Some(folder) = &peers {
        command.arg("--peers").arg(folder.path());
    }
    command.args(arguments.store.iter().flat_map(|store| ["--store", store]));
    if arguments.json {
        command.arg("--json");
    }
    let status = command.args(&arguments.names).status().context("could not run the benchmark")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

/// Installs the job queues to compare with.
fn install_peers() -> Result<tempfile::TempDir> {
    const PACKAGES: [&str; 4] =
        ["graphile-worker@0.18.0", "pg-boss-10@npm:pg-boss@10.4.2", "pg-boss-12@npm:pg-boss@12.35.0", "pg@8"];
    let folder = tempfile::tempdir()?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-save", "--prefix"]).arg(folder.path()).args(PACKAGES);
    let status =
        npm.stdin(Stdio::null()).status().context("could not run npm: install Node.js, or choose other scenarios")?;
    if !status.success() {
        bail!("npm could not install {}", PACKAGES.join(", "));
    }
    Ok(folder)
}
