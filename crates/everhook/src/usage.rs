//! `everhook usage`: attempts and subscriptions by application, which background tasks count.

use clap::Subcommand;
use everhook_core::time::Timestamp;
use serde_json::{Value, json};

use crate::bulk;
use crate::output::Answer;
use crate::remote::Remote;
use crate::table::cells;
use crate::task;
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Count the attempts of each application, of messages accepted in a window.
    #[command(after_help = "Examples:
  everhook usage apps --since 30d --wait
  everhook usage apps --since 2026-05-01 --until 2026-06-01 --app acme")]
    Apps {
        /// Start of the window, such as 2026-05-01T00:00:00Z, or 30d for thirty days ago.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        since: Timestamp,
        /// End of the window [default: now].
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        until: Option<Timestamp>,
        /// Count only this application, by id or uid; repeatable.
        #[arg(long = "app", alias = "application", value_name = "ID or UID")]
        applications: Vec<String>,
        /// Wait for the end of the background task, and show the counts.
        #[arg(long)]
        wait: bool,
    },
    /// List the event types that the endpoints of each application subscribe to.
    EventTypes {
        /// Wait for the end of the background task, and show the event types.
        #[arg(long)]
        wait: bool,
    },
}

impl UsageCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            UsageCommand::Apps { since, until, applications, wait } => {
                let only = (!applications.is_empty()).then_some(applications);
                let body = json!({ "since": since, "until": until.unwrap_or_else(when::now), "appIds": only });
                let started = remote.post_body("/stats/usage/app", &body).await?;
                let Some(found) = ended(remote, &started, wait).await? else { return Ok(task::started(started)) };
                Ok(Answer::list(list(&found, "appStats"), ["APPLICATION", "UID", "ATTEMPTS"], |application| {
                    cells(application, ["appId", "appUid", "messageDestinations"])
                }))
            }
            UsageCommand::EventTypes { wait } => {
                let started = remote.put("/stats/usage/event-types", &json!({})).await?;
                let Some(found) = ended(remote, &started, wait).await? else { return Ok(task::started(started)) };
                Ok(Answer::list(
                    list(&found, "event_types"),
                    ["APPLICATION", "TAKES ALL", "EVENT TYPES"],
                    |application| {
                        let takes_all = if application["hasCatchAllEndpoint"] == true { "yes" } else { "no" };
                        let [id, types] = cells(application, ["appId", "explicitlySubscribedEventTypes"]);
                        [id, takes_all.to_owned(), types]
                    },
                ))
            }
        }
    }
}

/// Waits for the end of a background task, if the caller wants to.
async fn ended(remote: &Remote, started: &Value, wait: bool) -> anyhow::Result<Option<Value>> {
    if wait { Ok(Some(bulk::ended(remote, started).await?)) } else { Ok(None) }
}

fn list(task: &Value, name: &str) -> Vec<Value> {
    task["data"][name].as_array().cloned().unwrap_or_default()
}
