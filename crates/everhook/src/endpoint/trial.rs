//! `everhook endpoint test`: one request to a URL before an endpoint has it.

use clap::Args;
use serde_json::{Map, Value};

use crate::app;
use crate::endpoint::chat::add_json;
use crate::fields::Fields;
use crate::output::Answer;
use crate::remote::Remote;
use crate::table::{cell, with_unit};

#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// Id or uid of the application.
    application: String,
    /// URL that gets the request.
    url: String,
    /// Event type of the message [default: everhook.test].
    #[arg(long, value_name = "NAME")]
    event_type: Option<String>,
    /// Payload of the message, as JSON.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
}

impl Trial {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let mut body = Map::new();
        body.add_text("url", Some(self.url));
        body.add_text("eventType", self.event_type);
        add_json(&mut body, "payload", self.payload)?;
        let path = format!("{}/webhook/test", app::path(&self.application)?);
        Ok(shown(remote.post_body(&path, &body).await?))
    }
}

fn shown(tried: Value) -> Answer {
    let request = &tried["request"];
    let headers = request["headers"].as_object().into_iter().flatten();
    let headers = headers.map(|(name, value)| format!("{name}: {}", value.as_str().unwrap_or_default()));
    let facts = vec![
        ("result", cell(&tried, "explanation")),
        ("class", cell(&tried, "class")),
        ("took", with_unit(&tried, "responseDurationMs", "ms")),
        ("reply", cell(&tried, "response")),
        ("request", format!("{} {}", cell(request, "method"), cell(request, "url"))),
        ("headers", headers.collect::<Vec<_>>().join(", ")),
        ("body", cell(request, "body")),
        ("secret", cell(&tried, "secret")),
    ];
    Answer::facts(tried, facts)
}
