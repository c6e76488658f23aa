//! `everhook msg`: messages and their deliveries.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app;
use crate::bulk::BulkOptions;
use crate::confirm::Consent;
use crate::exit::usage;
use crate::job::raw_json;
use crate::output::{Answer, Part, Table};
use crate::remote::{Remote, named, query};
use crate::table::{cell, cells, one_line, time};
use crate::when;

mod many;

#[derive(Debug, Subcommand)]
pub(crate) enum MessageCommand {
    /// Send a message and print its id.
    #[command(after_help = "Examples:
  everhook msg send acme invoice.paid '{\"id\": \"inv_1\"}'
  everhook msg send acme invoice.paid --file invoice.json --event-id inv_1
  jq .invoice export.json | everhook msg send acme invoice.paid -
  everhook msg send acme run.finished '{}' --once run-42")]
    Send {
        /// Id or uid of the application.
        application: String,
        /// Event type of the message, such as invoice.paid.
        event_type: String,
        #[command(flatten)]
        payload: PayloadArgs,
        #[command(flatten)]
        options: Box<SendOptions>,
    },
    /// Show a message, its payload and its deliveries.
    #[command(visible_alias = "get")]
    Show {
        /// Id or uid of the application.
        application: String,
        /// Id or event id of the message.
        message: String,
    },
    /// Send many messages in few transactions: one JSON object per line, as the API takes a message.
    #[command(after_help = "Example:
  everhook msg send-many acme messages.jsonl

A line is such as {\"eventType\": \"invoice.paid\", \"payload\": {\"id\": \"inv_1\"}, \"eventId\": \"inv_1\"}.
With an eventId, a line can be sent again without a second message.")]
    SendMany {
        /// Id or uid of the application.
        application: String,
        /// File with the messages, or - to read them from stdin.
        file: PathBuf,
    },
    /// Tell whether any enabled endpoint would get such a message. Nothing is created.
    Precheck {
        /// Id or uid of the application.
        application: String,
        /// Event type of the message, such as invoice.paid.
        event_type: String,
        /// Channel of the message; repeatable.
        #[arg(long = "channel", value_name = "NAME")]
        channels: Vec<String>,
    },
    /// List messages, the newest first: those of an application, or of all applications without payloads.
    #[command(after_help = "Examples:
  everhook msg list acme --since 2h
  everhook msg list acme --event-type invoice.paid --since 2026-05-01 --until 2026-05-02 --csv")]
    List {
        /// Id or uid of the application [default: all applications].
        application: Option<String>,
        #[command(flatten)]
        filter: Filter,
        /// Show at most this many messages.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Send a message to one endpoint again, as a new delivery.
    Resend {
        /// Id or uid of the application.
        application: String,
        /// Id or event id of the message.
        message: String,
        /// Id or uid of the endpoint.
        endpoint: String,
    },
    /// Cancel the deliveries of a message that wait or are being sent.
    #[command(after_help = "Examples:
  everhook msg cancel acme msg_2d…
  everhook msg cancel acme msg_2d… --endpoint ep_2d… --yes")]
    Cancel {
        /// Id or uid of the application.
        application: String,
        /// Id or event id of the message.
        message: String,
        /// Cancel only the delivery to this endpoint.
        #[arg(long, value_name = "ENDPOINT")]
        endpoint: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// Erase the payload of a message for ever, or those of several.
    Expunge {
        /// Id or uid of the application.
        application: String,
        /// Ids or event ids of the messages.
        #[arg(required = true)]
        messages: Vec<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// Erase the payloads of all messages of an application for ever, in a background task.
    ExpungeAll {
        /// Id or uid of the application.
        application: String,
        #[command(flatten)]
        bulk: BulkOptions,
        #[command(flatten)]
        consent: Consent,
    },
}

/// The payload of a message, from one of three places.
#[derive(Debug, Args)]
pub(crate) struct PayloadArgs {
    /// Payload, a JSON object, or - to read it from stdin.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    payload: Option<String>,
    /// Read the payload from this file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    /// Your own id of the message, accepted once per application.
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
    /// Channel of the message; repeatable.
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// Tag to find the message by; repeatable.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Earliest delivery, such as 2026-05-04T03:00:00Z.
    #[arg(long, value_name = "TIME")]
    deliver_at: Option<String>,
    /// Key of a once-slot: only the first message of a phase is sent.
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
    /// Phase of the once-slot.
    #[arg(long, value_name = "NUMBER", requires = "once")]
    phase: Option<u64>,
}

/// Filter of messages. All given conditions must match.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Show only messages of this event type; repeatable.
    #[arg(long = "event-type", value_name = "NAME")]
    pub(crate) event_types: Vec<String>,
    /// Show only messages of this channel.
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Show only messages with this tag.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// Show only messages since this time, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    pub(crate) since: Option<Timestamp>,
    /// Show only messages before this time, such as 2026-05-01T00:00:00Z, or 1h for one hour ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    pub(crate) until: Option<Timestamp>,
}

/// JSON body of a message. The payload keeps its bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageBody {
    event_type: String,
    payload: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    channels: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    once: Option<Value>,
}

impl MessageCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            MessageCommand::Send { application, event_type, payload, options } => {
                let body = options.body(event_type, payload.read()?);
                send(remote, &application, &body).await
            }
            MessageCommand::Show { application, message } => show(remote, &path(&application, &message)?).await,
            MessageCommand::SendMany { application, file } => many::send(remote, &application, &file).await,
            MessageCommand::Precheck { application, event_type, channels } => {
                many::precheck(remote, &application, &event_type, channels).await
            }
            MessageCommand::List { application: Some(application), filter, limit } => {
                let path = format!("{}/msg{}", app::path(&application)?, query(&filter.parameters()));
                let found = remote.get_some(&path, limit).await?;
                let list = Answer::found(found, HEADS, row);
                Ok(list.if_empty("no messages: `everhook msg send` sends one"))
            }
            MessageCommand::List { application: None, filter, limit } => many::list_all(remote, &filter, limit).await,
            MessageCommand::Resend { application, message, endpoint } => {
                let endpoint = named("endpoint", &endpoint)?;
                remote.post(&format!("{}/endpoint/{endpoint}/resend", path(&application, &message)?)).await?;
                let data = json!({ "message": message, "endpoint": endpoint.to_string() });
                Ok(Answer::line(data, format!("{message} is sent to {endpoint} again")))
            }
            MessageCommand::Cancel { application, message, endpoint, consent } => {
                let path = path(&application, &message)?;
                let endpoint = endpoint.map(|endpoint| named("endpoint", &endpoint)).transpose()?;
                remote.confirm(consent, &format!("cancel the deliveries of message {message}"))?;
                cancel(remote, &path, &message, endpoint.as_ref().map(Name::as_str)).await
            }
            MessageCommand::Expunge { application, messages, consent } => match messages.as_slice() {
                [message] => {
                    let path = path(&application, message)?;
                    remote.confirm(consent, &format!("erase the payload of message {message}"))?;
                    remote.delete(&format!("{path}/content")).await?;
                    Ok(Answer::line(json!({ "expunged": message }), format!("erased the payload of {message}")))
                }
                messages => many::expunge(remote, &application, messages, consent).await,
            },
            MessageCommand::ExpungeAll { application, bulk, consent } => {
                many::expunge_all(remote, &application, bulk, consent).await
            }
        }
    }
}

async fn cancel(remote: &Remote, path: &str, message: &str, endpoint: Option<&str>) -> anyhow::Result<Answer> {
    if let Some(endpoint) = endpoint {
        let delivery = remote.post(&format!("{path}/endpoint/{endpoint}/cancel")).await?;
        let text = format!("the delivery of {message} to {endpoint} is {}", cell(&delivery, "state"));
        return Ok(Answer::line(delivery, text));
    }
    let done = remote.post(&format!("{path}/cancel")).await?;
    let [cancelled, requested] = cells(&done, ["cancelled", "requested"]);
    let text = format!("cancelled {cancelled} deliveries; {requested} are being sent and are not tried again");
    Ok(Answer::line(done, text))
}

/// Sends a message and returns its id, or the id of the winner of its once-slot.
pub(crate) async fn send(remote: &Remote, application: &str, body: &MessageBody) -> anyhow::Result<Answer> {
    let sent = remote.post_body(&format!("{}/msg", app::path(application)?), body).await?;
    let (id, is_suppressed) = (cell(&sent, "id"), sent["suppressed"] == true);
    Ok(Answer::line(sent, id).note_if(is_suppressed, "not sent: this message holds the once-slot"))
}

impl PayloadArgs {
    pub(crate) fn read(self) -> anyhow::Result<Box<RawValue>> {
        let text = match (self.payload.as_deref(), self.file) {
            (_, Some(file)) => {
                std::fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?
            }
            (Some("-"), None) => std::io::read_to_string(std::io::stdin()).context("could not read stdin")?,
            (Some(text), None) => text.to_owned(),
            (None, None) => return Err(usage("a payload is required: an argument, --file, or - for stdin")),
        };
        raw_json(text.trim().to_owned())
    }
}

impl SendOptions {
    fn body(self, event_type: String, payload: Box<RawValue>) -> MessageBody {
        let once = self.once.map(|key| match self.phase {
            Some(phase) => json!({ "key": key, "phase": phase }),
            None => json!({ "key": key }),
        });
        let SendOptions { event_id, channels, tags, deliver_at, .. } = self;
        MessageBody { event_type, payload, event_id, channels, tags, deliver_at, once }
    }
}

impl MessageBody {
    /// A message without options.
    pub(crate) fn plain(event_type: String, payload: Box<RawValue>) -> MessageBody {
        let (channels, tags) = (Vec::new(), Vec::new());
        MessageBody { event_type, payload, event_id: None, channels, tags, deliver_at: None, once: None }
    }
}

impl Filter {
    pub(crate) fn parameters(&self) -> Vec<(&'static str, Option<String>)> {
        let mut given = vec![
            ("channel", self.channel.clone()),
            ("tag", self.tag.clone()),
            ("after", self.since.map(|at| at.to_string())),
            ("before", self.until.map(|at| at.to_string())),
        ];
        given.extend(self.event_types.iter().map(|name| ("event_types", Some(name.clone()))));
        given
    }
}

pub(crate) const HEADS: [&str; 5] = ["ID", "EVENT TYPE", "EVENT ID", "ACCEPTED", "PAYLOAD"];

pub(crate) fn row(message: &Value) -> [String; 5] {
    let [id, event_type, event_id] = cells(message, ["id", "eventType", "eventId"]);
    [id, event_type, event_id, time(message, "timestamp"), message["payload"].to_string()]
}

async fn show(remote: &Remote, path: &str) -> anyhow::Result<Answer> {
    let mut message = remote.get(path).await?;
    let deliveries = remote.get_all(&format!("{path}/endpoint")).await?;
    let facts = vec![
        ("id", cell(&message, "id")),
        ("event type", cell(&message, "eventType")),
        ("event id", cell(&message, "eventId")),
        ("channels", cell(&message, "channels")),
        ("tags", cell(&message, "tags")),
        ("accepted", time(&message, "timestamp")),
        ("deliver at", time(&message, "deliverAt")),
        ("payload", one_line(&message["payload"].to_string())),
    ];
    let table = Table::new(["ENDPOINT", "STATE", "NEXT ATTEMPT", "URL"], &deliveries, |delivery| {
        [cell(delivery, "id"), delivery_state(delivery), time(delivery, "nextAttempt"), cell(delivery, "url")]
    });
    message["deliveries"] = Value::from(deliveries);
    Ok(Answer::object(message, vec![Part::Facts(facts), Part::Table(table)]))
}

/// The state of a delivery. A failed delivery is out of attempts, thus dead.
pub(crate) fn delivery_state(delivery: &Value) -> String {
    match cell(delivery, "statusText").as_str() {
        "fail" => "dead".to_owned(),
        state if delivery["held"] == true => format!("{state}, held: the endpoint is disabled"),
        state => state.to_owned(),
    }
}

/// The path of a message.
pub(crate) fn path(application: &str, message: &str) -> anyhow::Result<String> {
    Ok(format!("{}/msg/{}", app::path(application)?, named("message", message)?))
}
