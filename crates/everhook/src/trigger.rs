//! `everhook trigger`: sends a sample event.

use clap::Args;
use everhook_core::example;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::event_type;
use crate::exit::{Exit, Failure, usage};
use crate::job::raw_json;
use crate::message::{MessageBody, send};
use crate::output::Answer;
use crate::remote::Remote;
use crate::table::cell;

#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    /// Event type of the message, such as invoice.paid.
    event_type: String,
    /// Id or uid of the application [default: the only application].
    #[arg(long, alias = "application", value_name = "ID or UID")]
    app: Option<String>,
    /// Payload, a JSON object [default: the example of the event type, or one that fits its schema].
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
}

impl TriggerArgs {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let application = match self.app {
            Some(application) => application,
            None => only_application(remote).await?,
        };
        let payload = match self.data {
            Some(data) => raw_json(data)?,
            None => sample(remote, &self.event_type).await?,
        };
        send(remote, &application, &MessageBody::plain(self.event_type, payload)).await
    }
}

async fn only_application(remote: &Remote) -> anyhow::Result<String> {
    let found = remote.get_some("/app", 2).await?.items;
    match found.as_slice() {
        [only] => Ok(cell(only, "id")),
        [] => Err(Failure::error(Exit::NotFound, "there is no application: create one with `everhook app create`")),
        _ => Err(usage("there are several applications: choose one with --app")),
    }
}

/// Takes or builds an example from the schema of an event type.
async fn sample(remote: &Remote, name: &str) -> anyhow::Result<Box<RawValue>> {
    let found = remote.get(&event_type::path(name)?).await.map_err(|error| match Failure::exit(&error) {
        Exit::NotFound => error.context(format!("no example of {name}: give a payload with --data")),
        _ => error,
    })?;
    let schemas = Some(&found["schemas"]).filter(|schemas| !schemas.is_null()).map(Value::to_string);
    let payload = example::payload(schemas.as_deref(), 0).map_err(|error| {
        Failure::error(Exit::Failed, format!("no example of {name}: {error}, or give a payload with --data"))
    })?;
    raw_json(payload)
}
