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
    /// List the settings of the node that answers, with their sources. Secrets are redacted. Requires an admin key.
    Config,
}

impl NodeCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            NodeCommand::List => Ok(Answer::list(remote.get_data("/node").await?, HEADS, row)),
            NodeCommand::Config => {
                let heads = ["SETTING", "VALUE", "SOURCE"];
                Ok(Answer::list(remote.get_data("/config").await?, heads, |setting| {
                    cells(setting, ["name", "value", "source"])
                }))
            }
        }
    }
}

pub(crate) const HEADS: [&str; 8] = ["NODE", "ROLE", "VERSION", "STATE", "SINCE", "HEARTBEAT", "LEASE", "HELD"];

pub(crate) fn row(node: &Value) -> [String; 8] {
    let [name, role, version, state, held] = cells(node, ["node", "role", "version", "state", "held"]);
    let lease = with_unit(node, "leaseSeconds", "s");
    [name, role, version, state, time(node, "since"), time(node, "heartbeatAt"), lease, held]
}
