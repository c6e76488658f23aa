//! `everhook operational`: endpoints that get the events of Everhook itself, such as failing endpoints and alerts.

use clap::{Args, Subcommand};
use everhook_core::limits::PAGE_MAX;
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::endpoint::chat::add_json;
use crate::endpoint::{header_pairs, state};
use crate::fields::Fields;
use crate::output::{Answer, Part};
use crate::remote::{Remote, named};
use crate::table::{cell, cells, time};

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
    /// Print the secret that the receiver verifies signatures with.
    Secret {
        /// Id or uid of the endpoint.
        endpoint: String,
    },
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

const ENDPOINTS: &str = "/operational-webhook/endpoint";
const HEADS: [&str; 6] = ["ID", "UID", "URL", "STATE", "EVENT TYPES", "CREATED"];

impl OperationalCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            OperationalCommand::List => Ok(Answer::list(remote.get_all(ENDPOINTS, PAGE_MAX).await?, HEADS, row)),
            OperationalCommand::Create(create) => create.send(remote).await,
            OperationalCommand::Show { endpoint } => {
                let found = remote.get(&path(&endpoint)?).await?;
                let facts = facts(&found);
                Ok(Answer::facts(found, facts))
            }
            OperationalCommand::Delete { endpoint, consent } => {
                let path = path(&endpoint)?;
                remote.confirm(consent, &format!("delete the operational endpoint {endpoint}"))?;
                remote.delete(&path).await?;
                Ok(Answer::line(json!({ "deleted": endpoint }), format!("deleted {endpoint}")))
            }
            OperationalCommand::Secret { endpoint } => {
                let secret = remote.get(&format!("{}/secret", path(&endpoint)?)).await?;
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
