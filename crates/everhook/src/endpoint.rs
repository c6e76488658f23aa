//! `everhook endpoint`: URLs that receive the messages of an application.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use everhook_core::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::app;
use crate::bulk::{BulkCancel, BulkOptions};
use crate::confirm::Consent;
use crate::endpoint::auth::AuthCommand;
use crate::endpoint::chat::{ChatCommand, add_json};
use crate::exit::usage;
use crate::fields::Fields;
use crate::output::{Answer, Part};
use crate::policy::Level;
use crate::remote::{Deletion, Remote, named};
use crate::table::{cell, cells, pairs, time};
use crate::when;

mod auth;
pub(crate) mod chat;
mod inspect;
mod trial;

#[derive(Debug, Subcommand)]
pub(crate) enum EndpointCommand {
    /// List the endpoints of an application, or of all applications.
    List {
        /// Id or uid of the application [default: all applications].
        application: Option<String>,
        /// Show at most this many endpoints.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Create an endpoint and show it with its signing secret.
    #[command(after_help = "Examples:
  everhook endpoint create acme https://acme.example.com/hooks
  everhook endpoint create acme https://acme.example.com/hooks --event-type invoice.paid --event-type invoice.voided
  everhook endpoint create acme https://acme.example.com/hooks --header 'Authorization: Bearer abc' --disabled
  everhook endpoint create acme https://hooks.slack.com/services/… --kind slack --uid ops-room")]
    Create {
        /// Id or uid of the application.
        application: String,
        /// URL that receives the messages.
        url: String,
        #[command(flatten)]
        fields: EndpointFields,
        /// Signing secret (whsec_…) [default: a new one].
        #[arg(long, value_name = "SECRET")]
        secret: Option<String>,
        /// Header of every request, such as 'Authorization: Bearer abc'; repeatable.
        #[arg(long = "header", value_name = "NAME: VALUE")]
        headers: Vec<String>,
        /// Create it disabled: it gets no messages until it is enabled.
        #[arg(long)]
        disabled: bool,
    },
    /// Send one signed test request to a URL that no endpoint has yet, and show the request and the reply.
    #[command(after_help = "Examples:
  everhook endpoint test acme https://acme.example.com/hooks
  everhook endpoint test acme https://acme.example.com/hooks --event-type invoice.paid --payload '{\"amount\": 5}'")]
    Test(trial::Trial),
    /// Show an endpoint.
    #[command(visible_alias = "get")]
    Show(At),
    /// Change fields of an endpoint. Omitted fields stay unchanged.
    #[command(after_help = "Examples:
  everhook endpoint update acme ep_2d… --new-url https://acme.example.com/v2
  everhook endpoint update acme ep_2d… --event-type none     subscribe to all event types")]
    Update {
        #[command(flatten)]
        at: At,
        /// New URL that receives the messages.
        #[arg(long, value_name = "URL")]
        new_url: Option<String>,
        #[command(flatten)]
        fields: EndpointFields,
    },
    /// Delete an endpoint. Nothing is delivered to it any more.
    Delete {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        consent: Consent,
    },
    /// Enable an endpoint. Its open deliveries continue.
    Enable(At),
    /// Disable an endpoint. Its open deliveries wait, and new messages are not delivered to it.
    Disable(At),
    /// Pause an endpoint. New messages are accepted for it, and all its deliveries wait.
    Pause(At),
    /// End the pause of an endpoint. Its deliveries continue.
    Resume(At),
    /// Send messages again whose deliveries to the endpoint failed for good, in a background task.
    #[command(after_help = "Examples:
  everhook endpoint recover acme ep_2d… --since 2d --dry-run
  everhook endpoint recover acme ep_2d… --since 2d --rate 50 --wait")]
    Recover(WindowWork),
    /// Send messages that the endpoint wants and never got, in a background task: it is newer, or was disabled.
    ReplayMissing(WindowWork),
    /// Cancel waiting deliveries to the endpoint, in a background task.
    #[command(after_help = "Examples:
  everhook endpoint cancel acme ep_2d… --since 2d --dry-run
  everhook endpoint cancel acme ep_2d… --since 2d --event-type invoice.paid --yes")]
    Cancel(Box<BulkCancel>),
    /// Count the attempts to an endpoint by result, and its open deliveries.
    Stats(inspect::Stats),
    /// List the messages that went or go to an endpoint with their states, the newest first.
    Messages(inspect::Messages),
    /// Send an example message to this endpoint only, whatever its filters are.
    #[command(after_help = "Example:
  everhook endpoint send-example acme ep_2d… invoice.paid")]
    SendExample(inspect::Example),
    /// Test whether a message passes the filters of an endpoint, and why. Nothing is sent.
    #[command(after_help = "Examples:
  everhook endpoint filter-test acme ep_2d… --msg msg_2d…
  everhook endpoint filter-test acme ep_2d… --event-type invoice.paid --payload '{\"amount\": 5}' \\
    --filter 'payload.amount > 100'")]
    FilterTest(inspect::FilterTest),
    /// Show and set how deliveries to an endpoint authenticate.
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Show or rotate the signing secret of an endpoint.
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Show or set the headers that an endpoint gets with every request.
    #[command(subcommand)]
    Headers(HeadersCommand),
    /// Preview or try the text of a chat endpoint.
    #[command(subcommand)]
    Chat(ChatCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Print the secret that receivers verify signatures with.
    Show(At),
    /// Replace the secret and print the new one. The old one keeps signing for the grace period.
    #[command(after_help = "Examples:
  everhook endpoint secret rotate acme ep_2d…
  everhook endpoint secret rotate acme ep_2d… --grace 1h")]
    Rotate {
        #[command(flatten)]
        at: At,
        /// Time for which the old secret keeps signing beside the new one [default: 1d].
        #[arg(long, value_name = "DURATION", value_parser = when::seconds)]
        grace: Option<u64>,
        /// New secret (whsec_…) [default: a random one].
        #[arg(long, value_name = "SECRET")]
        secret: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HeadersCommand {
    /// Show the headers. Values of sensitive headers are not shown.
    Show(At),
    /// Set and remove headers. Other headers stay unchanged.
    #[command(after_help = "Examples:
  everhook endpoint headers set acme ep_2d… 'Authorization: Bearer abc'
  everhook endpoint headers set acme ep_2d… --remove Authorization")]
    Set {
        #[command(flatten)]
        at: At,
        /// Headers to set, such as 'Authorization: Bearer abc'.
        #[arg(value_name = "NAME: VALUE", required_unless_present = "remove")]
        headers: Vec<String>,
        /// Name of a header to remove; repeatable.
        #[arg(long, value_name = "NAME")]
        remove: Vec<String>,
    },
}

/// An endpoint of an application.
#[derive(Debug, Args)]
pub(crate) struct At {
    /// Id or uid of the application.
    pub(crate) application: String,
    /// Id or uid of the endpoint.
    pub(crate) endpoint: String,
}

/// A window of time.
#[derive(Debug, Args)]
pub(crate) struct Window {
    /// Start of the window, such as 2026-05-01T00:00:00Z, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    since: Timestamp,
    /// End of the window [default: now].
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    until: Option<Timestamp>,
}

impl Window {
    pub(crate) fn add_to(self, body: &mut Map<String, Value>) {
        body.insert("since".to_owned(), json!(self.since));
        body.insert("until".to_owned(), json!(self.until));
    }
}

#[derive(Debug, Args)]
pub(crate) struct WindowWork {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    bulk: BulkOptions,
}

impl WindowWork {
    /// Starts a background task of the endpoint for the window.
    async fn start(self, remote: &Remote, action: &str) -> anyhow::Result<Answer> {
        let mut body = Map::new();
        self.window.add_to(&mut body);
        self.bulk.start(remote, &format!("{}/{action}", self.at.path()?), body).await
    }
}

#[derive(Debug, Args)]
pub(crate) struct EndpointFields {
    /// Your own id of the endpoint, usable in its place, or none.
    #[arg(long, value_name = "UID")]
    uid: Option<String>,
    /// Description for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Event type to receive; repeatable. Replaces earlier ones; none receives all.
    #[arg(long = "event-type", value_name = "NAME")]
    event_types: Vec<String>,
    /// Channel to receive; repeatable. Replaces earlier ones; none receives all.
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// Deliveries per second, or none.
    #[arg(long, value_name = "COUNT")]
    throttle_rate: Option<String>,
    /// Expression that messages must meet, such as 'payload.amount > 100', or none.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Metadata that Everhook stores and never interprets; repeatable. Replaces earlier metadata.
    #[arg(long = "metadata", value_name = "KEY=VALUE")]
    metadata: Vec<String>,
    /// Kind: http, slack, discord, teams, google-chat, feishu, lark, dingtalk or wecom.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Text of a chat endpoint, such as '{"language": "zh", "template": {"title": "{{ payload.name }}"}}'.
    #[arg(long, value_name = "JSON")]
    chat: Option<String>,
}

impl EndpointFields {
    fn add_to(self, body: &mut Map<String, Value>) -> anyhow::Result<()> {
        body.add_text_or_none("uid", self.uid);
        body.add_text("description", self.description);
        body.add_list_or_none("filterTypes", self.event_types);
        body.add_list_or_none("channels", self.channels);
        body.add_number_or_none("throttleRate", self.throttle_rate)?;
        body.add_text_or_none("filter", self.filter);
        body.add_text("kind", self.kind);
        add_json(body, "chat", self.chat)?;
        body.add_pairs("metadata", &self.metadata)
    }
}

impl EndpointCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            EndpointCommand::List { application: Some(application), limit } => list(remote, &application, limit).await,
            EndpointCommand::List { application: None, limit } => list_all(remote, limit).await,
            EndpointCommand::Create { application, url, fields, secret, headers, disabled } => {
                let mut body = Map::new();
                body.add_text("url", Some(url));
                body.add_text("secret", secret);
                body.insert("disabled".to_owned(), Value::from(disabled));
                body.insert("headers".to_owned(), json!(header_pairs(&headers)?));
                fields.add_to(&mut body)?;
                create(remote, &application, body).await
            }
            EndpointCommand::Show(at) => Ok(shown(remote.get(&at.path()?).await?)),
            EndpointCommand::Update { at, new_url, fields } => {
                let mut body = Map::new();
                body.add_text("url", new_url);
                fields.add_to(&mut body)?;
                if body.is_empty() {
                    return Err(usage("an option with a new value is required, such as --new-url"));
                }
                Ok(shown(remote.patch(&at.path()?, &Value::from(body)).await?))
            }
            EndpointCommand::Delete { at, consent } => {
                let what = format!("endpoint {} of {}", at.endpoint, at.application);
                remote.delete_object(consent, Deletion { path: at.path()?, name: at.endpoint, what }).await
            }
            EndpointCommand::Enable(at) => at.set_disabled(remote, false).await,
            EndpointCommand::Disable(at) => at.set_disabled(remote, true).await,
            EndpointCommand::Pause(at) => at.set_paused(remote, true).await,
            EndpointCommand::Resume(at) => at.set_paused(remote, false).await,
            EndpointCommand::Recover(work) => work.start(remote, "recover").await,
            EndpointCommand::ReplayMissing(work) => work.start(remote, "replay-missing").await,
            EndpointCommand::Cancel(cancel) => cancel.ask(remote).await,
            EndpointCommand::Stats(stats) => stats.ask(remote).await,
            EndpointCommand::Messages(messages) => messages.ask(remote).await,
            EndpointCommand::SendExample(example) => example.ask(remote).await,
            EndpointCommand::FilterTest(test) => test.ask(remote).await,
            EndpointCommand::Auth(command) => command.ask(remote).await,
            EndpointCommand::Secret(command) => command.ask(remote).await,
            EndpointCommand::Headers(command) => command.ask(remote).await,
            EndpointCommand::Chat(command) => command.ask(remote).await,
            EndpointCommand::Test(trial) => trial.ask(remote).await,
        }
    }
}

impl At {
    pub(crate) fn path(&self) -> anyhow::Result<String> {
        Ok(format!("{}/endpoint/{}", app::path(&self.application)?, named("endpoint", &self.endpoint)?))
    }

    async fn set_paused(self, remote: &Remote, paused: bool) -> anyhow::Result<Answer> {
        let endpoint = self.endpoint.clone();
        let changes = json!({ "paused": paused.then_some(true) });
        let policy = Level::of_endpoint(self).change(remote, changes).await?;
        let text =
            if paused { "is paused: its deliveries wait" } else { "is not paused itself: its deliveries continue" };
        Ok(Answer::line(policy, format!("{endpoint} {text}")))
    }

    async fn set_disabled(&self, remote: &Remote, disabled: bool) -> anyhow::Result<Answer> {
        let changed = remote.patch(&self.path()?, &json!({ "disabled": disabled })).await?;
        let text = format!("{} is {}", self.endpoint, state(&changed));
        Ok(Answer::line(changed, text))
    }
}

impl SecretCommand {
    async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let secret = match self {
            SecretCommand::Show(at) => remote.get(&format!("{}/secret", at.path()?)).await?,
            SecretCommand::Rotate { at, grace, secret } => {
                let mut body = Map::new();
                body.add_text("key", secret);
                if let Some(grace) = grace {
                    body.insert("gracePeriodSeconds".to_owned(), Value::from(grace));
                }
                remote.post_body(&format!("{}/secret/rotate", at.path()?), &body).await?;
                remote.get(&format!("{}/secret", at.path()?)).await?
            }
        };
        let text = cell(&secret, "key");
        Ok(Answer::line(secret, text))
    }
}

impl HeadersCommand {
    async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let path = match self {
            HeadersCommand::Show(at) => format!("{}/headers", at.path()?),
            HeadersCommand::Set { at, headers, remove } => {
                let path = format!("{}/headers", at.path()?);
                let body = json!({ "headers": header_pairs(&headers)?, "deleteHeaders": remove });
                remote.patch(&path, &body).await?;
                path
            }
        };
        headers(remote, &path).await
    }
}

/// Shows the headers of an endpoint.
pub(crate) async fn headers(remote: &Remote, path: &str) -> anyhow::Result<Answer> {
    let found = remote.get(path).await?;
    let headers = found["headers"].as_object().into_iter().flatten();
    let shown = headers.map(|(name, value)| format!("{name}: {}", value.as_str().unwrap_or_default()));
    let hidden = found["sensitive"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let lines = shown.chain(hidden.map(|name| format!("{name}: (not shown)"))).collect::<Vec<_>>();
    let text = if lines.is_empty() { "no headers".to_owned() } else { lines.join("\n") };
    Ok(Answer::line(found, text))
}

async fn list(remote: &Remote, application: &str, limit: usize) -> anyhow::Result<Answer> {
    let found = remote.get_some(&format!("{}/endpoint", app::path(application)?), limit).await?;
    let row = |endpoint: &Value| {
        let [id, uid, url, types, channels] = cells(endpoint, ["id", "uid", "url", "filterTypes", "channels"]);
        let types = if types.is_empty() { "all".to_owned() } else { types };
        [id, uid, url, state(endpoint), types, channels, time(endpoint, "createdAt")]
    };
    let heads = ["ID", "UID", "URL", "STATE", "EVENT TYPES", "CHANNELS", "CREATED"];
    let list = Answer::found(found, heads, row);
    Ok(list.if_empty("no endpoints: `everhook endpoint create` creates one"))
}

async fn list_all(remote: &Remote, limit: usize) -> anyhow::Result<Answer> {
    let found = remote.get_some("/endpoint", limit).await?;
    let row = |endpoint: &Value| {
        let [id, uid, url, state, application] = cells(endpoint, ["id", "uid", "url", "state", "appName"]);
        [id, uid, url, state, application, time(endpoint, "createdAt")]
    };
    let heads = ["ID", "UID", "URL", "STATE", "APPLICATION", "CREATED"];
    let list = Answer::found(found, heads, row);
    Ok(list.if_empty("no endpoints: `everhook endpoint create` creates one"))
}

async fn create(remote: &Remote, application: &str, body: Map<String, Value>) -> anyhow::Result<Answer> {
    let endpoints = format!("{}/endpoint", app::path(application)?);
    let mut created = remote.post_body(&endpoints, &body).await?;
    let secret = remote.get(&format!("{endpoints}/{}/secret", cell(&created, "id"))).await?;
    created["secret"] = secret["key"].clone();
    let secret = cell(&created, "secret");
    Ok(Answer::object(created.clone(), vec![Part::Facts(facts(&created)), Part::Facts(vec![("secret", secret)])]))
}

fn shown(endpoint: Value) -> Answer {
    let facts = facts(&endpoint);
    Answer::facts(endpoint, facts)
}

fn facts(endpoint: &Value) -> Vec<(&'static str, String)> {
    vec![
        ("id", cell(endpoint, "id")),
        ("uid", cell(endpoint, "uid")),
        ("url", cell(endpoint, "url")),
        ("kind", cell(endpoint, "kind")),
        ("state", state(endpoint)),
        ("description", cell(endpoint, "description")),
        ("event types", cell(endpoint, "filterTypes")),
        ("channels", cell(endpoint, "channels")),
        ("filter", cell(endpoint, "filter")),
        ("throttle rate", cell(endpoint, "throttleRate")),
        ("metadata", pairs(endpoint, "metadata")),
        ("created", time(endpoint, "createdAt")),
        ("changed", time(endpoint, "updatedAt")),
    ]
}

pub(crate) fn state(endpoint: &Value) -> String {
    if endpoint["disabled"] == true { "disabled".to_owned() } else { "enabled".to_owned() }
}

/// Parses headers of the form `Name: value`.
pub(crate) fn header_pairs(texts: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |text: &String| match text.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(usage(format!("invalid header {text:?}: use 'Name: value'"))),
    };
    texts.iter().map(pair).collect()
}
