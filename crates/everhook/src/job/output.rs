//! Jobs as text for people, and as JSON for programs.

use everhook_core::limits::PAGE_MAX;
use serde_json::Value;

use crate::remote::{Remote, named};
use crate::table::{cell, facts, one_line, seconds, table, time};

pub(super) async fn list(remote: &Remote, path: &str, limit: usize, json: bool) -> anyhow::Result<String> {
    let jobs = remote.get_some(path, PAGE_MAX, limit.max(1)).await?;
    if json {
        return Ok(format!("{:#}\n", Value::from(jobs)));
    }
    let mut rows = vec![["ID", "QUEUE", "KIND", "STATE", "CREATED", "DUE", "NAME", "ERROR"].map(str::to_owned)];
    for job in &jobs {
        let [id, queue, kind, state, name, error] =
            ["id", "queue", "kind", "state", "name", "error"].map(|key| cell(job, key));
        rows.push([id, queue, kind, state, seconds(job, "createdAt"), time(job, "runAt"), name, error]);
    }
    Ok(table(&rows))
}

pub(super) async fn show(remote: &Remote, id: &str, json: bool) -> anyhow::Result<String> {
    let job = remote.get(&format!("/job/{}", named("job", id)?)).await?;
    if json {
        return Ok(format!("{job:#}\n"));
    }
    let progress = &job["progress"];
    let held = &job["heldBy"];
    let mut shown = facts(vec![
        ("id", cell(&job, "id")),
        ("name", cell(&job, "name")),
        ("queue", cell(&job, "queue")),
        ("kind", cell(&job, "kind")),
        ("state", if job["cancelRequested"] == true { "leased, cancel requested".into() } else { cell(&job, "state") }),
        ("held by", format!("{} {}", cell(held, "workerId"), cell(held, "name")).replace(" -", "")),
        ("tries", format!("{} of {}", cell(&job, "tries"), cell(&job, "maxAttempts")).replace("- of ", "of ")),
        ("priority", cell(&job, "priority")),
        ("created", time(&job, "createdAt")),
        ("due", time(&job, "runAt")),
        ("ended", time(&job, "endedAt")),
        ("timeout", format!("{} s", cell(&job, "timeoutSeconds"))),
        ("batch", cell(&job, "batchId")),
        ("schedule", cell(&job, "scheduleId")),
        ("unique key", cell(&job, "uniqueKey")),
        ("concurrency key", cell(&job, "concurrencyKey")),
        ("tags", cell(&job, "tags")),
        (
            "progress",
            progress["percent"]
                .as_u64()
                .map_or_else(String::new, |percent| format!("{percent} % {}", cell(progress, "text"))),
        ),
        ("error", cell(&job, "error")),
        ("payload", one_line(&job["payload"].to_string())),
        ("result", job.get("result").map_or_else(String::new, |result| one_line(&result.to_string()))),
    ]);
    let attempts = job["attempts"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if !attempts.is_empty() {
        shown += "\n";
        shown += &attempts_table(attempts);
    }
    Ok(shown)
}

fn attempts_table(attempts: &[Value]) -> String {
    let mut rows = vec![["ATTEMPT", "STARTED", "TOOK", "ENDED AS", "THEN", "ERROR"].map(str::to_owned)];
    let mut logs = String::new();
    for attempt in attempts {
        let [id, class, state, error] = ["id", "class", "state", "error"].map(|key| cell(attempt, key));
        let took = format!("{} ms", cell(attempt, "durationMs"));
        for line in attempt["log"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            logs += &format!("{id}  {}\n", one_line(line));
        }
        rows.push([id, time(attempt, "startedAt"), took, class, state, error]);
    }
    let attempts = table(&rows);
    if logs.is_empty() { attempts } else { format!("{attempts}\nLOG\n{logs}") }
}
