//! Commands about many messages.

use std::path::Path;

use anyhow::Context;
use everhook_core::limits::MESSAGE_BATCH_MAX;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::app;
use crate::bulk::BulkOptions;
use crate::confirm::Consent;
use crate::exit::{Exit, Failure, usage};
use crate::message::Filter;
use crate::output::Answer;
use crate::remote::{Remote, query};
use crate::table::{cell, cells, time};

/// Messages whose payloads one request erases.
const EXPUNGE_MAX: usize = 250;
/// Bytes of one request. The server takes 1 MiB.
const REQUEST_BYTES_MAX: usize = 900_000;

/// JSON body of many messages. Each keeps its bytes.
#[derive(Serialize)]
struct Batch<'a> {
    messages: Vec<&'a RawValue>,
}

/// Sends the messages of a file, one JSON object per line.
pub(super) async fn send(remote: &Remote, application: &str, file: &Path) -> anyhow::Result<Answer> {
    let path = format!("{}/msg/batch", app::path(application)?);
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).context("could not read stdin")?,
        _ => std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?,
    };
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = number + 1;
        let message: &RawValue =
            serde_json::from_str(line).map_err(|error| usage(format!("line {number} is not JSON: {error}")))?;
        lines.push((number, message));
    }
    let mut sent = Vec::new();
    while sent.len() < lines.len() {
        let rest = &lines[sent.len()..];
        let part = &rest[..part_of(rest)];
        let body = Batch { messages: part.iter().map(|(_, message)| *message).collect() };
        let answer = remote.post_body(&path, &body).await.with_context(|| {
            format!("{} messages were sent; the request with line {} and later failed", sent.len(), part[0].0)
        })?;
        let results = answer["data"].as_array().cloned().unwrap_or_default();
        for (result, (number, _)) in results.iter().zip(part) {
            if !result["error"].is_null() {
                let detail = &result["error"];
                let text = format!("line {number} was not accepted, and other lines of its request were: {detail}");
                return Err(Failure::error(Exit::Failed, text));
            }
        }
        if results.len() != part.len() {
            return Err(Failure::error(Exit::Failed, "the server did not answer for every message"));
        }
        sent.extend(results);
    }
    Ok(Answer::list(sent, ["ID", "EXISTING"], |message| {
        let existing = if message["existing"] == true { "yes" } else { "no" };
        [cell(message, "id"), existing.to_owned()]
    }))
}

/// The number of lines that fit one request; at least one.
fn part_of(lines: &[(usize, &RawValue)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, message): &&(usize, &RawValue)| {
        bytes += message.get().len() + 1;
        bytes <= REQUEST_BYTES_MAX
    };
    lines.iter().take(MESSAGE_BATCH_MAX).take_while(fits).count().max(1)
}

pub(super) async fn precheck(
    remote: &Remote,
    application: &str,
    event_type: &str,
    channels: Vec<String>,
) -> anyhow::Result<Answer> {
    let channels = (!channels.is_empty()).then_some(channels);
    let body = json!({ "eventType": event_type, "channels": channels });
    let found = remote.post_body(&format!("{}/msg/precheck/active", app::path(application)?), &body).await?;
    let text = if found["active"] == true { "an endpoint would get it" } else { "no endpoint would get it" };
    Ok(Answer::line(found, text))
}

pub(super) async fn list_all(remote: &Remote, filter: &Filter, limit: usize) -> anyhow::Result<Answer> {
    let found = remote.get_some(&format!("/message{}", query(&filter.parameters())), limit).await?;
    let row = |message: &Value| {
        let [id, event_type, event_id, application] = cells(message, ["id", "eventType", "eventId", "appName"]);
        [id, event_type, event_id, time(message, "timestamp"), application]
    };
    let heads = ["ID", "EVENT TYPE", "EVENT ID", "ACCEPTED", "APPLICATION"];
    let list = Answer::found(found, heads, row);
    Ok(list.if_empty("no messages: `everhook msg send` sends one"))
}

pub(super) async fn expunge(
    remote: &Remote,
    application: &str,
    messages: &[String],
    consent: Consent,
) -> anyhow::Result<Answer> {
    let path = format!("{}/msg/bulk-expunge", app::path(application)?);
    remote.confirm(consent, &format!("erase the payloads of {} messages", messages.len()))?;
    let mut results = Map::new();
    for ids in messages.chunks(EXPUNGE_MAX) {
        let mut answer = remote.post_body(&path, &json!({ "ids": ids })).await?;
        if let Value::Object(part) = answer["results"].take() {
            results.extend(part);
        }
    }
    let missing: Vec<&String> = results.iter().filter(|(_, result)| *result != "expunged").map(|(id, _)| id).collect();
    if let [first, ..] = missing.as_slice() {
        let text = format!("{} messages were not found, among them {first}; the others are erased", missing.len());
        return Err(Failure::error(Exit::NotFound, text));
    }
    let text = format!("erased the payloads of {} messages", results.len());
    Ok(Answer::line(json!({ "results": results }), text))
}

pub(super) async fn expunge_all(
    remote: &Remote,
    application: &str,
    bulk: BulkOptions,
    consent: Consent,
) -> anyhow::Result<Answer> {
    let path = format!("{}/msg/expunge-all-contents", app::path(application)?);
    if !bulk.is_dry_run() {
        remote.confirm(consent, &format!("erase the payloads of all messages of application {application}"))?;
    }
    bulk.start(remote, &path, Map::new()).await
}
