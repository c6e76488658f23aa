//! `everhook queue`: queues with their limits and push targets.

use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::output::Answer;
use crate::remote::{Deletion, Remote, named};
use crate::table::{age, cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues: pending, running and dead jobs, and limits.
    List,
    /// Show a queue, with warnings about problems that keep its jobs from running.
    Show {
        /// Name of the queue, such as email.
        queue: String,
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
        #[command(flatten)]
        consent: Consent,
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
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            QueueCommand::List => {
                let list = Answer::list(remote.get_all("/queue").await?, HEADS, row);
                Ok(list.if_empty("no queues: the first job of a queue creates it (`everhook job enqueue`)"))
            }
            QueueCommand::Show { queue } => Ok(shown(remote.get(&path(&queue)?).await?)),
            QueueCommand::Pause { queue } => {
                let paused = remote.post(&format!("{}/pause", path(&queue)?)).await?;
                Ok(Answer::line(paused, format!("{queue} is paused: `everhook queue resume {queue}` resumes it")))
            }
            QueueCommand::Resume { queue } => {
                let resumed = remote.post(&format!("{}/resume", path(&queue)?)).await?;
                Ok(Answer::line(resumed, format!("{queue} is open")))
            }
            QueueCommand::Delete { queue, consent } => {
                let what = format!("queue {queue} with its limits and target");
                remote.delete_object(consent, Deletion { path: path(&queue)?, name: queue, what }).await
            }
            QueueCommand::Limit { queue, limit, key_limit, rate } => {
                let mut body = Map::new();
                for (name, given) in [("limit", limit), ("keyLimit", key_limit), ("ratePerSecond", rate)] {
                    if let Some(text) = given {
                        body.insert(name.to_owned(), number(&text)?);
                    }
                }
                if body.is_empty() {
                    return Err(usage("--limit, --key-limit or --rate is required"));
                }
                Ok(shown(remote.patch(&path(&queue)?, &Value::from(body)).await?))
            }
            QueueCommand::Target { queue, url } => target(remote, &queue, url).await,
        }
    }
}

pub(crate) const HEADS: [&str; 10] =
    ["QUEUE", "STATE", "PENDING", "DUE", "RUNNING", "DEAD", "OLDEST DUE", "ENDED/MIN", "LIMITS", "WARNINGS"];

pub(crate) fn row(queue: &Value) -> [String; 10] {
    let stats = &queue["stats"];
    let [pending, due, running, dead, ended] = cells(stats, ["pending", "due", "running", "dead", "endedLastMinute"]);
    let [name, state, warnings] = cells(queue, ["name", "state", "warnings"]);
    [name, state, pending, due, running, dead, age(stats, "oldestDueSeconds"), ended, limits(queue), warnings]
}

fn shown(queue: Value) -> Answer {
    let stats = &queue["stats"];
    let facts = vec![
        ("queue", cell(&queue, "name")),
        ("state", cell(&queue, "state")),
        ("pending", cell(stats, "pending")),
        ("due", cell(stats, "due")),
        ("running", cell(stats, "running")),
        ("dead", cell(stats, "dead")),
        ("oldest due", age(stats, "oldestDueSeconds")),
        ("ended in the last whole minute", cell(stats, "endedLastMinute")),
        ("limits", limits(&queue)),
        ("target", cell(&queue, "targetUrl")),
        ("changed", time(&queue, "updatedAt")),
        ("warnings", cell(&queue, "warnings")),
    ];
    Answer::facts(queue, facts)
}

async fn target(remote: &Remote, queue: &str, url: Option<String>) -> anyhow::Result<Answer> {
    let path = path(queue)?;
    match url.as_deref() {
        Some("none") => {
            let changed = remote.patch(&path, &json!({ "targetUrl": null })).await?;
            return Ok(Answer::line(changed, format!("{queue} has no target: workers lease its jobs")));
        }
        Some(url) => drop(remote.patch(&path, &json!({ "targetUrl": url })).await?),
        None => {}
    }
    let (found, secret) = (remote.get(&path).await?, remote.get(&format!("{path}/secret")).await?);
    let data = json!({ "targetUrl": found["targetUrl"], "secret": secret["key"] });
    Ok(Answer::facts(data, vec![("target", cell(&found, "targetUrl")), ("secret", cell(&secret, "key"))]))
}

fn limits(queue: &Value) -> String {
    let named = [("limit", "at once"), ("keyLimit", "per key"), ("ratePerSecond", "per second")];
    let given = named.iter().filter(|(key, _)| !queue[*key].is_null());
    given.map(|(key, name)| format!("{} {name}", queue[*key])).collect::<Vec<_>>().join(", ")
}

/// Parses a number, or `none` as null.
fn number(text: &str) -> anyhow::Result<Value> {
    if text == "none" {
        return Ok(Value::Null);
    }
    serde_json::from_str(text)
        .ok()
        .filter(Value::is_number)
        .ok_or_else(|| usage(format!("invalid limit {text:?}: use a number, or none")))
}

fn path(queue: &str) -> anyhow::Result<String> {
    Ok(format!("/queue/{}", named("queue", queue)?))
}
