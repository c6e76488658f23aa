//! `everhook dead`: dead deliveries, which are out of attempts and wait for an operator.
//!
//! The list is made of the failed attempts to an endpoint: a message is shown if its delivery ended with them.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use everhook_core::limits::PAGE_MAX;
use everhook_core::time::Timestamp;
use serde_json::{Value, json};

use crate::attempt;
use crate::endpoint::At;
use crate::exit::{Exit, Failure};
use crate::message::{self, delivery_state};
use crate::output::{Answer, Part, Table};
use crate::remote::{MORE, Remote, query};
use crate::table::{cell, time};
use crate::when;

/// Failed attempts that one list reads at most.
const ATTEMPTS_MAX: usize = 10_000;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List the dead deliveries to an endpoint, the newest first.
    #[command(after_help = "Examples:
  everhook dead list acme ep_2d…
  everhook dead list acme ep_2d… --since 2h --csv")]
    List {
        #[command(flatten)]
        at: At,
        /// Show only deliveries that failed since this time, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        since: Option<Timestamp>,
        /// Show at most this many deliveries.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Show a delivery with all its attempts.
    #[command(visible_alias = "get")]
    Show {
        #[command(flatten)]
        at: At,
        /// Id or event id of the message.
        message: String,
    },
    /// Redrive dead deliveries to an endpoint: return them to pending, due now, with fresh attempts.
    #[command(after_help = "Examples:
  everhook dead redrive acme ep_2d… --message msg_2d…
  everhook dead redrive acme ep_2d… --since 2h
  everhook dead redrive acme ep_2d… --all")]
    Redrive {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        selection: Selection,
        /// With --since: select only messages accepted before this time.
        #[arg(long, value_name = "TIME", value_parser = when::past, requires = "since")]
        until: Option<Timestamp>,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Selection {
    /// Select the delivery of this message.
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// Select messages accepted since this time, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    since: Option<Timestamp>,
    /// Select every dead delivery to the endpoint.
    #[arg(long)]
    all: bool,
}

impl DeadCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            DeadCommand::List { at, since, limit } => list(remote, &at, since, limit.max(1)).await,
            DeadCommand::Show { at, message } => show(remote, &at, &message).await,
            DeadCommand::Redrive { at, selection, until } => selection.redrive(remote, &at, until).await,
        }
    }
}

impl Selection {
    async fn redrive(self, remote: &Remote, at: &At, until: Option<Timestamp>) -> anyhow::Result<Answer> {
        let (path, body) = match self.message {
            Some(message) => {
                let message = message::path(&at.application, &message)?;
                (format!("{message}/endpoint/{}/redrive", at.endpoint), json!({}))
            }
            None => (format!("{}/redrive", at.path()?), json!({ "since": self.since, "until": until })),
        };
        let mut redriven = 0;
        loop {
            let answer = remote.post_body(&path, &body).await?;
            redriven += answer["redriven"].as_u64().unwrap_or_default();
            if answer["done"] != false {
                let what = if redriven == 1 { "1 delivery".to_owned() } else { format!("{redriven} deliveries") };
                return Ok(Answer::line(json!({ "redriven": redriven }), format!("redrove {what}")));
            }
        }
    }
}

async fn list(remote: &Remote, at: &At, since: Option<Timestamp>, limit: usize) -> anyhow::Result<Answer> {
    let endpoint = remote.get(&at.path()?).await?;
    let parameters = [
        ("status", Some("2".to_owned())),
        ("with_msg", Some("true".to_owned())),
        ("after", since.map(|at| at.to_string())),
    ];
    let path = format!("/app/{}/attempt/endpoint/{}{}", at.application, at.endpoint, query(&parameters));
    let failed = remote.get_some(&path, PAGE_MAX, ATTEMPTS_MAX).await?;
    let (mut seen, mut dead, mut more) = (BTreeSet::new(), Vec::new(), failed.more);
    for attempt in failed.items {
        let id = cell(&attempt, "msgId");
        if !seen.insert(id.clone()) {
            continue;
        }
        if dead.len() == limit {
            more = true;
            break;
        }
        let delivery = delivery(remote, &at.application, &id, &cell(&endpoint, "id")).await?;
        if delivery.is_some_and(|delivery| delivery_state(&delivery) == "dead") {
            dead.push(attempt);
        }
    }
    let row = |attempt: &Value| {
        let event_type = cell(&attempt["msg"], "eventType");
        let (class, status) = (cell(attempt, "class"), attempt::reply(attempt));
        [cell(attempt, "msgId"), event_type, time(attempt, "timestamp"), class, status, cell(attempt, "response")]
    };
    let heads = ["MESSAGE", "EVENT TYPE", "LAST ATTEMPT", "ENDED AS", "STATUS", "REPLY"];
    Ok(Answer::list(dead, heads, row).note_if(more, MORE))
}

async fn show(remote: &Remote, at: &At, message: &str) -> anyhow::Result<Answer> {
    let endpoint = remote.get(&at.path()?).await?;
    let (path, id) = (message::path(&at.application, message)?, cell(&endpoint, "id"));
    let found = remote.get(&path).await?;
    let missing = || Failure::error(Exit::NotFound, format!("{message} has no delivery to {}", at.endpoint));
    let mut delivery = delivery(remote, &at.application, message, &id).await?.ok_or_else(missing)?;
    let attempts = format!("/app/{}/attempt/msg/{message}?endpoint_id={id}", at.application);
    let attempts = remote.get_all(&attempts, PAGE_MAX).await?;
    let facts = vec![
        ("message", cell(&found, "id")),
        ("event type", cell(&found, "eventType")),
        ("accepted", time(&found, "timestamp")),
        ("endpoint", id),
        ("url", cell(&delivery, "url")),
        ("state", delivery_state(&delivery)),
        ("next attempt", time(&delivery, "nextAttempt")),
    ];
    let heads = ["ATTEMPT", "STARTED", "STATE", "STATUS", "ENDED AS", "REPLY"];
    let table = Table::new(heads, &attempts, |attempt| {
        let [id, started, state, status, class, ..] = attempt::row(attempt);
        [id, started, state, status, class, cell(attempt, "response")]
    });
    delivery["attempts"] = Value::from(attempts);
    Ok(Answer::object(delivery, vec![Part::Facts(facts), Part::Table(table)]))
}

/// Reads the delivery of a message to an endpoint.
async fn delivery(remote: &Remote, application: &str, message: &str, endpoint: &str) -> anyhow::Result<Option<Value>> {
    let deliveries = remote.get_all(&format!("{}/endpoint", message::path(application, message)?), PAGE_MAX).await?;
    Ok(deliveries.into_iter().find(|delivery| delivery["id"] == endpoint))
}
