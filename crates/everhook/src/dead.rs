//! `everhook dead`: dead deliveries, which are out of attempts and wait for an operator.
//!
//! `failure_group` has the commands for groups of them.

use clap::{Args, Subcommand};
use everhook_core::time::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::app;
use crate::attempt;
use crate::bulk::{BulkOptions, OfMessages};
use crate::confirm::Consent;
use crate::delivery::DeliveryAt;
use crate::endpoint::At;
use crate::exit::{Exit, Failure, usage};
use crate::failure_group::GroupCommand;
use crate::job::raw_json;
use crate::message::{self, delivery_state};
use crate::output::{Answer, Part, Table};
use crate::remote::{Remote, named, query};
use crate::table::{cell, cells, time};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead deliveries, the newest message first: all, or those of an application or an endpoint.
    #[command(after_help = "Examples:
  everhook dead list
  everhook dead list acme --class timeout
  everhook dead list acme ep_2d… --since 2h --csv")]
    List {
        /// Id or uid of the application [default: all applications].
        application: Option<String>,
        /// Id or uid of the endpoint [default: all endpoints].
        endpoint: Option<String>,
        /// Show only deliveries whose last attempt has this class, such as timeout or status.
        #[arg(long, value_name = "CLASS")]
        class: Option<String>,
        /// Show only messages accepted since this time, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        since: Option<Timestamp>,
        /// Show only messages accepted before this time.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        until: Option<Timestamp>,
        /// Show at most this many deliveries.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Show a delivery with all its attempts.
    #[command(visible_alias = "get")]
    Show(DeliveryAt),
    /// Redrive dead deliveries to an endpoint: return them to pending, due now, with fresh attempts. Many are redriven
    /// in a background task.
    #[command(after_help = "Examples:
  everhook dead redrive acme ep_2d… --message msg_2d…
  everhook dead redrive acme ep_2d… --since 2h --rate 50 --wait
  everhook dead redrive acme ep_2d… --all --dry-run
  everhook dead redrive acme ep_2d… --message msg_2d… --payload '{\"id\": \"inv_1\"}'")]
    Redrive(Box<Redrive>),
    /// Dismiss a dead delivery: it ends as cancelled, and no redrive finds it any more.
    Dismiss {
        #[command(flatten)]
        delivery: DeliveryAt,
        #[command(flatten)]
        consent: Consent,
    },
    #[command(flatten)]
    Group(GroupCommand),
}

/// Dead deliveries to redrive.
#[derive(Debug, Args)]
pub(crate) struct Redrive {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    selection: Selection,
    /// With --since: select only messages accepted before this time.
    #[arg(long, value_name = "TIME", value_parser = when::past, requires = "since")]
    until: Option<Timestamp>,
    #[command(flatten)]
    of: OfMessages,
    #[command(flatten)]
    bulk: BulkOptions,
    /// With --message: send a new message with this corrected payload in the place of the dead delivery.
    #[arg(long, value_name = "JSON", requires = "message", conflicts_with = "dry_run")]
    payload: Option<String>,
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
            DeadCommand::List { application, endpoint, class, since, until, limit } => {
                let path = match application {
                    Some(application) => format!("{}/delivery", app::path(&application)?),
                    None => "/delivery".to_owned(),
                };
                let endpoint = endpoint.map(|endpoint| named("endpoint", &endpoint)).transpose()?;
                let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
                let parameters = [
                    ("state", Some("dead".to_owned())),
                    ("endpoint_id", endpoint.map(|name| name.to_string())),
                    ("class", class),
                    ("after", time(since)),
                    ("before", time(until)),
                ];
                list(remote, &format!("{path}{}", query(&parameters)), limit).await
            }
            DeadCommand::Show(DeliveryAt { at, message }) => show(remote, &at, &message).await,
            DeadCommand::Redrive(redrive) => redrive.ask(remote).await,
            DeadCommand::Dismiss { delivery, consent } => {
                let (path, message) = (delivery.path()?, delivery.message);
                remote.confirm(consent, &format!("dismiss the dead delivery of {message}"))?;
                let dismissed = remote.post(&format!("{path}/dismiss")).await?;
                Ok(Answer::line(dismissed, format!("dismissed the delivery of {message}")))
            }
            DeadCommand::Group(command) => command.ask(remote).await,
        }
    }
}

/// JSON body of a correction. The payload keeps its bytes.
#[derive(Serialize)]
struct Correction {
    payload: Box<RawValue>,
}

impl Redrive {
    async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let Redrive { at, selection, until, of, bulk, payload } = self;
        let Some(message) = selection.message else {
            let mut body = Map::new();
            let since = selection.since.unwrap_or_default();
            body.insert("since".to_owned(), json!(since));
            body.insert("until".to_owned(), json!(until));
            of.add_to(&mut body);
            return bulk.start(remote, &format!("{}/bulk-redrive", at.path()?), body).await;
        };
        if bulk.need_task() || !of.is_all() {
            let rule = "--rate, --wait, --event-type, --channel and --tag need --since or --all";
            return Err(usage(rule.to_owned()));
        }
        let path = DeliveryAt { at, message }.path()?;
        if bulk.is_dry_run() {
            let count = u64::from(remote.get(&path).await?["state"] == "dead");
            let what = if count == 1 { "1 message matches" } else { "0 messages match" };
            return Ok(Answer::line(json!({ "count": count }), what));
        }
        let path = format!("{path}/redrive");
        if let Some(payload) = payload {
            let sent = remote.post_body(&path, &Correction { payload: raw_json(payload)? }).await?;
            let id = cell(&sent["msg"], "id");
            return Ok(Answer::line(sent, format!("sent the corrected message {id}")));
        }
        let answer = remote.post_body(&path, &json!({})).await?;
        let redriven = answer["redriven"].as_u64().unwrap_or_default();
        let what = if redriven == 1 { "1 delivery".to_owned() } else { format!("{redriven} deliveries") };
        Ok(Answer::line(json!({ "redriven": redriven }), format!("redrove {what}")))
    }
}

async fn list(remote: &Remote, path: &str, limit: usize) -> anyhow::Result<Answer> {
    let found = remote.get_some(path, limit).await?;
    let row = |delivery: &Value| {
        let [message, event_type, application, endpoint] =
            cells(delivery, ["msgId", "eventType", "appId", "endpointId"]);
        let last = &delivery["lastAttempt"];
        let status = cell(last, "status");
        let status = if status == "0" { String::new() } else { status };
        [message, event_type, time(last, "timestamp"), cell(last, "class"), status, application, endpoint]
    };
    let heads = ["MESSAGE", "EVENT TYPE", "LAST ATTEMPT", "ENDED AS", "STATUS", "APPLICATION", "ENDPOINT"];
    let list = Answer::found(found, heads, row);
    Ok(list.if_empty("no dead deliveries"))
}

async fn show(remote: &Remote, at: &At, message: &str) -> anyhow::Result<Answer> {
    let endpoint = remote.get(&at.path()?).await?;
    let (path, id) = (message::path(&at.application, message)?, cell(&endpoint, "id"));
    let found = remote.get(&path).await?;
    let missing = || Failure::error(Exit::NotFound, format!("{message} has no delivery to {}", at.endpoint));
    let mut delivery = delivery(remote, &at.application, message, &id).await?.ok_or_else(missing)?;
    let attempts = format!("/app/{}/attempt/msg/{message}?endpoint_id={id}", at.application);
    let attempts = remote.get_all(&attempts).await?;
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
    let deliveries = remote.get_all(&format!("{}/endpoint", message::path(application, message)?)).await?;
    Ok(deliveries.into_iter().find(|delivery| delivery["id"] == endpoint))
}
