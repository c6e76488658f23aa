//! `everhook poller`: polled endpoints, whose messages readers fetch.

use clap::Subcommand;
use everhook_core::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::app;
use crate::endpoint::At;
use crate::fields::Fields;
use crate::message::{HEADS, row};
use crate::output::Answer;
use crate::remote::{Remote, named, query};
use crate::table::cell;
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum PollerCommand {
    /// Create a polled endpoint and print its id.
    #[command(after_help = "Example:
  everhook poller create acme --uid inbox --event-type invoice.paid")]
    Create {
        /// Id or uid of the application.
        application: String,
        /// Your own id of the endpoint, usable in its place.
        #[arg(long, value_name = "UID")]
        uid: Option<String>,
        /// Event type to receive; repeatable [default: all].
        #[arg(long = "event-type", value_name = "NAME")]
        event_types: Vec<String>,
        /// Channel to receive; repeatable [default: all].
        #[arg(long = "channel", value_name = "NAME")]
        channels: Vec<String>,
    },
    /// Read a page of messages, in the order of acceptance. The iterator of the next page goes to stderr.
    #[command(after_help = "Examples:
  everhook poller read acme inbox --after 1h
  everhook poller read acme inbox --iterator eyJ…
  everhook poller read acme inbox --consumer billing --iterator eyJ…     confirms the page before")]
    Read {
        #[command(flatten)]
        at: At,
        /// Read as this consumer, whose position the server keeps.
        #[arg(long, value_name = "NAME")]
        consumer: Option<String>,
        /// Iterator of the page before [default: the first page, or the position of the consumer].
        #[arg(long, value_name = "ITERATOR")]
        iterator: Option<String>,
        /// Begin with messages accepted after this time, such as 2h for two hours ago.
        #[arg(long, value_name = "TIME", value_parser = when::past, conflicts_with_all = ["consumer", "iterator"])]
        after: Option<Timestamp>,
        /// Show at most this many messages.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Move a consumer to a time. Its earlier iterators become invalid.
    Seek {
        #[command(flatten)]
        at: At,
        /// Name of the consumer.
        consumer: String,
        /// Time to continue at, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        after: Timestamp,
    },
}

impl PollerCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            PollerCommand::Create { application, uid, event_types, channels } => {
                let mut body = Map::new();
                body.add_text("type", Some("pollingEndpoint".to_owned()));
                body.add_text("uid", uid);
                body.add_list_or_none("eventTypes", event_types);
                body.add_list_or_none("channels", channels);
                let created = remote.post_body(&format!("{}/destination", app::path(&application)?), &body).await?;
                let id = cell(&created, "id");
                Ok(Answer::line(created, id))
            }
            PollerCommand::Read { at, consumer, iterator, after, limit } => {
                let path = match consumer {
                    Some(name) => consumer_path(&at, &name)?,
                    None => path(&at)?,
                };
                let after = after.map(|at| at.to_string());
                let parameters = [("limit", Some(limit.to_string())), ("iterator", iterator), ("after", after)];
                let mut page = remote.get(&format!("{path}{}", query(&parameters))).await?;
                let messages = match page["data"].take() {
                    Value::Array(messages) => messages,
                    _ => Vec::new(),
                };
                let next = format!("next page: --iterator {}", cell(&page, "iterator"));
                Ok(Answer::list(messages, HEADS, row).note_if(true, &next))
            }
            PollerCommand::Seek { at, consumer, after } => {
                let path = format!("{}/seek", consumer_path(&at, &consumer)?);
                let moved = remote.post_body(&path, &json!({ "after": after })).await?;
                let iterator = cell(&moved, "iterator");
                Ok(Answer::line(moved, iterator))
            }
        }
    }
}

fn path(at: &At) -> anyhow::Result<String> {
    Ok(format!("{}/poller/{}", app::path(&at.application)?, named("endpoint", &at.endpoint)?))
}

fn consumer_path(at: &At, consumer: &str) -> anyhow::Result<String> {
    Ok(format!("{}/consumer/{}", path(at)?, named("consumer", consumer)?))
}
