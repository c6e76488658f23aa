//! Options of bulk work: a dry run, a rate of its own, and waiting for the end.
//!
//! Bulk work is a background task. The server counts in a dry run what the same request would change.

use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::endpoint::{At, Window};
use crate::exit::{Exit, Failure};
use crate::fields::Fields;
use crate::output::Answer;
use crate::progress::Progress;
use crate::remote::Remote;
use crate::table::cell;
use crate::task;

/// The time between two questions about a background task.
const POLL: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub(crate) struct BulkOptions {
    /// Count the messages, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Change at most this many messages per second, so that other work is not held up.
    #[arg(long, value_name = "COUNT", conflicts_with = "dry_run")]
    rate: Option<u32>,
    /// Wait for the end of the background task. Ctrl-C ends the waiting, not the task.
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

/// Waiting deliveries to cancel.
#[derive(Debug, Args)]
pub(crate) struct BulkCancel {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    chosen: ChosenMessages,
}

#[derive(Debug, Args)]
pub(crate) struct ChosenMessages {
    #[command(flatten)]
    pub(crate) of: OfMessages,
    #[command(flatten)]
    pub(crate) bulk: BulkOptions,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// The messages of bulk work. All options must match.
#[derive(Debug, Args)]
pub(crate) struct OfMessages {
    /// Select only messages of this event type; repeatable.
    #[arg(long = "event-type", value_name = "NAME")]
    event_types: Vec<String>,
    /// Select only messages on this channel.
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Select only messages with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
}

impl OfMessages {
    pub(crate) const fn is_all(&self) -> bool {
        self.event_types.is_empty() && self.channel.is_none() && self.tag.is_none()
    }

    pub(crate) fn add_to(self, body: &mut Map<String, Value>) {
        body.add_text("channel", self.channel);
        body.add_text("tag", self.tag);
        if !self.event_types.is_empty() {
            body.insert("eventTypes".to_owned(), json!(self.event_types));
        }
    }
}

impl BulkOptions {
    /// Whether options are given that only a background task has.
    pub(crate) const fn need_task(&self) -> bool {
        self.rate.is_some() || self.wait
    }

    pub(crate) const fn rate(&self) -> Option<u32> {
        self.rate
    }

    /// Whether the command changes nothing, and needs no consent.
    pub(crate) const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Starts the background task, or counts its messages.
    pub(crate) async fn start(
        self,
        remote: &Remote,
        path: &str,
        mut body: Map<String, Value>,
    ) -> anyhow::Result<Answer> {
        body.extend(self.rate.map(|rate| ("ratePerSecond".to_owned(), json!(rate))));
        if self.dry_run {
            return count(remote, path, body).await;
        }
        let started = remote.post_body(path, &body).await?;
        self.finish(remote, started).await
    }

    /// Shows a background task that was started, or waits for its end.
    pub(crate) async fn finish(self, remote: &Remote, started: Value) -> anyhow::Result<Answer> {
        if self.wait { follow(remote, &started).await } else { Ok(task::started(started)) }
    }
}

impl BulkCancel {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let path = format!("{}/bulk-cancel", self.at.path()?);
        let mut body = Map::new();
        self.window.add_to(&mut body);
        self.chosen.of.add_to(&mut body);
        if !self.chosen.bulk.is_dry_run() {
            let At { application, endpoint } = &self.at;
            remote.confirm(
                self.chosen.consent,
                &format!("cancel waiting deliveries to endpoint {endpoint} of {application}"),
            )?;
        }
        self.chosen.bulk.start(remote, &path, body).await
    }
}

/// Starts a dry run and waits for its count.
async fn count(remote: &Remote, path: &str, mut body: Map<String, Value>) -> anyhow::Result<Answer> {
    body.insert("dryRun".to_owned(), json!(true));
    let counted = ended(remote, &remote.post_body(path, &body).await?).await?;
    let count = counted["data"]["messagesMatched"].as_u64().unwrap_or_default();
    let what = if count == 1 { "1 message matches".to_owned() } else { format!("{count} messages match") };
    Ok(Answer::line(json!({ "count": count }), what))
}

/// Waits for the end of a background task, and shows its result.
async fn follow(remote: &Remote, started: &Value) -> anyhow::Result<Answer> {
    let found = ended(remote, started).await?;
    let text = found["data"].as_object().into_iter().flatten().map(|(name, count)| format!("{name}: {count}"));
    let text = text.collect::<Vec<_>>().join(", ");
    Ok(Answer::line(found, text))
}

/// Waits until a background task has finished.
pub(crate) async fn ended(remote: &Remote, started: &Value) -> anyhow::Result<Value> {
    let id = cell(started, "id");
    let mut progress = Progress::new("done:");
    loop {
        let found = remote.get(&format!("/background-task/{id}")).await?;
        match cell(&found, "status").as_str() {
            "running" => progress.set(found["data"]["percent"].as_u64().unwrap_or_default(), 100),
            "finished" => return Ok(found),
            _ => {
                let error = cell(&found["data"], "error");
                return Err(Failure::error(Exit::Failed, format!("background task {id} failed: {error}")));
            }
        }
        tokio::time::sleep(POLL).await;
    }
}
