//! `everhook job`: jobs of a running server, found, shown and steered.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::remote::{Remote, named, query};
use crate::table::{cell, text, time};

mod shown;

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Put a job on a queue. Prints its id alone, also if its unique key names a job that is there already.
    #[command(after_help = "Examples:
  everhook job enqueue email email.send '{\"to\": \"ada@example.com\"}'
  everhook job enqueue email email.send '{\"to\": \"ada@example.com\"}' --delay 3600 --priority 0
  everhook job enqueue reports report.build '{}' --unique-key report-2026-05 --concurrency-key acme --tag monthly")]
    Enqueue {
        #[command(flatten)]
        job: Box<NewJob>,
        /// When it may run, such as 2026-05-04T03:00:00Z.
        #[arg(long, value_name = "TIME", conflicts_with = "delay")]
        run_at: Option<String>,
        /// Seconds until it may run.
        #[arg(long, value_name = "SECONDS")]
        delay: Option<f64>,
        /// The batch it belongs to.
        #[arg(long, value_name = "ID")]
        batch: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List jobs, newest first.
    #[command(after_help = "Examples:
  everhook job list --state dead --queue email
  everhook job list --state dead --error 'connection refused' --json
  everhook job list --tag monthly --after 2026-05-01T00:00:00Z --limit 500")]
    List {
        #[command(flatten)]
        filter: Filter,
        /// Only those in this state.
        #[arg(long)]
        state: Option<State>,
        /// Jobs at most.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a job: payload, attempts with their errors and log lines, progress, result.
    Show {
        /// The job's id.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Try jobs now: those that wait at once, dead ones with fresh tries.
    Retry {
        /// The jobs' ids.
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Cancel jobs. One that runs is flagged: its worker learns at its next heartbeat.
    Cancel {
        /// The jobs' ids.
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Move a job that waits to another time.
    #[command(after_help = "Examples:
  everhook job move job_2d… --at 2026-05-04T03:00:00Z
  everhook job move job_2d… --delay 0")]
    Move {
        /// The job's id.
        id: String,
        /// To this time.
        #[arg(long, value_name = "TIME", required_unless_present = "delay", conflicts_with = "delay")]
        at: Option<String>,
        /// To so many seconds from now.
        #[arg(long, value_name = "SECONDS")]
        delay: Option<f64>,
    },
    /// Put dead jobs back to pending, due now, with fresh tries.
    #[command(after_help = "Examples:
  everhook job redrive --queue email --error 'connection refused'
  everhook job redrive --all")]
    Redrive {
        #[command(flatten)]
        filter: Filter,
        /// Every dead job of the environment.
        #[arg(long)]
        all: bool,
    },
    /// Delete jobs with their attempts and results. Not while they run: cancel them first.
    Delete {
        /// The jobs' ids.
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// A job to make.
#[derive(Debug, Args)]
pub(crate) struct NewJob {
    /// The queue.
    queue: String,
    /// Which handler takes it, such as email.send.
    kind: String,
    /// What the handler gets: any JSON [default: null].
    payload: Option<String>,
    #[command(flatten)]
    options: JobOptions,
}

/// What most jobs do not say.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct JobOptions {
    /// A text for people.
    #[arg(long, value_name = "TEXT")]
    job_name: Option<String>,
    /// 0 goes first, 9 last [default: 5].
    #[arg(long, value_name = "0-9")]
    priority: Option<i64>,
    /// How often it is tried before it is dead [default: 10].
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,
    /// Seconds that one attempt may take [default: 900].
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Only one job is accepted under this per queue.
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// For so many seconds [default: 86400].
    #[arg(long, value_name = "SECONDS", requires = "unique_key")]
    unique_seconds: Option<u64>,
    /// Jobs with the same key share the queue's limit per key.
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// For finding it again; may be repeated.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Never interpreted; may be repeated.
    #[arg(long = "metadata", value_name = "KEY=VALUE")]
    metadata: Vec<String>,
}

/// Which jobs: those that all of it is true of.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only those on this queue.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only those of this kind.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only those with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only those of this batch.
    #[arg(long, value_name = "ID")]
    batch: Option<String>,
    /// Only those accepted before this time.
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Only those accepted after this time.
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// Only those whose latest attempt says this, in whatever case.
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

/// A job as the API takes it.
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
    /// Does what was asked for; answers what to print.
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<String> {
        match self {
            JobCommand::Enqueue { job, run_at, delay, batch, json } => {
                let body = JobBody { run_at, delay_seconds: delay, batch_id: batch, ..job.body()? };
                let answer = remote.post_body("/job", &body).await?;
                if json {
                    return Ok(format!("{answer:#}\n"));
                }
                Ok(format!("{}\n", text(&answer, "id")))
            }
            JobCommand::List { filter, state, limit, json } => {
                let path = format!("/job{}", query(&filter.with_state(state)));
                shown::list(remote, &path, limit, json).await
            }
            JobCommand::Show { id, json } => shown::show(remote, &id, json).await,
            JobCommand::Retry { ids } => post_each(remote, &ids, "retry").await,
            JobCommand::Cancel { ids } => post_each(remote, &ids, "cancel").await,
            JobCommand::Move { id, at, delay } => {
                let body = json!({ "runAt": at, "delaySeconds": delay });
                let answer = remote.patch(&format!("/job/{}", named("job", &id)?), &body).await?;
                Ok(format!("{id} is due {}\n", time(&answer, "runAt")))
            }
            JobCommand::Redrive { filter, all } => redrive(remote, filter, all).await,
            JobCommand::Delete { ids } => {
                for id in &ids {
                    remote.delete(&format!("/job/{}", named("job", id)?)).await?;
                }
                Ok(format!("deleted {}\n", count(ids.len())))
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
    /// The job that these options are for.
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
            unique_seconds: self.unique_seconds,
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
        let texts = [&self.queue, &self.kind, &self.tag, &self.batch, &self.before, &self.after, &self.error];
        texts.iter().all(|text| text.is_none())
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
            ("before", self.before),
            ("after", self.after),
            ("error", self.error),
        ]
    }
}

async fn post_each(remote: &Remote, ids: &[String], what: &str) -> anyhow::Result<String> {
    let mut shown = String::new();
    for id in ids {
        let answer = remote.post(&format!("/job/{}/{what}", named("job", id)?)).await?;
        let flagged = if answer["cancelRequested"] == true { ", to be cancelled" } else { "" };
        shown += &format!("{id} is {}{flagged}\n", cell(&answer, "state"));
    }
    Ok(shown)
}

async fn redrive(remote: &Remote, filter: Filter, all: bool) -> anyhow::Result<String> {
    if !filter.is_empty() && all {
        bail!("--all and a filter are both given: leave one of them out");
    }
    if filter.is_empty() && !all {
        bail!(
            "say which dead jobs with --queue, --kind, --tag, --batch, --before, --after or --error; or --all of them"
        );
    }
    let body: BTreeMap<_, _> =
        filter.parameters().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let mut redriven = 0;
    loop {
        let answer = remote.post_body("/job/redrive", &body).await?;
        redriven += answer["redriven"].as_u64().unwrap_or_default();
        if answer["done"] != false {
            return Ok(format!("put {} back\n", count(usize::try_from(redriven).unwrap_or(usize::MAX))));
        }
    }
}

/// JSON, as it was written.
pub(crate) fn raw_json(text: String) -> anyhow::Result<Box<RawValue>> {
    RawValue::from_string(text).context("the payload is not JSON: quote it for the shell, such as '{\"a\": 1}'")
}

/// Metadata as it is written on a command line.
pub(crate) fn pairs(texts: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (key, value) = text.split_once('=').with_context(|| format!("bad metadata {text:?}: use KEY=VALUE"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

fn count(jobs: usize) -> String {
    if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") }
}
