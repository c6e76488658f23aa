//! `everhook node`: the nodes that share a store.

use clap::Subcommand;
use serde_json::Value;

use crate::output::Answer;
use crate::remote::Remote;
use crate::table::{cells, time, with_unit};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes that share the store: role, version, last heartbeat, held tasks. Requires an admin key.
    List,
}

impl NodeCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let NodeCommand::List = self;
        let nodes = remote.get_data("/node").await?;
        Ok(Answer::list(nodes, HEADS, row))
    }
}

pub(crate) const HEADS: [&str; 8] = ["NODE", "ROLE", "VERSION", "STATE", "SINCE", "HEARTBEAT", "LEASE", "HELD"];

pub(crate) fn row(node: &Value) -> [String; 8] {
    let [name, role, version, state, held] = cells(node, ["node", "role", "version", "state", "held"]);
    let lease = with_unit(node, "leaseSeconds", "s");
    [name, role, version, state, time(node, "since"), time(node, "heartbeatAt"), lease, held]
}
