//! `everhook job`: enqueue, list, show and change jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use everhook_core::time::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::output::Answer;
use crate::remote::{Remote, named, query};
use crate::table::{cell, time};
use crate::when;

mod many;
mod output;

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Enqueue a job and print its id. If the unique key exists, print the id of the existing job.
    #[command(after_help = "Examples:
  everhook job enqueue email email.send '{\"to\": \"ada@example.com\"}'
  everhook job enqueue email email.send '{\"to\": \"ada@example.com\"}' --delay 1h --priority 0
  everhook job enqueue reports report.build '{}' --unique-key report-2026-05 --concurrency-key acme --tag monthly")]
    Enqueue {
        #[command(flatten)]
        job: Box<NewJob>,
        /// Earliest start of the job, such as 2026-05-04T03:00:00Z.
        #[arg(long, value_name = "TIME", conflicts_with = "delay")]
        run_at: Option<String>,
        /// Time until the job may start, such as 1h. A number without a unit counts seconds.
        #[arg(long, value_name = "DURATION", value_parser = when::span)]
        delay: Option<Duration>,
        /// Batch that the job belongs to.
        #[arg(long, value_name = "ID")]
        batch: Option<String>,
    },
    /// Enqueue many jobs in few transactions: one JSON object per line, as the API takes a job.
    #[command(after_help = "Example:
  everhook job enqueue-many jobs.jsonl

A line is such as {\"queue\": \"email\", \"kind\": \"welcome\", \"payload\": {\"id\": 1}, \"uniqueKey\": \"1\"}.")]
    EnqueueMany {
        /// File with the jobs, or - to read them from stdin.
        file: PathBuf,
    },
    /// List jobs, the newest first.
    #[command(after_help = "Examples:
  everhook job list --state dead --queue email
  everhook job list --state dead --error 'connection refused' --json
  everhook job list --tag monthly --after 2026-05-01 --limit 500
  everhook job list --after 2h --csv")]
    List {
        #[command(flatten)]
        filter: Filter,
        /// Show only jobs in this state.
        #[arg(long)]
        state: Option<State>,
        /// Show at most this many jobs.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Show a job: payload, attempts with errors and log lines, progress, result.
    Show {
        /// Id of the job, such as job_2d….
        id: String,
    },
    /// Run jobs now. Dead jobs get fresh attempts.
    Retry {
        /// Ids of the jobs to retry.
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Cancel jobs. The worker of a running job learns of it with its next heartbeat.
    Cancel {
        /// Ids of the jobs to cancel.
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Change the earliest start of a pending job.
    #[command(after_help = "Examples:
  everhook job move job_2d… --at 2026-05-04T03:00:00Z
  everhook job move job_2d… --delay 0")]
    Move {
        /// Id of the job, such as job_2d….
        id: String,
        /// New earliest start, such as 2026-05-04T03:00:00Z.
        #[arg(long, value_name = "TIME", required_unless_present = "delay", conflicts_with = "delay")]
        at: Option<String>,
        /// Time from now until the job may start, such as 30m. A number without a unit counts seconds.
        #[arg(long, value_name = "DURATION", value_parser = when::span)]
        delay: Option<Duration>,
    },
    /// Redrive dead jobs: return them to pending, due now, with fresh attempts.
    #[command(after_help = "Examples:
  everhook job redrive --queue email --error 'connection refused'
  everhook job redrive --all")]
    Redrive {
        #[command(flatten)]
        filter: Filter,
        /// Select every dead job of the environment.
        #[arg(long)]
        all: bool,
    },
    /// Delete jobs with their attempts and results. Running jobs must be cancelled first.
    Delete {
        /// Ids of the jobs to delete.
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewJob {
    /// Queue on which the job waits.
    queue: String,
    /// Kind of the job, which selects the handler, such as email.send.
    kind: String,
    /// Payload for the handler, any JSON value [default: null].
    payload: Option<String>,
    #[command(flatten)]
    options: JobOptions,
}

#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct JobOptions {
    /// Display name of the job.
    #[arg(long, value_name = "TEXT")]
    job_name: Option<String>,
    /// Priority: 0 is the highest, 9 the lowest [default: 5].
    #[arg(long, value_name = "0-9")]
    priority: Option<i64>,
    /// Number of attempts before the job is dead [default: 10].
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,
    /// Timeout of one attempt, such as 5m [default: 15m].
    #[arg(long, value_name = "DURATION", value_parser = when::seconds)]
    timeout: Option<u64>,
    /// Unique key: the queue accepts only one job with this key.
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Lifetime of the unique key, such as 1h [default: 1d].
    #[arg(long, value_name = "DURATION", requires = "unique_key", value_parser = when::seconds)]
    unique_for: Option<u64>,
    /// Concurrency key: jobs with the same key share the queue's limit per key.
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// Tag to find the job by; repeatable.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Metadata that Everhook stores and never interprets; repeatable.
    #[arg(long = "metadata", value_name = "KEY=VALUE")]
    metadata: Vec<String>,
}

/// Filter of jobs. All given conditions must match.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Select only jobs on this queue.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Select only jobs of this kind.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Select only jobs with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Select only jobs of this batch.
    #[arg(long, value_name = "ID")]
    batch: Option<String>,
    /// Select only jobs accepted before this time, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    before: Option<Timestamp>,
    /// Select only jobs accepted after this time, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    after: Option<Timestamp>,
    /// Select only jobs whose latest error contains this text, in any case.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    Pending,
    Leased,
    Succeeded,
    Dead,
    Cancelled,
}

/// JSON body of a job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobBody {
    queue: String,
    kind: String,
    payload: Option<Box<RawValue>>,
    name: Option<String>,
    priority: Option<i64>,
    max_attempts: Option<u32>,
    timeout_seconds: Option<u64>,
    unique_key: Option<String>,
    unique_seconds: Option<u64>,
    concurrency_key: Option<String>,
    tags: Vec<String>,
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<String>,
}

impl JobCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            JobCommand::Enqueue { job, run_at, delay, batch } => {
                let body = JobBody {
                    run_at,
                    delay_seconds: delay.map(|delay| delay.as_secs_f64()),
                    batch_id: batch,
                    ..job.body()?
                };
                let answer = remote.post_body("/job", &body).await?;
                let id = cell(&answer, "id");
                Ok(Answer::line(answer, id))
            }
            JobCommand::EnqueueMany { file } => many::enqueue(remote, &file).await,
            JobCommand::List { filter, state, limit } => {
                let path = format!("/job{}", query(&filter.with_state(state)));
                output::list(remote, &path, limit).await
            }
            JobCommand::Show { id } => output::show(remote, &id).await,
            JobCommand::Retry { ids } => post_each(remote, &ids, "retry").await,
            JobCommand::Cancel { ids } => post_each(remote, &ids, "cancel").await,
            JobCommand::Move { id, at, delay } => {
                let body = json!({ "runAt": at, "delaySeconds": delay.map(|delay| delay.as_secs_f64()) });
                let answer = remote.patch(&format!("/job/{}", named("job", &id)?), &body).await?;
                let text = format!("{id} is due {}", time(&answer, "runAt"));
                Ok(Answer::line(answer, text))
            }
            JobCommand::Redrive { filter, all } => redrive(remote, filter, all).await,
            JobCommand::Delete { ids, consent } => {
                remote.confirm(consent, &format!("delete {} with attempts and results", count(ids.len())))?;
                for id in &ids {
                    remote.delete(&format!("/job/{}", named("job", id)?)).await?;
                }
                let text = format!("deleted {}", count(ids.len()));
                Ok(Answer::line(json!({ "deleted": ids }), text))
            }
        }
    }
}

impl NewJob {
    fn body(self) -> anyhow::Result<JobBody> {
        self.options.body(self.queue, self.kind, self.payload)
    }
}

impl JobOptions {
    /// Builds the body of a job with these options.
    pub(crate) fn body(self, queue: String, kind: String, payload: Option<String>) -> anyhow::Result<JobBody> {
        Ok(JobBody {
            queue,
            kind,
            payload: payload.map(raw_json).transpose()?,
            name: self.job_name,
            priority: self.priority,
            max_attempts: self.max_attempts,
            timeout_seconds: self.timeout,
            unique_key: self.unique_key,
            unique_seconds: self.unique_for,
            concurrency_key: self.concurrency_key,
            tags: self.tags,
            metadata: pairs(&self.metadata)?,
            run_at: None,
            delay_seconds: None,
            batch_id: None,
        })
    }
}

impl Filter {
    fn is_empty(&self) -> bool {
        let texts = [&self.queue, &self.kind, &self.tag, &self.batch, &self.error];
        texts.iter().all(|text| text.is_none()) && self.before.is_none() && self.after.is_none()
    }

    fn with_state(self, state: Option<State>) -> Vec<(&'static str, Option<String>)> {
        let state = state.and_then(|state| state.to_possible_value()).map(|state| state.get_name().to_owned());
        self.parameters().into_iter().chain([("state", state)]).collect()
    }

    fn parameters(self) -> [(&'static str, Option<String>); 7] {
        [
            ("queue", self.queue),
            ("kind", self.kind),
            ("tag", self.tag),
            ("batch", self.batch),
            ("before", self.before.map(|at| at.to_string())),
            ("after", self.after.map(|at| at.to_string())),
            ("error", self.error),
        ]
    }
}

async fn post_each(remote: &Remote, ids: &[String], what: &str) -> anyhow::Result<Answer> {
    let (mut jobs, mut lines) = (Vec::new(), Vec::new());
    for id in ids {
        let answer = remote.post(&format!("/job/{}/{what}", named("job", id)?)).await?;
        let flagged = if answer["cancelRequested"] == true { ", cancel requested" } else { "" };
        lines.push(format!("{id} is {}{flagged}", cell(&answer, "state")));
        jobs.push(answer);
    }
    Ok(Answer::line(Value::from(jobs), lines.join("\n")))
}

async fn redrive(remote: &Remote, filter: Filter, all: bool) -> anyhow::Result<Answer> {
    if !filter.is_empty() && all {
        return Err(usage("--all conflicts with filters: use one of them"));
    }
    if filter.is_empty() && !all {
        let filters = "--queue, --kind, --tag, --batch, --before, --after or --error";
        return Err(usage(format!("choose dead jobs with {filters}, or use --all")));
    }
    let body: BTreeMap<_, _> =
        filter.parameters().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let mut redriven = 0;
    loop {
        let answer = remote.post_body("/job/redrive", &body).await?;
        redriven += answer["redriven"].as_u64().unwrap_or_default();
        if answer["done"] != false {
            let text = format!("redrove {}", count(usize::try_from(redriven).unwrap_or(usize::MAX)));
            return Ok(Answer::line(json!({ "redriven": redriven }), text));
        }
    }
}

/// Checks that the text is JSON, and keeps its bytes.
pub(crate) fn raw_json(text: String) -> anyhow::Result<Box<RawValue>> {
    RawValue::from_string(text).map_err(|error| {
        usage(format!("the payload is not JSON: quote it for the shell, such as '{{\"a\": 1}}': {error}"))
    })
}

/// Parses metadata of the form KEY=VALUE.
pub(crate) fn pairs(texts: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (key, value) =
            text.split_once('=').ok_or_else(|| usage(format!("invalid metadata {text:?}: use KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

fn count(jobs: usize) -> String {
    if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") }
}
