//! `everhook task`: background tasks, which do bulk work after their request was answered.

use clap::Subcommand;
use serde_json::Value;

use crate::confirm::Consent;
use crate::output::Answer;
use crate::remote::{Remote, named, query};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// List background tasks, the newest first.
    #[command(after_help = "Examples:
  everhook task list
  everhook task list --status running --kind endpoint.recover")]
    List {
        /// Show only background tasks with this status: running, finished or failed.
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Show only background tasks of this kind, such as endpoint.recover.
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// Show at most this many background tasks.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Show a background task with its progress or result.
    #[command(visible_alias = "get")]
    Show {
        /// Id of the background task.
        task: String,
    },
    /// Cancel a background task. Its work so far stays.
    Cancel {
        /// Id of the background task.
        task: String,
        #[command(flatten)]
        consent: Consent,
    },
}

impl TaskCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            TaskCommand::List { status, kind, limit } => {
                let path = format!("/background-task{}", query(&[("status", status), ("task", kind)]));
                let found = remote.get_some(&path, limit).await?;
                let list = Answer::found(found, HEADS, row);
                Ok(list.if_empty("no background tasks: `everhook replay` and other bulk work start them"))
            }
            TaskCommand::Show { task } => {
                let found = remote.get(&path(&task)?).await?;
                let [id, status, kind, changed, data] = row(&found);
                let facts = vec![("id", id), ("kind", kind), ("status", status), ("changed", changed), ("data", data)];
                Ok(Answer::facts(found, facts))
            }
            TaskCommand::Cancel { task, consent } => {
                let path = path(&task)?;
                remote.confirm(consent, &format!("cancel background task {task}"))?;
                let found = remote.post(&format!("{path}/cancel")).await?;
                Ok(Answer::line(found, format!("cancelled {task}")))
            }
        }
    }
}

/// The answer of a command that started a background task.
pub(crate) fn started(task: Value) -> Answer {
    let id = cell(&task, "id");
    Answer::line(task, id).note_if(true, "started a background task: `everhook task show` shows its progress")
}

const HEADS: [&str; 5] = ["ID", "STATUS", "KIND", "CHANGED", "DATA"];

fn row(task: &Value) -> [String; 5] {
    let [id, status, kind] = cells(task, ["id", "status", "task"]);
    [id, status, kind, time(task, "updatedAt"), task["data"].to_string()]
}

fn path(task: &str) -> anyhow::Result<String> {
    Ok(format!("/background-task/{}", named("background task", task)?))
}
