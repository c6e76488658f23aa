//! `everhook batch`: sets of jobs that announce their result.

use anyhow::bail;
use clap::{Args, Subcommand};
use everhook_core::limits::{BATCH_SELECTION_MAX, PAGE_MAX};
use serde_json::{Value, json};

use crate::job::pairs;
use crate::output::{Answer, Part, Table};
use crate::remote::{Remote, named, query};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum BatchCommand {
    /// List batches, the newest first.
    List {
        /// Show at most this many batches.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Show a batch and its dead jobs.
    Show {
        /// Id of the batch, such as batch_2d….
        id: String,
    },
    /// Create an empty batch and print its id.
    #[command(after_help = "Examples:
  batch=$(everhook batch create 'import of 4 May' --application acme --prefix import)
  everhook job enqueue imports import.file '{\"file\": 1}' --batch $batch
  everhook batch seal $batch

When a job dies, the application gets the message import.failed.
When all jobs have ended well, it gets import.completed.")]
    Create {
        /// Display name of the batch, such as 'import of 4 May'.
        name: String,
        /// Id or uid of the application that gets the announcements.
        #[arg(long, alias = "app", value_name = "ID or UID")]
        application: String,
        /// Start of the announcements' event types: <prefix>.failed and <prefix>.completed.
        #[arg(long)]
        prefix: String,
        /// Metadata that Everhook stores and never interprets; repeatable.
        #[arg(long = "metadata", value_name = "KEY=VALUE")]
        metadata: Vec<String>,
    },
    /// Seal a batch: it accepts no more jobs and can complete.
    Seal {
        /// Id of the batch, such as batch_2d….
        id: String,
    },
    /// Retry dead jobs of a batch with fresh attempts. The batch announces its result again.
    #[command(after_help = "Examples:
  everhook batch retry batch_2d… job_2e… job_2f…
  everhook batch retry batch_2d… --all")]
    Retry(Selection),
    /// Complete a batch without its dead jobs. The batch announces its result again.
    #[command(after_help = "Examples:
  everhook batch skip batch_2d… job_2e…
  everhook batch skip batch_2d… --all")]
    Skip(Selection),
}

#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Id of the batch, such as batch_2d….
    id: String,
    /// Ids of the dead jobs to change.
    #[arg(required_unless_present = "all")]
    jobs: Vec<String>,
    /// Select every dead job of the batch.
    #[arg(long, conflicts_with = "jobs")]
    all: bool,
}

impl BatchCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            BatchCommand::List { limit } => list(remote, limit).await,
            BatchCommand::Show { id } => show(remote, &id).await,
            BatchCommand::Create { name, application, prefix, metadata } => {
                let metadata = pairs(&metadata)?;
                let body = json!({ "name": name, "application": application, "prefix": prefix, "metadata": metadata });
                let created = remote.post_body("/batch", &body).await?;
                let id = cell(&created, "id");
                Ok(Answer::line(created, id))
            }
            BatchCommand::Seal { id } => {
                let sealed = remote.post(&format!("{}/seal", path(&id)?)).await?;
                let text = format!("{id} is sealed: {}", counts(&sealed));
                Ok(Answer::line(sealed, text))
            }
            BatchCommand::Retry(selection) => selection.resolve(remote, "retry").await,
            BatchCommand::Skip(selection) => selection.resolve(remote, "skip").await,
        }
    }
}

impl Selection {
    async fn resolve(self, remote: &Remote, what: &str) -> anyhow::Result<Answer> {
        let path = path(&self.id)?;
        let jobs = if self.all { dead_ids(remote, &self.id).await? } else { self.jobs };
        if jobs.is_empty() {
            bail!("{} has no dead jobs", self.id);
        }
        let mut batch = Value::Null;
        for jobs in jobs.chunks(BATCH_SELECTION_MAX) {
            batch = remote.post_body(&format!("{path}/{what}"), &json!({ "jobs": jobs })).await?;
        }
        let text = format!("{} is in phase {}: {}", self.id, cell(&batch, "phase"), counts(&batch));
        Ok(Answer::line(batch, text))
    }
}

async fn list(remote: &Remote, limit: usize) -> anyhow::Result<Answer> {
    let found = remote.get_some("/batch", limit).await?;
    let heads = ["ID", "NAME", "STATE", "PHASE", "ANNOUNCED", "JOBS", "CREATED"];
    let row = |batch: &Value| {
        let [id, name, state, phase, announced] = cells(batch, ["id", "name", "state", "phase", "announced"]);
        [id, name, state, phase, announced, counts(batch), time(batch, "createdAt")]
    };
    let list = Answer::found(found, heads, row);
    Ok(list.if_empty("no batches: `everhook batch create` creates one"))
}

async fn show(remote: &Remote, id: &str) -> anyhow::Result<Answer> {
    let batch = remote.get(&path(id)?).await?;
    let facts = vec![
        ("id", cell(&batch, "id")),
        ("name", cell(&batch, "name")),
        ("state", cell(&batch, "state")),
        ("application", cell(&batch, "application")),
        ("prefix", cell(&batch, "prefix")),
        ("phase", cell(&batch, "phase")),
        ("announced", cell(&batch, "announced")),
        ("jobs", counts(&batch)),
        ("created", time(&batch, "createdAt")),
    ];
    let dead = remote.get_some(&dead_jobs(id), PAGE_MAX).await?.items;
    let dead = Table::new(["DEAD JOB", "NAME", "KIND", "ENDED", "ERROR"], &dead, |job| {
        let [id, name, kind, error] = cells(job, ["id", "name", "kind", "error"]);
        [id, name, kind, time(job, "endedAt"), error]
    });
    Ok(Answer::object(batch, vec![Part::Facts(facts), Part::Table(dead)]))
}

async fn dead_ids(remote: &Remote, id: &str) -> anyhow::Result<Vec<String>> {
    let dead = remote.get_all(&dead_jobs(id)).await?;
    Ok(dead.iter().map(|job| cell(job, "id")).collect())
}

fn dead_jobs(id: &str) -> String {
    format!("/job{}", query(&[("batch", Some(id.to_owned())), ("state", Some("dead".to_owned()))]))
}

fn counts(batch: &Value) -> String {
    let counts = &batch["counts"];
    let names = ["pending", "succeeded", "dead", "cancelled", "skipped"];
    let given = names.iter().filter(|name| counts[**name] != 0).map(|name| format!("{} {name}", counts[*name]));
    let given = given.collect::<Vec<_>>().join(", ");
    if given.is_empty() { "no jobs".to_owned() } else { given }
}

fn path(id: &str) -> anyhow::Result<String> {
    Ok(format!("/batch/{}", named("batch", id)?))
}
