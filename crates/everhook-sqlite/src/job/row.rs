//! Decodes rows of jobs.

use everhook_core::id::{BatchId, JobId, SessionId};
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::job::{Job, Priority};
use everhook_core::task::TaskState;
use everhook_core::time::Timestamp;
use everhook_store::job::encoding::{plain, with_extra_json};
use everhook_store::job::{JobAttempt, JobRecord, OpenTask, state_of};
use everhook_store::lease::Holding;
use rusqlite::Row;

use crate::error::Fault;
use crate::rows::{self, Reader};
use crate::sql::read_at;

/// The first columns of the parts of `find_job`.
const OUTPUT: usize = 11;
const LAST: usize = 15;
const OPEN: usize = 26;

/// Decodes the columns of a job, and the time of its acceptance.
pub(crate) fn job(row: &Row<'_>) -> Result<(Job, Timestamp), Fault> {
    let record = Reader::new(row, "job");
    let priority = Priority::new(record.get(4, "priority")?).map_err(|_| record.corrupt("priority"))?;
    let job = Job {
        name: record.get(3, "name")?,
        priority,
        concurrency_key: record.get(5, "concurrency_key")?,
        tags: record.json(6, "tags")?.unwrap_or_default(),
        batch: record.optional_id(7, "batch")?.map(BatchId),
        payload: record.bytes(10, "payload")?,
        ..plain(JobId(record.id(0, "id")?), record.name(1, "queue")?, record.name(2, "kind")?)
    };
    let rest: Option<String> = record.get(8, "rest")?;
    let job = with_extra_json(job, rest.as_deref()).ok_or_else(|| record.corrupt("rest"))?;
    Ok((job, record.time(9, "created_at")?))
}

/// Decodes a row of `find_job`.
pub(crate) fn record(row: &Row<'_>) -> Result<JobRecord, Fault> {
    let (job, created_at) = job(row)?;
    let record = Reader::new(row, "job");
    let last = if record.is_null(LAST)? { None } else { Some(attempt(row, LAST)?) };
    let open = if record.is_null(OPEN)? { None } else { Some(open_task(row)?) };
    Ok(JobRecord {
        job,
        created_at,
        state: state_of(open.map(|open| open.state), last.as_ref().map(|last| last.end)),
        open,
        progress: progress(row)?,
        result: result(row)?,
        last,
    })
}

/// Decodes the columns of an attempt of a job, from column `first` on.
pub(crate) fn attempt(row: &Row<'_>, first: usize) -> Result<JobAttempt, Fault> {
    read_at(row, first)
}

fn open_task(row: &Row<'_>) -> Result<OpenTask, Fault> {
    let record = Reader::new(row, "task");
    let state = record.variant(OPEN, "state", TaskState::from_db)?;
    let holder = match record.optional_id(OPEN + 1, "owner")? {
        Some(owner) => Some(Holding { session: SessionId(owner), since: record.time(OPEN + 2, "leased_at")? }),
        None => None,
    };
    Ok(OpenTask { task: rows::task(row, OPEN + 3)?, state, holder })
}

fn progress(row: &Row<'_>) -> Result<Option<Progress>, Fault> {
    let record = Reader::new(row, "job_output");
    let Some(percent) = record.get::<Option<i64>>(OUTPUT, "progress")? else { return Ok(None) };
    let text: Option<String> = record.get(OUTPUT + 1, "progress_text")?;
    let progress = Progress::new(percent, text.as_deref().unwrap_or_default());
    progress.map(Some).map_err(|_| record.corrupt("progress"))
}

fn result(row: &Row<'_>) -> Result<Option<KeptResult>, Fault> {
    let record = Reader::new(row, "job_output");
    if let Some(whole) = record.bytes(OUTPUT + 2, "result")? {
        return Ok(Some(KeptResult::Whole(whole)));
    }
    let Some(bytes) = record.get::<Option<i64>>(OUTPUT + 3, "result_bytes")? else { return Ok(None) };
    let bytes = usize::try_from(bytes).map_err(|_| record.corrupt("result_bytes"))?;
    Ok(Some(KeptResult::TooLarge { bytes }))
}
