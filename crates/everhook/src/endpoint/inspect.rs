//! Commands that show what an endpoint gets: its messages, counts, filters and examples.

use clap::Args;
use everhook_core::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::endpoint::At;
use crate::endpoint::chat::add_json;
use crate::fields::Fields;
use crate::message::Filter;
use crate::output::{Answer, Part, Table};
use crate::remote::{Remote, query};
use crate::table::{cell, cells, time};
use crate::when;

#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    at: At,
    /// Start of the period, such as 2026-05-01T00:00:00Z, or 2h for two hours ago [default: 28 days ago].
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    since: Option<Timestamp>,
    /// End of the period [default: now].
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    until: Option<Timestamp>,
}

impl Stats {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let parameters = [("since", time(self.since)), ("until", time(self.until))];
        let stats = remote.get(&format!("{}/stats{}", self.at.path()?, query(&parameters))).await?;
        let facts = vec![
            ("succeeded", cell(&stats, "success")),
            ("failed", cell(&stats, "fail")),
            ("cancelled", cell(&stats, "canceled")),
            ("pending now", cell(&stats, "pending")),
            ("sending now", cell(&stats, "sending")),
        ];
        let is_capped = stats["capped"] == true;
        Ok(Answer::facts(stats, facts).note_if(is_capped, "only the newest 100,000 attempts are counted"))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Messages {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    filter: Filter,
    /// Show at most this many messages.
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

impl Messages {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let path = format!("{}/msg{}", self.at.path()?, query(&self.filter.parameters()));
        let found = remote.get_some(&path, self.limit).await?;
        let heads = ["ID", "EVENT TYPE", "STATE", "ACCEPTED", "NEXT ATTEMPT"];
        let row = |message: &Value| {
            let [id, event_type, state] = cells(message, ["id", "eventType", "statusText"]);
            [id, event_type, state, time(message, "timestamp"), time(message, "nextAttempt")]
        };
        Ok(Answer::found(found, heads, row))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Example {
    #[command(flatten)]
    at: At,
    /// Event type of the message, such as invoice.paid.
    event_type: String,
    /// Position of the example in the schema, from 0.
    #[arg(long, value_name = "NUMBER")]
    example: Option<u32>,
    /// Payload to send in the place of an example, as JSON.
    #[arg(long, value_name = "JSON", conflicts_with = "example")]
    payload: Option<String>,
}

impl Example {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let mut body = Map::new();
        body.add_text("eventType", Some(self.event_type));
        body.extend(self.example.map(|index| ("exampleIndex".to_owned(), json!(index))));
        add_json(&mut body, "payload", self.payload)?;
        let sent = remote.post_body(&format!("{}/send-example", self.at.path()?), &body).await?;
        let id = cell(&sent, "id");
        Ok(Answer::line(sent, id))
    }
}

#[derive(Debug, Args)]
pub(crate) struct FilterTest {
    #[command(flatten)]
    at: At,
    /// Id or event id of an accepted message.
    #[arg(long, value_name = "ID", conflicts_with_all = ["event_type", "payload", "channels", "tags"])]
    msg: Option<String>,
    /// Event type of a sample message.
    #[arg(long, value_name = "NAME", required_unless_present = "msg")]
    event_type: Option<String>,
    /// Payload of a sample message, as JSON.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Channel of a sample message; repeatable.
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// Tag of a sample message; repeatable.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Expression to test in the place of the endpoint's own, such as 'payload.amount > 100'.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

impl FilterTest {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        let mut body = Map::new();
        body.add_text("msgId", self.msg);
        body.add_text("eventType", self.event_type);
        body.add_text("filter", self.filter);
        body.add_list_or_none("channels", self.channels);
        body.add_list_or_none("tags", self.tags);
        add_json(&mut body, "payload", self.payload)?;
        let tested = remote.post_body(&format!("{}/filter/test", self.at.path()?), &body).await?;
        let passes = if tested["matches"] == true { "the message passes" } else { "the message does not pass" };
        let checks = tested["checks"].as_array().into_iter().flatten();
        let checks = Table::new(["CHECK", "PASSES", "REASON"], checks, |check| {
            let passes = if check["passes"] == true { "yes" } else { "no" };
            [cell(check, "check"), passes.to_owned(), cell(check, "reason")]
        });
        Ok(Answer::object(tested, vec![Part::Line(passes.to_owned()), Part::Table(checks)]))
    }
}
