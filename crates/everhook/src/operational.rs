//! `everhook operational`: endpoints that get the events of Everhook itself, such as failing endpoints and alerts.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::endpoint::chat::add_json;
use crate::endpoint::{header_pairs, headers, state};
use crate::exit::usage;
use crate::fields::Fields;
use crate::output::{Answer, Part};
use crate::remote::{Deletion, Remote, named};
use crate::table::{cell, cells, time};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum OperationalCommand {
    /// List the operational endpoints.
    List,
    /// Create an operational endpoint and show it with its signing secret.
    #[command(after_help = "Examples:
  everhook operational create https://ops.example.com/hooks
  everhook operational create https://hooks.slack.com/services/… --kind slack --uid ops-room --event-type alert.triggered")]
    Create(Box<Create>),
    /// Show an operational endpoint.
    Show {
        /// Id or uid of the endpoint.
        endpoint: String,
    },
    /// Delete an operational endpoint.
    Delete {
        /// Id or uid of the endpoint.
        endpoint: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Change fields of an operational endpoint. Omitted fields stay unchanged.
    #[command(after_help = "Examples:
  everhook operational update ops-room --new-url https://ops.example.com/v2
  everhook operational update ops-room --event-type none --disable true")]
    Update {
        /// Id or uid of the endpoint.
        endpoint: String,
        #[command(flatten)]
        changes: Box<Changes>,
    },
    /// Show the headers of an operational endpoint, or replace them.
    #[command(after_help = "Examples:
  everhook operational headers ops-room
  everhook operational headers ops-room --set 'Authorization: Bearer abc'
  everhook operational headers ops-room --set none")]
    Headers {
        /// Id or uid of the endpoint.
        endpoint: String,
        /// Headers of every request, repeatable. They replace all earlier ones; none removes all.
        #[arg(long = "set", value_name = "NAME: VALUE")]
        set: Vec<String>,
    },
    /// Print the secret that the receiver verifies signatures with, or replace it first.
    Secret {
        /// Id or uid of the endpoint.
        endpoint: String,
        /// Replace the secret. The old one keeps signing for the grace period.
        #[arg(long)]
        rotate: bool,
        /// Time for which the old secret keeps signing beside the new one [default: 1d].
        #[arg(long, value_name = "DURATION", value_parser = when::seconds, requires = "rotate")]
        grace: Option<u64>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Changes {
    /// New URL that receives the events.
    #[arg(long, value_name = "URL")]
    new_url: Option<String>,
    /// Your own id of the endpoint, or none.
    #[arg(long, value_name = "UID")]
    uid: Option<String>,
    /// Description for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Event type to receive; repeatable. Replaces earlier ones; none receives all.
    #[arg(long = "event-type", value_name = "NAME")]
    event_types: Vec<String>,
    /// Whether the endpoint receives no events.
    #[arg(long, value_name = "TRUE OR FALSE")]
    disable: Option<bool>,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// URL that receives the events.
    url: String,
    /// Your own id of the endpoint, usable in its place.
    #[arg(long, value_name = "UID")]
    uid: Option<String>,
    /// Description for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Event type to receive, such as alert.triggered; repeatable [default: all].
    #[arg(long = "event-type", value_name = "NAME")]
    event_types: Vec<String>,
    /// Kind: http, slack, discord, teams, google-chat, feishu, lark, dingtalk or wecom.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Text of a chat endpoint, such as '{"language": "zh"}'.
    #[arg(long, value_name = "JSON")]
    chat: Option<String>,
    /// Header of every request, such as 'Authorization: Bearer abc'; repeatable.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

pub(crate) const ENDPOINTS: &str = "/operational-webhook/endpoint";
const HEADS: [&str; 6] = ["ID", "UID", "URL", "STATE", "EVENT TYPES", "CREATED"];

impl OperationalCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            OperationalCommand::List => {
                let list = Answer::list(remote.get_all(ENDPOINTS).await?, HEADS, row);
                Ok(list.if_empty("no operational endpoints: `everhook operational create` creates one"))
            }
            OperationalCommand::Create(create) => create.send(remote).await,
            OperationalCommand::Show { endpoint } => {
                let found = remote.get(&path(&endpoint)?).await?;
                let facts = facts(&found);
                Ok(Answer::facts(found, facts))
            }
            OperationalCommand::Delete { endpoint, consent } => {
                let what = format!("the operational endpoint {endpoint}");
                remote.delete_object(consent, Deletion { path: path(&endpoint)?, name: endpoint, what }).await
            }
            OperationalCommand::Update { endpoint, changes } => changes.send(remote, &path(&endpoint)?).await,
            OperationalCommand::Headers { endpoint, set } => {
                let path = format!("{}/headers", path(&endpoint)?);
                if !set.is_empty() {
                    let set = if set == ["none"] { Vec::new() } else { set };
                    remote.put(&path, &json!({ "headers": header_pairs(&set)? })).await?;
                }
                headers(remote, &path).await
            }
            OperationalCommand::Secret { endpoint, rotate, grace } => {
                let path = format!("{}/secret", path(&endpoint)?);
                if rotate {
                    remote.post_body(&format!("{path}/rotate"), &json!({ "gracePeriodSeconds": grace })).await?;
                }
                let secret = remote.get(&path).await?;
                let text = cell(&secret, "key");
                Ok(Answer::line(secret, text))
            }
        }
    }
}

impl Create {
    async fn send(self, remote: &Remote) -> anyhow::Result<Answer> {
        let mut body = Map::new();
        body.add_text("url", Some(self.url));
        body.add_text("uid", self.uid);
        body.add_text("description", self.description);
        body.add_list_or_none("filterTypes", self.event_types);
        body.add_text("kind", self.kind);
        add_json(&mut body, "chat", self.chat)?;
        body.insert("headers".to_owned(), json!(header_pairs(&self.headers)?));
        let mut created = remote.post_body(ENDPOINTS, &body).await?;
        let secret = remote.get(&format!("{ENDPOINTS}/{}/secret", cell(&created, "id"))).await?;
        created["secret"] = secret["key"].clone();
        let parts = vec![Part::Facts(facts(&created)), Part::Facts(vec![("secret", cell(&created, "secret"))])];
        Ok(Answer::object(created, parts))
    }
}

impl Changes {
    /// The API only replaces whole endpoints, so the other fields are read first.
    async fn send(self, remote: &Remote, path: &str) -> anyhow::Result<Answer> {
        let mut changes = Map::new();
        changes.add_text("url", self.new_url);
        changes.add_text_or_none("uid", self.uid);
        changes.add_text("description", self.description);
        changes.add_list_or_none("eventTypes", self.event_types);
        changes.extend(self.disable.map(|disable| ("disabled".to_owned(), json!(disable))));
        if changes.is_empty() {
            return Err(usage("an option with a new value is required, such as --new-url"));
        }
        let found = remote.get(path).await?;
        if !found["kind"].is_null() && found["kind"] != "http" && !changes.contains_key("url") {
            return Err(usage(
                "the URL of a chat endpoint is a credential that the server does not return: add --new-url",
            ));
        }
        let mut body = Map::new();
        for name in ["url", "uid", "description", "eventTypes", "disabled", "metadata", "throttleRate", "kind"] {
            body.insert(name.to_owned(), found[name].clone());
        }
        body.extend(changes);
        let changed = remote.put(path, &body).await?;
        let facts = facts(&changed);
        Ok(Answer::facts(changed, facts))
    }
}

fn row(endpoint: &Value) -> [String; 6] {
    let [id, uid, url, types] = cells(endpoint, ["id", "uid", "url", "filterTypes"]);
    let types = if types.is_empty() { "all".to_owned() } else { types };
    [id, uid, url, state(endpoint), types, time(endpoint, "createdAt")]
}

fn facts(endpoint: &Value) -> Vec<(&'static str, String)> {
    let [id, uid, url, state, types, created] = row(endpoint);
    vec![
        ("id", id),
        ("uid", uid),
        ("url", url),
        ("kind", cell(endpoint, "kind")),
        ("state", state),
        ("event types", types),
        ("description", cell(endpoint, "description")),
        ("created", created),
    ]
}

fn path(endpoint: &str) -> anyhow::Result<String> {
    Ok(format!("{ENDPOINTS}/{}", named("endpoint", endpoint)?))
}
