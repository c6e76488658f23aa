//! `everhook node`: the nodes that share a store, as a running server knows them.

use serde_json::Value;

use crate::remote::Remote;

/// Every node as a table for people or as JSON for machines.
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
    let text = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
    // To the second; the rest is in the JSON.
    let time = |key: &str| text(key).split('.').next().unwrap_or_default().to_owned() + "Z";
    let lease = format!("{} s", node["leaseSeconds"].as_u64().unwrap_or_default());
    let held = node["held"].as_u64().unwrap_or_default().to_string();
    let (since, heartbeat) = (time("since"), time("heartbeatAt"));
    [text("node"), text("role"), text("version"), text("state"), since, heartbeat, lease, held]
}

fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
