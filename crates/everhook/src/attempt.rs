//! `everhook attempt`: every try of a delivery.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app;
use crate::confirm::Consent;
use crate::message::{self, Filter};
use crate::output::{Answer, Part};
use crate::remote::{Remote, named, query};
use crate::table::{cell, cells, time, with_unit};

#[derive(Debug, Subcommand)]
pub(crate) enum AttemptCommand {
    /// List the attempts of a message or to an endpoint, the newest first.
    #[command(after_help = "Examples:
  everhook attempt list acme --message msg_2d…
  everhook attempt list acme --endpoint ep_2d… --failed --since 1h
  everhook attempt list acme --endpoint ep_2d… --status-class 500 --csv")]
    List {
        /// Id or uid of the application.
        application: String,
        #[command(flatten)]
        of: AttemptsOf,
        /// Show only failed attempts.
        #[arg(long, conflicts_with = "succeeded")]
        failed: bool,
        /// Show only successful attempts.
        #[arg(long)]
        succeeded: bool,
        /// Show only replies with a status of this hundred, such as 500; 0 means no reply.
        #[arg(long, value_name = "STATUS")]
        status_class: Option<u16>,
        #[command(flatten)]
        filter: Filter,
        /// Show at most this many attempts.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Show an attempt with the reply of the receiver.
    #[command(visible_alias = "get")]
    Show(AttemptAt),
    /// Erase the stored reply of an attempt for ever.
    Expunge {
        #[command(flatten)]
        at: AttemptAt,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AttemptAt {
    /// Id or uid of the application.
    application: String,
    /// Id or event id of the message.
    message: String,
    /// Id of the attempt, such as atmpt_2d….
    attempt: String,
}

/// Selection of attempts. Both options together select the attempts of one delivery.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct AttemptsOf {
    /// List the attempts of this message.
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// List the attempts to this endpoint.
    #[arg(long, value_name = "ID or UID")]
    endpoint: Option<String>,
}

impl AttemptCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            AttemptCommand::List { application, of, failed, succeeded, status_class, filter, limit } => {
                let status = match (failed, succeeded) {
                    (true, _) => Some("2".to_owned()),
                    (_, true) => Some("0".to_owned()),
                    _ => None,
                };
                let mut parameters = filter.parameters();
                parameters.push(("status", status));
                parameters.push(("status_code_class", status_class.map(|class| class.to_string())));
                let path = of.path(&application, parameters)?;
                let found = remote.get_some(&path, limit).await?;
                let list = Answer::found(found, HEADS, row);
                Ok(list.if_empty("no attempts"))
            }
            AttemptCommand::Show(at) => Ok(shown(remote.get(&at.path()?).await?)),
            AttemptCommand::Expunge { at, consent } => {
                let (path, attempt) = (at.path()?, at.attempt);
                remote.confirm(consent, &format!("erase the reply of attempt {attempt}"))?;
                remote.delete(&format!("{path}/content")).await?;
                Ok(Answer::line(json!({ "expunged": attempt }), format!("erased the reply of {attempt}")))
            }
        }
    }
}

impl AttemptAt {
    fn path(&self) -> anyhow::Result<String> {
        let message = message::path(&self.application, &self.message)?;
        Ok(format!("{message}/attempt/{}", named("attempt", &self.attempt)?))
    }
}

impl AttemptsOf {
    fn path(self, application: &str, mut parameters: Vec<(&str, Option<String>)>) -> anyhow::Result<String> {
        let attempts = format!("{}/attempt", app::path(application)?);
        let of = match (self.message, self.endpoint) {
            (Some(message), endpoint) => {
                parameters.push(("endpoint_id", endpoint));
                format!("msg/{}", named("message", &message)?)
            }
            (None, endpoint) => format!("endpoint/{}", named("endpoint", &endpoint.unwrap_or_default())?),
        };
        Ok(format!("{attempts}/{of}{}", query(&parameters)))
    }
}

pub(crate) const HEADS: [&str; 8] = ["ID", "STARTED", "STATE", "STATUS", "ENDED AS", "TOOK", "MESSAGE", "ENDPOINT"];

pub(crate) fn row(attempt: &Value) -> [String; 8] {
    let [id, state, class, message, endpoint] = cells(attempt, ["id", "statusText", "class", "msgId", "endpointId"]);
    let took = with_unit(attempt, "responseDurationMs", "ms");
    [id, time(attempt, "timestamp"), state, reply(attempt), class, took, message, endpoint]
}

/// The status of the reply, if there was one.
pub(crate) fn reply(attempt: &Value) -> String {
    Some(cell(attempt, "responseStatusCode")).filter(|status| status != "0").unwrap_or_default()
}

fn shown(attempt: Value) -> Answer {
    let facts = vec![
        ("id", cell(&attempt, "id")),
        ("message", cell(&attempt, "msgId")),
        ("endpoint", cell(&attempt, "endpointId")),
        ("url", cell(&attempt, "url")),
        ("started", time(&attempt, "timestamp")),
        ("took", with_unit(&attempt, "responseDurationMs", "ms")),
        ("state", cell(&attempt, "statusText")),
        ("ended as", cell(&attempt, "class")),
        ("reply status", reply(&attempt)),
    ];
    let reply = cell(&attempt, "response");
    let reply = if reply.is_empty() { Vec::new() } else { vec![Part::Line(reply)] };
    let parts = std::iter::once(Part::Facts(facts)).chain(reply).collect();
    Answer::object(attempt, parts)
}
