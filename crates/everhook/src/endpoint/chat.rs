//! `everhook endpoint chat`: preview and try the text of a chat endpoint.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use crate::app;
use crate::endpoint::At;
use crate::exit::usage;
use crate::fields::Fields;
use crate::output::Answer;
use crate::remote::Remote;
use crate::table::cell;

#[derive(Debug, Subcommand)]
pub(crate) enum ChatCommand {
    /// Show the request that the platform would get. Nothing is sent.
    #[command(after_help = "Examples:
  everhook endpoint chat preview acme ops-room
  everhook endpoint chat preview acme ops-room --msg msg_2d…
  everhook endpoint chat preview acme ops-room --event-type pipeline.failed --payload '{\"stage\": \"build\"}'")]
    Preview(Sample),
    /// Post one message to the room, and explain the platform's answer. Nothing is stored.
    Test(Sample),
}

/// A chat endpoint with a message.
#[derive(Debug, Args)]
pub(crate) struct Sample {
    #[command(flatten)]
    at: At,
    /// Id or event id of an accepted message.
    #[arg(long, value_name = "ID", conflicts_with_all = ["event_type", "payload"])]
    msg: Option<String>,
    /// Event type of a sample message.
    #[arg(long, value_name = "NAME")]
    event_type: Option<String>,
    /// Payload of a sample message, as JSON.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
}

impl ChatCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            ChatCommand::Preview(sample) => {
                let shown = sample.send(remote, "preview").await?;
                let mut text = format!("{:#}", shown["body"]);
                if let Some(error) = shown["templateError"].as_str() {
                    text.push_str(&format!("\nThe template failed, and the default text is shown: {error}"));
                }
                Ok(Answer::line(shown, text))
            }
            ChatCommand::Test(sample) => {
                let tried = sample.send(remote, "test").await?;
                let text = cell(&tried, "explanation");
                Ok(Answer::line(tried, text))
            }
        }
    }
}

impl Sample {
    async fn send(self, remote: &Remote, action: &str) -> anyhow::Result<Value> {
        let mut body = Map::new();
        body.add_text("endpointId", Some(self.at.endpoint));
        body.add_text("msgId", self.msg);
        body.add_text("eventType", self.event_type);
        add_json(&mut body, "payload", self.payload)?;
        remote.post_body(&format!("{}/chat/{action}", app::path(&self.at.application)?), &body).await
    }
}

/// Adds a JSON object.
pub(crate) fn add_json(body: &mut Map<String, Value>, name: &str, given: Option<String>) -> anyhow::Result<()> {
    if let Some(text) = given {
        let value = serde_json::from_str(&text).map_err(|error| usage(format!("invalid JSON in --{name}: {error}")))?;
        body.insert(name.to_owned(), value);
    }
    Ok(())
}
