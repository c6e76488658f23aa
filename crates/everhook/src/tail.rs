//! `everhook tail`: shows new messages of an application, or new attempts to one of its endpoints, as they come.
//!
//! The command polls the list. Rows may be committed a little out of order, so each poll reads some time before the
//! latest row again and leaves out the rows that were already shown.

use std::collections::VecDeque;
use std::time::Duration;

use clap::Args;
use everhook_core::time::Timestamp;
use serde_json::Value;

use crate::app;
use crate::attempt::{reply, row};
use crate::cli::print;
use crate::output::{Format, Paint, csv, wants_colour, write_out};
use crate::plain::plain_line;
use crate::remote::{Remote, named, query};
use crate::table::{cell, cells, one_line, time};
use crate::when;

/// Time before the latest row that every poll reads again.
const OVERLAP: Duration = Duration::from_secs(10);
/// Ids of rows that were shown. Older ones are outside the overlap.
const SHOWN_MAX: usize = 20_000;
/// Rows that one poll reads at most.
const POLL_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Id or uid of the application.
    application: String,
    /// Show the attempts to this endpoint instead of messages.
    #[arg(long, value_name = "ID or UID")]
    endpoint: Option<String>,
    /// Show only failed attempts.
    #[arg(long, requires = "endpoint")]
    failed: bool,
    /// Show only this event type; repeatable.
    #[arg(long = "event-type", value_name = "NAME")]
    event_types: Vec<String>,
    /// Show only messages with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Begin at this time, such as 10m for ten minutes ago [default: now].
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    since: Option<Timestamp>,
    /// Time between two polls.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = when::span)]
    interval: Duration,
    /// End after this many rows.
    #[arg(long, value_name = "COUNT")]
    count: Option<usize>,
}

impl TailArgs {
    /// Shows rows until the process is interrupted, or until enough rows were shown.
    pub(crate) async fn follow(self, remote: &Remote, format: Format) -> anyhow::Result<()> {
        tokio::select! {
            ended = self.poll(remote, format) => ended,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }

    async fn poll(&self, remote: &Remote, format: Format) -> anyhow::Result<()> {
        if format == Format::Csv {
            print(&csv([self.heads().iter().map(|head| (*head).to_owned()).collect()]))?;
        }
        let mut seen = Seen::since(self.since.unwrap_or_else(when::now));
        let mut left = self.count.unwrap_or(usize::MAX);
        while left > 0 {
            let mut rows = remote.get_some(&self.path(seen.from)?, POLL_MAX).await?.items;
            rows.reverse();
            for row in rows.iter().filter(|row| seen.is_new(row)).take(left).collect::<Vec<_>>() {
                self.show(row, format)?;
                left -= 1;
            }
            if left > 0 {
                tokio::time::sleep(self.interval).await;
            }
        }
        Ok(())
    }

    fn path(&self, from: Timestamp) -> anyhow::Result<String> {
        let mut parameters = vec![("after", Some(from.to_string())), ("tag", self.tag.clone())];
        parameters.extend(self.event_types.iter().map(|name| ("event_types", Some(name.clone()))));
        let application = app::path(&self.application)?;
        let Some(endpoint) = &self.endpoint else { return Ok(format!("{application}/msg{}", query(&parameters))) };
        parameters.push(("status", self.failed.then(|| "2".to_owned())));
        Ok(format!("{application}/attempt/endpoint/{}{}", named("endpoint", endpoint)?, query(&parameters)))
    }

    fn heads(&self) -> &'static [&'static str] {
        match self.endpoint {
            Some(_) => &["id", "started", "state", "status", "ended_as", "took", "message", "endpoint"],
            None => &["id", "event_type", "event_id", "accepted", "payload"],
        }
    }

    fn show(&self, item: &Value, format: Format) -> anyhow::Result<()> {
        match (format, &self.endpoint) {
            (Format::Json, _) => print(&format!("{item}\n")),
            (Format::Csv, Some(_)) => write_out(&csv([row(item).into()])),
            (Format::Csv, None) => {
                let [id, event_type, event_id] = cells(item, ["id", "eventType", "eventId"]);
                write_out(&csv([vec![id, event_type, event_id, time(item, "timestamp"), item["payload"].to_string()]]))
            }
            (Format::Text, Some(_)) => {
                let state = Paint { is_on: wants_colour() }.state(&plain_line(&cell(item, "statusText")));
                let [message, class] = cells(item, ["msgId", "class"]);
                let rest = format!("{} {class}  {}", reply(item), one_line(&cell(item, "response")));
                write_out(&format!(
                    "{}  {}  {state}  {}\n",
                    time(item, "timestamp"),
                    plain_line(&message),
                    plain_line(rest.trim())
                ))
            }
            (Format::Text, None) => {
                let [id, event_type] = cells(item, ["id", "eventType"]);
                let payload = one_line(&item["payload"].to_string());
                let line = format!("{}  {id}  {event_type}  {payload}", time(item, "timestamp"));
                write_out(&format!("{}\n", plain_line(&line)))
            }
        }
    }
}

/// Rows that were already shown.
struct Seen {
    /// Start of the next poll.
    from: Timestamp,
    /// Rows before this time are not shown.
    begin: Timestamp,
    ids: VecDeque<String>,
}

impl Seen {
    fn since(begin: Timestamp) -> Seen {
        Seen { from: begin, begin, ids: VecDeque::new() }
    }

    /// Whether the row is new. Marks it as shown.
    fn is_new(&mut self, row: &Value) -> bool {
        let id = cell(row, "id");
        if self.ids.contains(&id) {
            return false;
        }
        if self.ids.len() == SHOWN_MAX {
            self.ids.pop_front();
        }
        self.ids.push_back(id);
        if let Ok(at) = cell(row, "timestamp").parse::<Timestamp>() {
            self.from = self.from.max(at.minus(OVERLAP)).max(self.begin);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_shown_once_and_a_late_one_is_not_lost() {
        let at = |second: u32| format!("2026-05-04T12:00:{second:02}.000000Z");
        let row = |id: &str, second| json!({ "id": id, "timestamp": at(second) });
        let mut seen = Seen::since(at(0).parse().unwrap());
        assert!(seen.is_new(&row("b", 5)));
        assert_eq!(seen.from, at(0).parse().unwrap(), "not before the beginning");
        assert!(seen.is_new(&row("c", 30)) && !seen.is_new(&row("b", 5)));
        assert_eq!(seen.from, at(20).parse().unwrap());
        assert!(seen.is_new(&row("a", 22)), "committed late");
        assert_eq!(seen.from, at(20).parse().unwrap());
    }
}
