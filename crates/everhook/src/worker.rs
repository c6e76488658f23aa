//! `everhook worker`: the workers of a running server.

use clap::Subcommand;

use crate::remote::Remote;
use crate::table::{cell, seconds, table};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers: their queues, kinds and held jobs.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
}

impl WorkerCommand {
    /// Runs the command and returns the text to print.
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<String> {
        let WorkerCommand::List { json } = self;
        let answer = remote.get("/worker").await?;
        if json {
            return Ok(format!("{:#}\n", answer["data"]));
        }
        let heads = ["ID", "NAME", "STATE", "QUEUES", "KINDS", "HELD", "LEASE", "SINCE", "HEARTBEAT"];
        let mut rows = vec![heads.map(str::to_owned)];
        for worker in answer["data"].as_array().into_iter().flatten() {
            let [id, name, state, queues, held] =
                ["id", "name", "state", "queues", "held"].map(|key| cell(worker, key));
            let kinds = Some(cell(worker, "kinds")).filter(|kinds| kinds != "-").unwrap_or_else(|| "all".to_owned());
            let lease = format!("{} s", cell(worker, "leaseSeconds"));
            let (since, heartbeat) = (seconds(worker, "since"), seconds(worker, "heartbeatAt"));
            rows.push([id, name, state, queues, kinds, held, lease, since, heartbeat]);
        }
        Ok(table(&rows))
    }
}
