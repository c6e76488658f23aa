//! `everhook status`: the state of a server on one screen.

use everhook_core::traffic::overview::Range;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output::{Answer, Part, Table};
use crate::remote::Remote;
use crate::table::{age, cell, cells, time};
use crate::{nodes, outbox, queue};

/// Reads readiness, the overview, nodes, queues and outboxes. Parts that need an admin key are left out without one.
pub(crate) async fn ask(remote: &Remote, range: Range) -> anyhow::Result<Answer> {
    let ready = remote.get("/health/ready").await?;
    let overview = remote.get(&format!("/overview?range={range}")).await?;
    let queues = if_enabled(remote.get_all("/queue").await)?;
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
        Part::Facts(open_tasks(&overview["totals"])),
        Part::Facts(traffic(&overview)),
        Part::Table(Table::new(["FAILED AS", "ATTEMPTS"], items(&overview, "failures"), |failure| {
            cells(failure, ["class", "count"])
        })),
        Part::Table(Table::new(ENDPOINT_HEADS, items(&overview, "topEndpoints"), endpoint_row)),
        Part::Table(Table::new(nodes::HEADS, nodes.iter().flatten(), nodes::row)),
        Part::Table(Table::new(queue::HEADS, &queues, queue::row)),
        Part::Table(Table::new(outbox::HEADS, outboxes.iter().flatten(), outbox::row)),
    ];
    let is_partial = nodes.is_none() || outboxes.is_none();
    let note = "nodes and outboxes need an admin key: `everhook key create --admin`";
    let data = json!({ "server": ready, "overview": overview, "nodes": nodes, "queues": queues, "outboxes": outboxes });
    Ok(Answer::object(data, parts).note_if(is_partial, note))
}

/// The open tasks now.
fn open_tasks(totals: &Value) -> Vec<(&'static str, String)> {
    // Counting stops at a bound, so that it stays cheap.
    let count = |key: &str| match (totals[key].as_u64(), totals["countedMax"].as_u64()) {
        (Some(count), Some(max)) if count >= max => format!("{count} or more"),
        _ => cell(totals, key),
    };
    vec![
        ("pending", count("pending")),
        ("due", count("due")),
        ("oldest due", age(totals, "oldestDueSeconds")),
        ("retrying", count("retrying")),
        ("leased", count("leased")),
        ("dead", count("dead")),
    ]
}

/// The traffic of the range.
fn traffic(overview: &Value) -> Vec<(&'static str, String)> {
    let totals = &overview["totals"];
    let millis = |key: &str| totals[key].as_f64().map(|millis| format!("{millis:.0} ms"));
    let took = [("50 %", "p50"), ("95 %", "p95"), ("99 %", "p99")];
    let took = took.iter().filter_map(|(share, key)| Some(format!("{share} within {}", millis(key)?)));
    let number = |key: &str, show: fn(f64) -> String| totals[key].as_f64().map_or_else(String::new, show);
    vec![
        ("range", format!("the last {}", cell(overview, "range"))),
        ("accepted", cell(totals, "accepted")),
        ("delivered", cell(totals, "delivered")),
        ("rate", number("deliveredPerMinute", |rate| format!("{rate:.1} delivered per minute, over 5 minutes"))),
        ("failed", cell(totals, "failed")),
        ("success", number("successRate", |rate| format!("{:.2} % of the attempts", rate * 100.0))),
        ("time", took.collect::<Vec<_>>().join(", ")),
    ]
}

const ENDPOINT_HEADS: [&str; 5] = ["FAILING ENDPOINT", "APPLICATION", "ATTEMPTS", "LAST", "URL"];

fn endpoint_row(endpoint: &Value) -> [String; 5] {
    let [id, application, failures, class, url] =
        cells(endpoint, ["endpointId", "appName", "failures", "class", "url"]);
    [id, application, failures, format!("{class} at {}", time(endpoint, "lastFailureAt")), url]
}

fn items<'v>(object: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    object[key].as_array().into_iter().flatten()
}

/// Returns no queues if the server has no jobs.
fn if_enabled(queues: anyhow::Result<Vec<Value>>) -> anyhow::Result<Vec<Value>> {
    match queues {
        Err(error) if Failure::has_code(&error, "jobs_disabled") => Ok(Vec::new()),
        queues => queues,
    }
}

/// Returns nothing if the key is not allowed to read a part.
fn if_allowed(read: anyhow::Result<Vec<Value>>) -> anyhow::Result<Option<Vec<Value>>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if Failure::exit(&error) == Exit::Refused => Ok(None),
        Err(error) => Err(error),
    }
}
