//! Jobs in lists and alone.

use serde_json::Value;

use crate::output::{Answer, Part, Table};
use crate::remote::{Remote, named};
use crate::table::{cell, cells, one_line, time, with_unit};

pub(super) async fn list(remote: &Remote, path: &str, limit: usize) -> anyhow::Result<Answer> {
    let found = remote.get_some(path, limit).await?;
    let heads = ["ID", "QUEUE", "KIND", "STATE", "CREATED", "DUE", "NAME", "ERROR"];
    let row = |job: &Value| {
        let [id, queue, kind, state, name, error] = cells(job, ["id", "queue", "kind", "state", "name", "error"]);
        [id, queue, kind, state, time(job, "createdAt"), time(job, "runAt"), name, error]
    };
    let list = Answer::found(found, heads, row);
    Ok(list.if_empty("no jobs: `everhook job enqueue` creates one"))
}

pub(super) async fn show(remote: &Remote, id: &str) -> anyhow::Result<Answer> {
    let job = remote.get(&format!("/job/{}", named("job", id)?)).await?;
    let (progress, held) = (&job["progress"], &job["heldBy"]);
    let percent = progress["percent"].as_u64();
    let facts = vec![
        ("id", cell(&job, "id")),
        ("name", cell(&job, "name")),
        ("queue", cell(&job, "queue")),
        ("kind", cell(&job, "kind")),
        ("state", if job["cancelRequested"] == true { "leased, cancel requested".into() } else { cell(&job, "state") }),
        ("held by", cells(held, ["workerId", "name"]).join(" ").trim().to_owned()),
        ("tries", format!("{} of {}", cell(&job, "tries"), cell(&job, "maxAttempts")).trim_start().to_owned()),
        ("priority", cell(&job, "priority")),
        ("created", time(&job, "createdAt")),
        ("due", time(&job, "runAt")),
        ("ended", time(&job, "endedAt")),
        ("timeout", with_unit(&job, "timeoutSeconds", "s")),
        ("batch", cell(&job, "batchId")),
        ("schedule", cell(&job, "scheduleId")),
        ("unique key", cell(&job, "uniqueKey")),
        ("concurrency key", cell(&job, "concurrencyKey")),
        ("tags", cell(&job, "tags")),
        ("progress", percent.map_or_else(String::new, |percent| format!("{percent} % {}", cell(progress, "text")))),
        ("error", cell(&job, "error")),
        ("payload", one_line(&job["payload"].to_string())),
        ("result", job.get("result").map_or_else(String::new, |result| one_line(&result.to_string()))),
    ];
    let (attempts, log) = attempts(&job);
    Ok(Answer::object(job, vec![Part::Facts(facts), Part::Table(attempts), Part::Table(log)]))
}

/// Returns the attempts of a job, and the lines that they logged.
fn attempts(job: &Value) -> (Table, Table) {
    let attempts = || job["attempts"].as_array().into_iter().flatten();
    let table = Table::new(["ATTEMPT", "STARTED", "TOOK", "ENDED AS", "THEN", "ERROR"], attempts(), |attempt| {
        let [id, class, state, error] = cells(attempt, ["id", "class", "state", "error"]);
        [id, time(attempt, "startedAt"), with_unit(attempt, "durationMs", "ms"), class, state, error]
    });
    let lines = attempts().flat_map(|attempt| {
        let lines = attempt["log"].as_array().into_iter().flatten();
        lines.map(|line| serde_json::json!({ "attempt": attempt["id"], "line": line }))
    });
    let lines: Vec<Value> = lines.collect();
    (table, Table::new(["LOG OF", "LINE"], &lines, |line| cells(line, ["attempt", "line"])))
}
