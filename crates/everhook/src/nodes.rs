//! `everhook node`: the nodes that share a store.

use serde_json::Value;

use crate::remote::Remote;
use crate::table::{seconds, table, text};

/// Returns all nodes, as a table or as JSON.
pub(crate) async fn list(remote: &Remote, json: bool) -> anyhow::Result<String> {
    let answer = remote.get("/node").await?;
    let nodes = answer["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if json {
        return Ok(format!("{:#}\n", answer["data"]));
    }
    let heads = ["NODE", "ROLE", "VERSION", "STATE", "SINCE", "HEARTBEAT", "LEASE", "HELD"].map(str::to_owned);
    let mut rows = vec![heads];
    rows.extend(nodes.iter().map(row));
    Ok(table(&rows))
}

fn row(node: &Value) -> [String; 8] {
    let lease = format!("{} s", node["leaseSeconds"].as_u64().unwrap_or_default());
    let held = node["held"].as_u64().unwrap_or_default().to_string();
    let [name, role, version, state] = ["node", "role", "version", "state"].map(|key| text(node, key));
    [name, role, version, state, seconds(node, "since"), seconds(node, "heartbeatAt"), lease, held]
}
