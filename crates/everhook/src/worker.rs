//! `everhook worker`: the workers of a running server.

use clap::Subcommand;
use serde_json::Value;

use crate::output::Answer;
use crate::remote::Remote;
use crate::table::{cells, time, with_unit};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers: their queues, kinds and held jobs.
    List,
}

impl WorkerCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let WorkerCommand::List = self;
        let workers = remote.get_data("/worker").await?;
        let heads = ["ID", "NAME", "STATE", "QUEUES", "KINDS", "HELD", "LEASE", "SINCE", "HEARTBEAT"];
        Ok(Answer::list(workers, heads, row).if_empty("no workers are connected"))
    }
}

fn row(worker: &Value) -> [String; 9] {
    let [id, name, state, queues, kinds, held] = cells(worker, ["id", "name", "state", "queues", "kinds", "held"]);
    let kinds = if kinds.is_empty() { "all".to_owned() } else { kinds };
    let lease = with_unit(worker, "leaseSeconds", "s");
    [id, name, state, queues, kinds, held, lease, time(worker, "since"), time(worker, "heartbeatAt")]
}
