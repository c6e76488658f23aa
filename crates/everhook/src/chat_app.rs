//! `everhook chat-app`: the credentials of an environment for direct messages.

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::fields::Fields;
use crate::output::Answer;
use crate::remote::{Remote, named};
use crate::table::{cell, cells};

#[derive(Debug, Subcommand)]
pub(crate) enum ChatAppCommand {
    /// List the chat apps of the environment.
    List,
    /// Create or replace the chat app of a platform. The secret is read from a file.
    #[command(after_help = "Examples:
  everhook chat-app set slack --secret-file slack-bot-token
  everhook chat-app set feishu --client-id cli_a1 --secret-file feishu-secret
  everhook chat-app set teams --client-id 4c… --tenant-id 72… --secret-file teams-secret
  everhook chat-app set dingtalk --client-id ding… --agent-id 123 --secret-file dingtalk-secret")]
    Set(Set),
    /// Write a test message to one person.
    #[command(after_help = "Example:
  everhook chat-app test slack ann@example.com")]
    Test {
        /// Platform: slack, teams, feishu, lark, wecom or dingtalk.
        kind: String,
        /// E-mail address; for dingtalk the phone number.
        address: String,
    },
    /// Delete the chat app of a platform. Its messages go to the rooms of their endpoints.
    Delete {
        /// Platform: slack, teams, feishu, lark, wecom or dingtalk.
        kind: String,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Platform: slack, teams, feishu, lark, wecom or dingtalk.
    kind: String,
    /// App id (feishu, lark), corp id (wecom), app key (dingtalk) or bot id (teams).
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// File with the secret of the app; for slack the token of its bot. Without it, an app that exists keeps its
    /// secret.
    #[arg(long, value_name = "PATH")]
    secret_file: Option<std::path::PathBuf>,
    /// Directory of the organisation, for teams.
    #[arg(long, value_name = "ID")]
    tenant_id: Option<String>,
    /// Number of the app, for wecom and dingtalk.
    #[arg(long, value_name = "NUMBER")]
    agent_id: Option<u64>,
    /// Address in the place of the platform's, for private clouds. EVERHOOK_CHAT_HOSTS must name its host.
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,
}

const HEADS: [&str; 5] = ["KIND", "CLIENT ID", "TENANT ID", "AGENT ID", "API URL"];

impl ChatAppCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            ChatAppCommand::List => {
                let list = Answer::list(remote.get_data("/chat-app").await?, HEADS, row);
                Ok(list.if_empty("no chat apps: `everhook chat-app set` sets one"))
            }
            ChatAppCommand::Set(set) => {
                let path = path(&set.kind)?;
                let stored = remote.put(&path, &set.body()?).await?;
                let text = format!("{} is set: try it with `everhook chat-app test`", cell(&stored, "kind"));
                Ok(Answer::line(stored, text))
            }
            ChatAppCommand::Test { kind, address } => {
                let path = format!("{}/test", path(&kind)?);
                let tried = remote.post_body(&path, &json!({ "address": address })).await?;
                let text = cell(&tried, "explanation");
                Ok(Answer::line(tried, text))
            }
            ChatAppCommand::Delete { kind, consent } => {
                let path = path(&kind)?;
                remote.confirm(consent, &format!("delete the chat app of {kind}"))?;
                remote.delete(&path).await?;
                Ok(Answer::line(json!({ "deleted": kind }), format!("deleted the chat app of {kind}")))
            }
        }
    }
}

impl Set {
    fn body(&self) -> anyhow::Result<Map<String, Value>> {
        let mut body = Map::new();
        body.add_text("clientId", self.client_id.clone());
        body.add_text("tenantId", self.tenant_id.clone());
        body.add_text("apiUrl", self.api_url.clone());
        if let Some(number) = self.agent_id {
            body.insert("agentId".to_owned(), number.into());
        }
        if let Some(path) = &self.secret_file {
            let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
            body.insert("secret".to_owned(), text.trim().into());
        }
        Ok(body)
    }
}

fn path(kind: &str) -> anyhow::Result<String> {
    Ok(format!("/chat-app/{}", named("platform", kind)?))
}

fn row(app: &Value) -> [String; 5] {
    cells(app, ["kind", "clientId", "tenantId", "agentId", "apiUrl"])
}
