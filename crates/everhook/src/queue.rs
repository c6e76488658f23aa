//! `everhook queue`: queues with their limits and push targets.

use anyhow::{Context, bail};
use clap::Subcommand;
use everhook_core::limits::PAGE_MAX;
use serde_json::{Map, Value, json};

use crate::remote::{Remote, named};
use crate::table::{cell, facts, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues: pending, running and dead jobs, and limits.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Show a queue, with warnings about what keeps its jobs from running.
    Show {
        /// Name of the queue, such as email.
        queue: String,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Pause a queue. Running jobs continue; no further job starts.
    Pause {
        /// Name of the queue, such as email.
        queue: String,
    },
    /// Resume a queue, also after its target answered 410.
    Resume {
        /// Name of the queue, such as email.
        queue: String,
    },
    /// Delete a queue with its limits and target. The queue must have no pending, running or dead jobs.
    Delete {
        /// Name of the queue, such as email.
        queue: String,
    },
    /// Set or remove the limits of a queue. They apply across all workers and replicas.
    #[command(after_help = "Examples:
  everhook queue limit email --limit 8        run at most 8 jobs at once
  everhook queue limit email --key-limit 1    run one job at a time for each concurrency key
  everhook queue limit email --rate 0.5       start one job every two seconds
  everhook queue limit email --limit none     remove the limit")]
    Limit {
        /// Name of the queue, such as email.
        queue: String,
        /// Jobs that may run at once, or none.
        #[arg(long, value_name = "COUNT")]
        limit: Option<String>,
        /// Jobs with the same concurrency key that may run at once, or none.
        #[arg(long, value_name = "COUNT")]
        key_limit: Option<String>,
        /// Jobs that may start per second, or none.
        #[arg(long, value_name = "PER SECOND")]
        rate: Option<String>,
    },
    /// Push the jobs of a queue to a URL as signed POST requests, or leave them to workers.
    #[command(after_help = "Examples:
  everhook queue target email https://mailer.example.com/jobs
  everhook queue target email none
  everhook queue target email                      show the URL and its secret")]
    Target {
        /// Name of the queue, such as email.
        queue: String,
        /// URL of the target, or none for workers.
        url: Option<String>,
    },
}

impl QueueCommand {
    /// Runs the command and returns the text to print.
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<String> {
        match self {
            QueueCommand::List { json } => list(remote, json).await,
            QueueCommand::Show { queue, json } => {
                let found = remote.get(&path(&queue)?).await?;
                Ok(if json { format!("{found:#}\n") } else { shown(&found) })
            }
            QueueCommand::Pause { queue } => {
                remote.post(&format!("{}/pause", path(&queue)?)).await?;
                Ok(format!("{queue} is paused: `everhook queue resume {queue}` resumes it\n"))
            }
            QueueCommand::Resume { queue } => {
                remote.post(&format!("{}/resume", path(&queue)?)).await?;
                Ok(format!("{queue} is open\n"))
            }
            QueueCommand::Delete { queue } => {
                remote.delete(&path(&queue)?).await?;
                Ok(format!("deleted {queue}\n"))
            }
            QueueCommand::Limit { queue, limit, key_limit, rate } => {
                let mut body = Map::new();
                for (name, given) in [("limit", limit), ("keyLimit", key_limit), ("ratePerSecond", rate)] {
                    if let Some(text) = given {
                        body.insert(name.to_owned(), number(&text)?);
                    }
                }
                if body.is_empty() {
                    bail!("--limit, --key-limit or --rate is required");
                }
                Ok(shown(&remote.patch(&path(&queue)?, &Value::from(body)).await?))
            }
            QueueCommand::Target { queue, url } => target(remote, &queue, url).await,
        }
    }
}

async fn list(remote: &Remote, json: bool) -> anyhow::Result<String> {
    let queues = remote.get_all("/queue", PAGE_MAX).await?;
    if json {
        return Ok(format!("{:#}\n", Value::from(queues)));
    }
    let heads =
        ["QUEUE", "STATE", "PENDING", "DUE", "RUNNING", "DEAD", "OLDEST DUE", "ENDED/MIN", "LIMITS", "WARNINGS"];
    let mut rows = vec![heads.map(str::to_owned)];
    for queue in &queues {
        let stats = &queue["stats"];
        let [pending, due, running, dead, ended] =
            ["pending", "due", "running", "dead", "endedLastMinute"].map(|key| cell(stats, key));
        let (name, state, warnings) = (cell(queue, "name"), cell(queue, "state"), cell(queue, "warnings"));
        let (oldest, limits) = (oldest_due(stats), limits(queue));
        rows.push([name, state, pending, due, running, dead, oldest, ended, limits, warnings]);
    }
    Ok(table(&rows))
}

fn shown(queue: &Value) -> String {
    let stats = &queue["stats"];
    facts(vec![
        ("queue", cell(queue, "name")),
        ("state", cell(queue, "state")),
        ("pending", cell(stats, "pending")),
        ("due", cell(stats, "due")),
        ("running", cell(stats, "running")),
        ("dead", cell(stats, "dead")),
        ("oldest due", oldest_due(stats)),
        ("ended in the last whole minute", cell(stats, "endedLastMinute")),
        ("limits", limits(queue)),
        ("target", cell(queue, "targetUrl")),
        ("changed", time(queue, "updatedAt")),
        ("warnings", cell(queue, "warnings")),
    ])
}

async fn target(remote: &Remote, queue: &str, url: Option<String>) -> anyhow::Result<String> {
    let path = path(queue)?;
    match url.as_deref() {
        Some("none") => {
            remote.patch(&path, &json!({ "targetUrl": null })).await?;
            return Ok(format!("{queue} has no target: workers lease its jobs\n"));
        }
        Some(url) => drop(remote.patch(&path, &json!({ "targetUrl": url })).await?),
        None => {}
    }
    let (found, secret) = (remote.get(&path).await?, remote.get(&format!("{path}/secret")).await?);
    Ok(facts(vec![("target", cell(&found, "targetUrl")), ("secret", cell(&secret, "key"))]))
}

fn oldest_due(stats: &Value) -> String {
    stats["oldestDueSeconds"].as_f64().map_or_else(|| "-".to_owned(), |age| format!("{age:.1} s"))
}

fn limits(queue: &Value) -> String {
    let named = [("limit", "at once"), ("keyLimit", "per key"), ("ratePerSecond", "per second")];
    let given = named.iter().filter(|(key, _)| !queue[*key].is_null());
    let given = given.map(|(key, name)| format!("{} {name}", queue[*key])).collect::<Vec<_>>().join(", ");
    if given.is_empty() { "-".to_owned() } else { given }
}

/// Parses a number, or `none` as null.
fn number(text: &str) -> anyhow::Result<Value> {
    if text == "none" {
        return Ok(Value::Null);
    }
    serde_json::from_str(text)
        .ok()
        .filter(Value::is_number)
        .with_context(|| format!("invalid limit {text:?}: use a number, or none"))
}

fn path(queue: &str) -> anyhow::Result<String> {
    Ok(format!("/queue/{}", named("queue", queue)?))
}
