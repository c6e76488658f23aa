//! `everhook job enqueue-many`: jobs from a file.

use std::path::Path;

use anyhow::Context;
use everhook_core::limits::JOBS_BULK_MAX;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::exit::{Exit, Failure, usage};
use crate::output::Answer;
use crate::remote::Remote;
use crate::table::cells;

/// JSON body of many jobs. Each keeps its bytes.
#[derive(Serialize)]
struct Jobs<'a> {
    jobs: &'a [&'a RawValue],
}

pub(super) async fn enqueue(remote: &Remote, file: &Path) -> anyhow::Result<Answer> {
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).context("could not read stdin")?,
        _ => std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?,
    };
    let mut jobs: Vec<&RawValue> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |error| usage(format!("line {} is not JSON: {error}", number + 1));
        jobs.push(serde_json::from_str(line).map_err(bad)?);
    }
    let mut enqueued = Vec::new();
    for jobs in jobs.chunks(JOBS_BULK_MAX) {
        let answer = remote.post_body("/job/bulk", &Jobs { jobs }).await;
        let answer = answer.with_context(|| format!("{} jobs were enqueued before this error", enqueued.len()))?;
        enqueued.extend(answer["data"].as_array().cloned().unwrap_or_default());
    }
    if let Some(failed) = enqueued.iter().position(|job| !job["error"].is_null()) {
        let text = format!("job {} of the file was not accepted: {}", failed + 1, enqueued[failed]["error"]);
        return Err(Failure::error(Exit::Failed, text));
    }
    Ok(Answer::list(enqueued, ["ID", "STATE"], |job| cells(job, ["id", "state"])))
}
