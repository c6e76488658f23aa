//! `everhook status`: the state of a server on one screen.

use everhook_core::limits::PAGE_MAX;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output::{Answer, Part, Table};
use crate::remote::Remote;
use crate::table::cell;
use crate::{nodes, outbox, queue};

/// Reads readiness, nodes, queues and outboxes. Parts that need an admin key are left out without one.
pub(crate) async fn ask(remote: &Remote) -> anyhow::Result<Answer> {
    let ready = remote.get("/health/ready").await?;
    let queues = remote.get_all("/queue", PAGE_MAX).await?;
    let nodes = if_allowed(remote.get_data("/node").await)?;
    let outboxes = if_allowed(remote.get_data("/outbox").await)?;
    let is_paused = ready["egress"] == "paused";
    // A server that is not ready answers 503, which is an error with its reason.
    let egress =
        if is_paused { "paused: nothing is sent until `everhook egress resume`".to_owned() } else { String::new() };
    let facts = [
        ("state", "ready".to_owned()),
        ("version", cell(&ready, "version")),
        ("role", cell(&ready, "role")),
        ("egress", egress),
    ];
    let parts = vec![
        Part::Facts(facts.to_vec()),
        Part::Table(Table::new(nodes::HEADS, nodes.iter().flatten(), nodes::row)),
        Part::Table(Table::new(queue::HEADS, &queues, queue::row)),
        Part::Table(Table::new(outbox::HEADS, outboxes.iter().flatten(), outbox::row)),
    ];
    let is_partial = nodes.is_none() || outboxes.is_none();
    let note = "nodes and outboxes need an admin key: `everhook key create --admin`";
    let data = json!({ "server": ready, "nodes": nodes, "queues": queues, "outboxes": outboxes });
    Ok(Answer::object(data, parts).note_if(is_partial, note))
}

/// Returns nothing if the key is not allowed to read a part.
fn if_allowed(read: anyhow::Result<Vec<Value>>) -> anyhow::Result<Option<Vec<Value>>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if Failure::exit(&error) == Exit::Refused => Ok(None),
        Err(error) => Err(error),
    }
}
