//! `everhook delivery`: one message for one endpoint, in any state.

use clap::{Args, Subcommand};
use everhook_core::delivery::DeliveryState;
use serde_json::Value;

use crate::app;
use crate::endpoint::At;
use crate::message::{self, Filter};
use crate::output::Answer;
use crate::remote::{Remote, named, query};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum DeliveryCommand {
    /// List deliveries with their states and reasons, the newest message first.
    #[command(after_help = "Examples:
  everhook delivery list --state pending
  everhook delivery list acme --endpoint ep_2d… --state held")]
    List {
        /// Id or uid of the application [default: all, without ended deliveries].
        application: Option<String>,
        /// Show only deliveries to this endpoint.
        #[arg(long, value_name = "ID")]
        endpoint: Option<String>,
        /// Show only deliveries in this state.
        #[arg(long, value_name = "STATE", value_parser = DeliveryState::ALL.map(DeliveryState::as_str))]
        state: Option<String>,
        /// Show only deliveries whose last attempt has this class, such as timeout or status.
        #[arg(long, value_name = "CLASS")]
        class: Option<String>,
        #[command(flatten)]
        filter: Filter,
        /// Show at most this many deliveries.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Show the delivery of a message to an endpoint, with its state and reason.
    #[command(visible_alias = "get")]
    Show(DeliveryAt),
    /// Make a waiting delivery due now, or redrive a dead one with fresh attempts.
    RetryNow(DeliveryAt),
}

/// The delivery of a message to an endpoint.
#[derive(Debug, Args)]
pub(crate) struct DeliveryAt {
    #[command(flatten)]
    pub(crate) at: At,
    /// Id or event id of the message.
    pub(crate) message: String,
}

impl DeliveryCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            DeliveryCommand::List { application, endpoint, state, class, filter, limit } => {
                let path = application.map(|name| app::path(&name)).transpose()?.unwrap_or_default();
                let endpoint = endpoint.map(|name| named("endpoint", &name)).transpose()?;
                let mut parameters = filter.parameters();
                parameters.push(("endpoint_id", endpoint.map(|name| name.to_string())));
                parameters.push(("state", state));
                parameters.push(("class", class));
                let path = format!("{path}/delivery{}", query(&parameters));
                let found = remote.get_some(&path, limit).await?;
                let heads = ["MESSAGE", "EVENT TYPE", "STATE", "REASON", "NEXT ATTEMPT", "APPLICATION", "ENDPOINT"];
                let row = |delivery: &Value| {
                    let [message, event_type, state] = cells(delivery, ["msgId", "eventType", "state"]);
                    let [application, endpoint] = cells(delivery, ["appId", "endpointId"]);
                    let reason = cell(&delivery["reason"], "kind");
                    [message, event_type, state, reason, time(delivery, "nextAttempt"), application, endpoint]
                };
                let list = Answer::found(found, heads, row);
                Ok(list.if_empty("no deliveries"))
            }
            DeliveryCommand::Show(delivery) => Ok(shown(remote.get(&delivery.path()?).await?)),
            DeliveryCommand::RetryNow(delivery) => {
                let path = delivery.path()?;
                let DeliveryAt { at, message } = delivery;
                let delivery = remote.post(&format!("{path}/retry-now")).await?;
                let text = format!("the delivery of {message} to {} is {}", at.endpoint, cell(&delivery, "state"));
                Ok(Answer::line(delivery, text))
            }
        }
    }
}

fn shown(delivery: Value) -> Answer {
    let (reason, last) = (&delivery["reason"], &delivery["lastAttempt"]);
    let [kind, detail] = cells(reason, ["kind", "detail"]);
    let facts = vec![
        ("message", cell(&delivery, "msgId")),
        ("event type", cell(&delivery, "eventType")),
        ("endpoint", cell(&delivery, "endpointId")),
        ("accepted", time(&delivery, "timestamp")),
        ("state", cell(&delivery, "state")),
        ("reason", if detail.is_empty() { kind } else { format!("{kind}: {detail}") }),
        ("until", time(reason, "until")),
        ("next attempt", time(&delivery, "nextAttempt")),
        ("tries", cell(&delivery, "tries")),
        ("last attempt", time(last, "timestamp")),
        ("ended as", cell(last, "class")),
    ];
    Answer::facts(delivery, facts)
}

impl DeliveryAt {
    pub(crate) fn path(&self) -> anyhow::Result<String> {
        let endpoint = named("endpoint", &self.at.endpoint)?;
        Ok(format!("{}/endpoint/{endpoint}", message::path(&self.at.application, &self.message)?))
    }
}
