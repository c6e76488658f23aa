//! `everhook queue`: the queues of a running server, their limits and their targets.

use anyhow::{Context, bail};
use clap::Subcommand;
use everhook_core::limits::PAGE_MAX;
use serde_json::{Map, Value, json};

use crate::remote::{Remote, named};
use crate::table::{cell, facts, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues: how much waits, runs and is dead, and their limits.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a queue, and what keeps its jobs from running.
    Show {
        /// The queue's name.
        queue: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Pause a queue: what runs goes on, nothing else starts.
    Pause {
        /// The queue's name.
        queue: String,
    },
    /// Let the jobs of a queue go again, also after its target answered 410.
    Resume {
        /// The queue's name.
        queue: String,
    },
    /// Delete a queue with its limits and its target. Not while it has jobs that wait, run or are dead.
    Delete {
        /// The queue's name.
        queue: String,
    },
    /// Set or remove limits of a queue. They hold over all workers and replicas.
    #[command(after_help = "Examples:
  everhook queue limit email --limit 8        no more than 8 at once
  everhook queue limit email --key-limit 1    one after the other for each concurrency key
  everhook queue limit email --rate 0.5       one every two seconds
  everhook queue limit email --limit none     no limit again")]
    Limit {
        /// The queue's name.
        queue: String,
        /// Jobs that may run at once, or none.
        #[arg(long, value_name = "COUNT")]
        limit: Option<String>,
        /// Jobs with the same concurrency key that may run at once, or none.
        #[arg(long, value_name = "COUNT")]
        key_limit: Option<String>,
        /// Jobs that may start in a second, or none.
        #[arg(long, value_name = "PER SECOND")]
        rate: Option<String>,
    },
    /// Push the jobs of a queue to a URL as signed POST requests, or leave them to workers again.
    #[command(after_help = "Examples:
  everhook queue target email https://mailer.example.com/jobs
  everhook queue target email none
  everhook queue target email                      show the URL and its secret")]
    Target {
        /// The queue's name.
        queue: String,
        /// The URL, or none.
        url: Option<String>,
    },
}

impl QueueCommand {
    /// Does what was asked for; answers what to print.
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<String> {
        match self {
            QueueCommand::List { json } => list(remote, json).await,
            QueueCommand::Show { queue, json } => {
                let found = remote.get(&path(&queue)?).await?;
                Ok(if json { format!("{found:#}\n") } else { shown(&found) })
            }
            QueueCommand::Pause { queue } => {
                remote.post(&format!("{}/pause", path(&queue)?)).await?;
                Ok(format!("{queue} is paused: `everhook queue resume {queue}` lets its jobs go again\n"))
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
                    bail!("say which limit with --limit, --key-limit or --rate");
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
            return Ok(format!("{queue} has no target: workers take its jobs\n"));
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

/// A number, or none.
fn number(text: &str) -> anyhow::Result<Value> {
    if text == "none" {
        return Ok(Value::Null);
    }
    serde_json::from_str(text)
        .ok()
        .filter(Value::is_number)
        .with_context(|| format!("bad limit {text:?}: use a number, or none"))
}

fn path(queue: &str) -> anyhow::Result<String> {
    Ok(format!("/queue/{}", named("queue", queue)?))
}
