//! Finds jobs, their attempts, and the jobs of a session.

use everhook_core::id::{BatchId, EnvironmentId, Id, JobId, SessionId};
use everhook_core::job::{Job, JobState};
use everhook_core::name::Name;
use everhook_core::task::{Task, TaskKey};
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::job::{JobFilter, JobRecord, job_bytes};
use everhook_store::piece::{IdRange, Piece, after, before};
use everhook_store::sql::shared::{ScanJob, ScanJobBatch, ScanJobDead, ScanTask};
use everhook_store::{fields, statement};

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::{run, stream};

fields! {
    /// The ids of one list.
    JobRange<'a> { environment: EnvironmentId, above: &'a [u8], below: &'a [u8], order: Order }
}

statement! {
    FindJob = ["find_job", "last_attempt"] { environment: EnvironmentId, id: JobId, has_payload: bool }
        -> Option<JobRecord>;
    FindJobRecord = "find_job_record" { environment: EnvironmentId, id: JobId } -> Option<Job>;
    ListJob<'a> = "list_job" {
        range: JobRange<'a>, before: Timestamp, after: Timestamp, queue: Option<&'a Name>, kind: Option<&'a Name>,
        tag: Option<&'a Name>,
    } -> Vec<JobId>;
    ListJobBatch<'a> = "list_job_batch" { range: JobRange<'a>, batch: BatchId } -> Vec<JobId>;
    ListJobOpen<'a> = "list_job_open" { range: JobRange<'a> } -> Vec<JobId>;
    ListJobLeased<'a> = "list_job_leased" { range: JobRange<'a> } -> Vec<JobId>;
    ListJobDead<'a> = "list_job_dead" { range: JobRange<'a> } -> Vec<JobId>;
    ListTaskHeld = "list_task_held" { owner: SessionId } -> Vec<Task>;
}

/// Finds a job as users see it.
pub(crate) fn find(conn: &Connection, environment: EnvironmentId, id: JobId) -> Result<Option<JobRecord>, Fault> {
    run(conn, FindJob { environment, id, has_payload: true })
}

/// Finds a job as users see it, without its payload.
pub(crate) fn find_bare(conn: &Connection, environment: EnvironmentId, id: JobId) -> Result<Option<JobRecord>, Fault> {
    run(conn, FindJob { environment, id, has_payload: false })
}

/// Finds the job of a task for its holder; none if it was pruned.
pub(crate) fn find_record(conn: &Connection, task: &TaskKey) -> Result<Option<Job>, Fault> {
    run(conn, FindJobRecord { environment: task.environment, id: JobId(task.subject) })
}

/// Lists jobs: the most selective index yields candidates, and each is then read and compared with the filter. The
/// connection stays on one snapshot meanwhile.
pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    filter: &JobFilter,
) -> Result<Piece<JobRecord, JobId>, Fault> {
    let (order, scanned) = (filter.slice.order, scanned(conn, environment, filter)?);
    let IdRange { above, below } = filter.range().until(scanned, order);
    let range = JobRange { environment, above: &above, below: &below, order };
    let gather = |ids: &mut dyn Iterator<Item = Result<JobId, Fault>>| {
        let found = ids.filter_map(|id| match id.and_then(|id| find_bare(conn, environment, id)) {
            Ok(found) => found.filter(|record| filter.wants(record)).map(Ok),
            Err(fault) => Some(Err(fault)),
        });
        Piece::gather(found, filter.slice.limit, job_bytes, |record| record.job.id, scanned.map(JobId))
    };
    match (filter.state, filter.batch) {
        (Some(JobState::Dead), _) => stream(conn, ListJobDead { range }, gather),
        (Some(JobState::Leased), _) => stream(conn, ListJobLeased { range }, gather),
        (_, Some(batch)) => stream(conn, ListJobBatch { range, batch }, gather),
        (Some(JobState::Pending), None) => stream(conn, ListJobOpen { range }, gather),
        (None | Some(JobState::Succeeded | JobState::Cancelled), None) => {
            let (before, after) = (before(filter.before), after(filter.after));
            let (queue, kind, tag) = (filter.queue.as_ref(), filter.kind.as_ref(), filter.tag.as_ref());
            stream(conn, ListJob { range, before, after, queue, kind, tag }, gather)
        }
    }
}

/// Returns the last id that a search reads; none if every candidate belongs to the list, or if there are fewer.
fn scanned(conn: &Connection, environment: EnvironmentId, filter: &JobFilter) -> Result<Option<Id>, Fault> {
    if !filter.is_selective() {
        return Ok(None);
    }
    let range = filter.range();
    let scan = range.scan(filter.scan, filter.slice.order);
    match (filter.state, filter.batch) {
        (Some(JobState::Dead), _) => run(conn, ScanJobDead { environment, scan }),
        // Sessions hold a bounded number of jobs.
        (Some(JobState::Leased), _) => Ok(None),
        (_, Some(batch)) => run(conn, ScanJobBatch { environment, scan, batch }),
        (Some(JobState::Pending), None) => run(conn, ScanTask { environment, scan }),
        (None | Some(JobState::Succeeded | JobState::Cancelled), None) => run(conn, ScanJob { environment, scan }),
    }
}

pub(crate) fn list_held(conn: &Connection, session: SessionId) -> Result<Vec<Task>, Fault> {
    run(conn, ListTaskHeld { owner: session })
}
