//! Finds jobs, their attempts, and the jobs of a session.

use everhook_core::id::{EnvironmentId, Id, JobId, SessionId};
use everhook_core::job::JobState;
use everhook_core::task::Task;
use everhook_store::job::{JobAttempt, JobFilter, JobRecord, job_bytes};
use everhook_store::piece::Piece;
use rusqlite::{ToSql, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::history::time_bounds;
use crate::job::row;
use crate::rows::{self, Reader};
use crate::sql::{directed, limit, scan_end};

const FIND_JOB: &str = include_str!("../../queries/find_job.sql");
const LIST_JOB: &str = include_str!("../../queries/list_job.sql");
const LIST_JOB_BATCH: &str = include_str!("../../queries/list_job_batch.sql");
const LIST_JOB_OPEN: &str = include_str!("../../queries/list_job_open.sql");
const LIST_JOB_LEASED: &str = include_str!("../../queries/list_job_leased.sql");
const LIST_JOB_DEAD: &str = include_str!("../../queries/list_job_dead.sql");
const LIST_JOB_ATTEMPT: &str = include_str!("../../queries/list_job_attempt.sql");
const SCAN_JOB: &str = include_str!("../../queries/scan_job.sql");
const SCAN_JOB_BATCH: &str = include_str!("../../queries/scan_job_batch.sql");
const SCAN_JOB_DEAD: &str = include_str!("../../queries/scan_job_dead.sql");
const SCAN_TASK: &str = include_str!("../../queries/scan_task.sql");
const LIST_TASK_HELD: &str = include_str!("../../queries/list_task_held.sql");

/// Whether the payload is read; lists leave it out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Payload {
    Read,
    Left,
}

/// Finds a job as users see it.
pub(crate) fn find(conn: &Connection, environment: EnvironmentId, id: JobId) -> Result<Option<JobRecord>, Fault> {
    read(conn, environment, id, Payload::Read)
}

/// Finds a job as users see it, without its payload.
pub(crate) fn find_bare(conn: &Connection, environment: EnvironmentId, id: JobId) -> Result<Option<JobRecord>, Fault> {
    read(conn, environment, id, Payload::Left)
}

fn read(
    conn: &Connection,
    environment: EnvironmentId,
    id: JobId,
    payload: Payload,
) -> Result<Option<JobRecord>, Fault> {
    let mut find = conn.prepare_cached(FIND_JOB)?;
    let mut rows = find.query(params![environment.0, id.as_bytes(), payload == Payload::Read])?;
    rows.next()?.map(row::record).transpose()
}

/// Lists jobs: the most selective index yields candidates, and each is then read and compared with the filter. The
/// connection stays on one snapshot meanwhile.
pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    filter: &JobFilter,
) -> Result<Piece<JobRecord, JobId>, Fault> {
    let (slice, scanned) = (&filter.slice, scanned(conn, environment, filter)?);
    let range = filter.range();
    let range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
    let (above, below) = (&range.above, &range.below);
    let (later_than, earlier_than) = time_bounds(filter.after, filter.before);
    let name = |name: &Option<everhook_core::name::Name>| name.as_ref().map(|name| name.as_str().to_owned());
    let (queue, kind, tag) = (name(&filter.queue), name(&filter.kind), name(&filter.tag));
    let batch = filter.batch.map(|batch| batch.as_bytes().to_vec());
    let mut params: Vec<&dyn ToSql> = vec![&environment.0, above, below];
    let sql = match (filter.state, &filter.batch) {
        (Some(JobState::Dead), _) => LIST_JOB_DEAD,
        (Some(JobState::Leased), _) => LIST_JOB_LEASED,
        (_, Some(_)) => {
            params.push(&batch);
            LIST_JOB_BATCH
        }
        (Some(JobState::Pending), None) => LIST_JOB_OPEN,
        (None | Some(JobState::Succeeded | JobState::Cancelled), None) => {
            params.extend([&earlier_than as &dyn ToSql, &later_than, &queue, &kind, &tag]);
            LIST_JOB
        }
    };
    let mut list = conn.prepare_cached(&directed(sql, slice.order))?;
    let candidates = list.query_and_then(params.as_slice(), |row| Reader::new(row, "job").id(0, "id").map(JobId))?;
    let found = candidates.filter_map(|id| match id.and_then(|id| find_bare(conn, environment, id)) {
        Ok(found) => found.filter(|record| filter.wants(record)).map(Ok),
        Err(fault) => Some(Err(fault)),
    });
    Piece::gather(found, slice.limit, job_bytes, |record| record.job.id, scanned.map(JobId))
}

/// Returns the last id that a search reads; none if every candidate belongs to the list, or if there are fewer.
fn scanned(conn: &Connection, environment: EnvironmentId, filter: &JobFilter) -> Result<Option<Id>, Fault> {
    let (range, batch) = (filter.range(), filter.batch.map(|batch| batch.as_bytes().to_vec()));
    let mut params: Vec<&dyn ToSql> = vec![&environment.0, &range.above, &range.below];
    let sql = match (filter.state, &filter.batch) {
        _ if !filter.is_selective() => return Ok(None),
        (Some(JobState::Dead), _) => SCAN_JOB_DEAD,
        // Sessions hold a bounded number of jobs.
        (Some(JobState::Leased), _) => return Ok(None),
        (_, Some(_)) => {
            params.push(&batch);
            SCAN_JOB_BATCH
        }
        (Some(JobState::Pending), None) => SCAN_TASK,
        (None | Some(JobState::Succeeded | JobState::Cancelled), None) => SCAN_JOB,
    };
    scan_end(conn, sql, filter.slice.order, &params, filter.scan)
}

/// Lists the latest attempts of a job, newest first.
pub(crate) fn list_attempts(
    conn: &Connection,
    environment: EnvironmentId,
    id: JobId,
    attempts: usize,
) -> Result<Vec<JobAttempt>, Fault> {
    let mut list = conn.prepare_cached(LIST_JOB_ATTEMPT)?;
    let params = params![environment.0, id.as_bytes(), limit(attempts)];
    list.query_and_then(params, |row| row::attempt(row, 0))?.collect()
}

pub(crate) fn list_held(conn: &Connection, session: SessionId) -> Result<Vec<Task>, Fault> {
    let mut list = conn.prepare_cached(LIST_TASK_HELD)?;
    list.query_and_then([session.as_bytes()], |row| rows::task(row, 0))?.collect()
}
