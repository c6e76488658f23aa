//! `everhook dead groups` and the commands for one group: dead deliveries to one endpoint that failed in the same way.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::bulk::BulkOptions;
use crate::confirm::Consent;
use crate::exit::usage;
use crate::output::Answer;
use crate::remote::{Remote, query};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List the groups of dead deliveries: by endpoint and class of failure.
    #[command(after_help = "Examples:
  everhook dead groups
  everhook dead groups --state open --csv")]
    Groups {
        /// Show only groups in this state: open, acknowledged or resolved.
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
    },
    /// Show a group of dead deliveries.
    Group {
        /// Id of the group, as `everhook dead groups` shows it.
        group: String,
    },
    /// Acknowledge a group: you know about it. More dead deliveries do not change that.
    #[command(after_help = "Example:
  everhook dead ack ep_2d….timeout --note 'asked their support, ticket 42'")]
    Ack {
        /// Id of the group, as `everhook dead groups` shows it.
        group: String,
        /// Note for other operators.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Resolve a group: its cause is gone. It opens again when another delivery dies.
    Resolve {
        /// Id of the group, as `everhook dead groups` shows it.
        group: String,
        /// Note for other operators.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Open a group again that was acknowledged or resolved.
    Reopen {
        /// Id of the group, as `everhook dead groups` shows it.
        group: String,
    },
    /// Send the messages of a group again, in a background task.
    #[command(after_help = "Examples:
  everhook dead redrive-group ep_2d….timeout --dry-run
  everhook dead redrive-group ep_2d….timeout --yes")]
    RedriveGroup {
        /// Id of the group, as `everhook dead groups` shows it.
        group: String,
        #[command(flatten)]
        bulk: BulkOptions,
        #[command(flatten)]
        consent: Consent,
    },
}

impl GroupCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            GroupCommand::Groups { state } => {
                Ok(Answer::list(list(remote, state).await?, HEADS, row).if_empty("no groups of dead deliveries"))
            }
            GroupCommand::Group { group } => Ok(shown(remote.get(&path(&group)?).await?)),
            GroupCommand::Ack { group, note } => mark(remote, &group, "acknowledge", note).await,
            GroupCommand::Resolve { group, note } => mark(remote, &group, "resolve", note).await,
            GroupCommand::Reopen { group } => mark(remote, &group, "reopen", None).await,
            GroupCommand::RedriveGroup { group, bulk, consent } => {
                let path = format!("{}/redrive", path(&group)?);
                let counted = remote.post_body(&path, &json!({ "dryRun": true })).await?;
                let count = counted["count"].as_u64().unwrap_or_default();
                let what = if count == 1 { "1 delivery".to_owned() } else { format!("{count} deliveries") };
                if bulk.is_dry_run() {
                    return Ok(Answer::line(counted, format!("{what} would be redriven")));
                }
                remote.confirm(consent, &format!("redrive {what} of {group}"))?;
                let mut started = remote.post_body(&path, &json!({ "ratePerSecond": bulk.rate() })).await?;
                bulk.finish(remote, started["task"].take()).await
            }
        }
    }
}

const HEADS: [&str; 7] = ["GROUP", "STATE", "DEAD", "LAST DIED", "APPLICATION", "URL", "NOTE"];

fn row(group: &Value) -> [String; 7] {
    let [id, state, count, application, url, note] = cells(group, ["id", "state", "count", "appName", "url", "note"]);
    [id, state, count, time(group, "lastDiedAt"), application, url, note]
}

fn shown(group: Value) -> Answer {
    let [id, state, count, last, application, url, note] = row(&group);
    let facts = vec![
        ("group", id),
        ("state", state),
        ("dead", count),
        ("first died", time(&group, "firstDiedAt")),
        ("last died", last),
        ("application", application),
        ("url", url),
        ("note", note),
        ("noted", time(&group, "notedAt")),
    ];
    Answer::facts(group, facts)
}

/// Reads every page. A page has all groups of some endpoints, and no limit.
async fn list(remote: &Remote, state: Option<String>) -> anyhow::Result<Vec<Value>> {
    let (mut groups, mut iterator) = (Vec::new(), None);
    loop {
        let parameters = [("state", state.clone()), ("iterator", iterator.take())];
        let mut page = remote.get(&format!("/failure-group{}", query(&parameters))).await?;
        if let Value::Array(data) = page["data"].take() {
            groups.extend(data);
        }
        iterator = page["iterator"].as_str().filter(|_| page["done"] == false).map(str::to_owned);
        if iterator.is_none() {
            return Ok(groups);
        }
    }
}

async fn mark(remote: &Remote, group: &str, action: &str, note: Option<String>) -> anyhow::Result<Answer> {
    let body = note.map_or_else(|| json!({}), |note| json!({ "note": note }));
    let marked = remote.post_body(&format!("{}/{action}", path(group)?), &body).await?;
    let text = format!("{group} is {}", cell(&marked, "state"));
    Ok(Answer::line(marked, text))
}

/// The path of a group. Its id is the id of an endpoint, a dot and a class.
fn path(group: &str) -> anyhow::Result<String> {
    let is_plain = group.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.'));
    if !is_plain || !group.contains('.') {
        return Err(usage(format!("{group:?} is not the id of a group, such as ep_2d….timeout")));
    }
    Ok(format!("/failure-group/{group}"))
}
