//! `everhook usage`: attempts and subscriptions by application, which background tasks count.

use clap::Subcommand;
use everhook_core::time::Timestamp;
use serde_json::json;

use crate::output::Answer;
use crate::remote::Remote;
use crate::task;
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Count the attempts of each application, of messages accepted in a window.
    #[command(after_help = "Examples:
  everhook usage apps --since 30d
  everhook usage apps --since 2026-05-01 --until 2026-06-01 --app acme")]
    Apps {
        /// Start of the window, such as 2026-05-01T00:00:00Z, or 30d for thirty days ago.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        since: Timestamp,
        /// End of the window [default: now].
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        until: Option<Timestamp>,
        /// Count only this application, by id or uid; repeatable.
        #[arg(long = "app", value_name = "ID or UID")]
        applications: Vec<String>,
    },
    /// List the event types that the endpoints of each application subscribe to.
    EventTypes,
}

impl UsageCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        Ok(task::started(match self {
            UsageCommand::Apps { since, until, applications } => {
                let only = (!applications.is_empty()).then_some(applications);
                let body = json!({ "since": since, "until": until.unwrap_or_else(when::now), "appIds": only });
                remote.post_body("/stats/usage/app", &body).await?
            }
            UsageCommand::EventTypes => remote.put("/stats/usage/event-types", &json!({})).await?,
        }))
    }
}
