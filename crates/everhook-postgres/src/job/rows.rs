//! Rows of jobs, their attempts and their queues to values.

use bytes::Bytes;
use everhook_core::id::{AttemptId, BatchId, JobId, SessionId, TaskId};
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::job::{Job, Priority};
use everhook_core::lifecycle::EndState;
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::queue::{Queue, QueueState, Rate, Target};
use everhook_core::task::TaskState;
use everhook_core::time::Timestamp;
use everhook_store::job::form;
use everhook_store::job::{JobAttempt, JobRecord, OpenTask, state_of};
use everhook_store::lease::Holding;
use tokio_postgres::Row;

use crate::error::Fault;
use crate::rows::{self, Reader, TASK_COLUMNS};

/// How many columns a job has in every statement, besides its id.
pub(crate) const JOB_COLUMNS: usize = 9;
/// How many columns an attempt of a job has in every statement.
const ATTEMPT_COLUMNS: usize = 10;

/// Reads a job whose columns begin at `at`; none if they are those of no row.
pub(crate) fn job_at(row: &Row, at: usize, id: JobId) -> Result<Option<Job>, Fault> {
    let mut row = Reader::from(row, "job", at);
    let Some(queue) = row.name_opt("queue")? else { return Ok(None) };
    let kind: Name = row.name("kind")?;
    let job = Job {
        name: row.get("name")?,
        payload: row.get::<Option<&[u8]>>("payload")?.map(Bytes::copy_from_slice),
        priority: {
            let number: i16 = row.get("priority")?;
            Priority::new(number.into()).map_err(|_| row.corrupt("priority"))?
        },
        concurrency_key: row.get("concurrency_key")?,
        tags: row.json_opt("tags")?.unwrap_or_default(),
        batch: row.id_opt("batch")?.map(BatchId),
        ..form::plain(id, queue, kind)
    };
    let rest: Option<&str> = row.get("rest")?;
    form::with_rest(job, rest).map(Some).ok_or_else(|| row.corrupt("rest"))
}

/// Reads a job as it is shown.
pub(crate) fn record(row: &Row) -> Result<JobRecord, Fault> {
    let mut head = Reader::new(row, "job");
    let (id, created_at) = (JobId(head.id("id")?), head.time("created_at")?);
    let job = job_at(row, 2, id)?.ok_or_else(|| head.corrupt("queue"))?;
    let task = 2 + JOB_COLUMNS;
    let open = open(row, task)?;
    let attempt = task + TASK_COLUMNS + 3;
    let last = attempt_at(row, attempt)?;
    let state = state_of(open.map(|open| open.state), last.as_ref().map(|last| last.end));
    let mut output = Reader::from(row, "job_output", attempt + ATTEMPT_COLUMNS);
    let (progress, result) = (progress(&mut output)?, result(&mut output)?);
    Ok(JobRecord { job, created_at, state, open, progress, result, last })
}

fn open(row: &Row, at: usize) -> Result<Option<OpenTask>, Fault> {
    if Reader::from(row, "task", at).get::<Option<i32>>("environment")?.is_none() {
        return Ok(None);
    }
    let task = rows::task_at(row, at)?;
    let mut row = Reader::from(row, "task", at + TASK_COLUMNS);
    let state = row.coded("state", TaskState::from_db)?;
    let (owner, since) = (row.id_opt("owner")?.map(SessionId), row.time("leased_at")?);
    Ok(Some(OpenTask { task, state, holder: owner.map(|session| Holding { session, since }) }))
}

/// Reads an attempt of a job whose columns begin at `at`; none if they are those of no row.
pub(crate) fn attempt_at(row: &Row, at: usize) -> Result<Option<JobAttempt>, Fault> {
    let mut row = Reader::from(row, "job_attempt", at);
    let Some(id) = row.id_opt("id")? else { return Ok(None) };
    Ok(Some(JobAttempt {
        id: AttemptId(id),
        task: TaskId(row.id("task")?),
        epoch: row.unsigned("epoch")?,
        session: SessionId(row.id("session")?),
        class: row.coded("class", Class::from_db)?,
        end: row.coded("end_state", EndState::from_db)?,
        status: row.unsigned("status")?,
        note: Bytes::copy_from_slice(row.get("note")?),
        started_at: row.time("started_at")?,
        duration: row.span("duration_us")?,
    }))
}

fn progress(row: &mut Reader<'_>) -> Result<Option<Progress>, Fault> {
    let (percent, text): (Option<i16>, Option<&str>) = (row.get("progress")?, row.get("progress_text")?);
    let Some(percent) = percent else { return Ok(None) };
    Progress::new(percent.into(), text.unwrap_or_default()).map(Some).map_err(|_| row.corrupt("progress"))
}

fn result(row: &mut Reader<'_>) -> Result<Option<KeptResult>, Fault> {
    let whole: Option<&[u8]> = row.get("result")?;
    let bytes: Option<i32> = row.get("result_bytes")?;
    let too_large = |bytes: i32| KeptResult::TooLarge { bytes: usize::try_from(bytes).unwrap_or(0) };
    Ok(whole.map(|whole| KeptResult::Whole(Bytes::copy_from_slice(whole))).or(bytes.map(too_large)))
}

/// Reads a queue whose columns begin at `at`; none if they are those of no row.
pub(crate) fn queue_at(row: &Row, at: usize) -> Result<Option<Queue>, Fault> {
    let mut row = Reader::from(row, "queue", at);
    let Some(name) = row.name_opt("name")? else { return Ok(None) };
    let mut queue = Queue::new(name);
    queue.state = row.coded("state", QueueState::from_db)?;
    queue.limit = limit(&mut row, "limit_max")?;
    queue.key_limit = limit(&mut row, "key_limit_max")?;
    queue.rate = row.get::<Option<i64>>("rate_us")?.and_then(Rate::from_db);
    let (url, keys): (Option<String>, Option<&str>) = (row.get("target_url")?, row.get("target_keys")?);
    queue.target = match (url, keys) {
        (Some(url), Some(keys)) => {
            Some(Target { url, keys: rows::read_keys(keys).ok_or_else(|| row.corrupt("target_keys"))? })
        }
        _ => None,
    };
    queue.updated_at = row.time("updated_at")?;
    queue.revision = row.get("revision")?;
    Ok(Some(queue))
}

fn limit(row: &mut Reader<'_>, column: &'static str) -> Result<Option<u32>, Fault> {
    let limit: Option<i32> = row.get(column)?;
    limit.map(|limit| u32::try_from(limit).map_err(|_| row.corrupt(column))).transpose()
}

/// Reads a clock, the only column of the only row.
pub(crate) fn now(rows: &[Row]) -> Result<Timestamp, Fault> {
    let row = rows.first().ok_or(Fault::Contended("the clock gave no answer"))?;
    Reader::new(row, "clock").time("now")
}
