//! Jobs as users see them.

use everhook_core::id::{BatchId, EnvironmentId, JobId, SessionId};
use everhook_core::job::JobState;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::job::{JobFilter, JobRecord, job_bytes};
use everhook_store::piece::{Piece, skipped};
use everhook_store::sql::shared::{JobScan, ScanJob, ScanJobBatch, ScanJobDead, ScanTask};
use everhook_store::{fields, statement};

use crate::error::Fault;
use crate::store::PostgresStore;

fields! {
    /// The filter of a list of jobs.
    JobSearch<'a> {
        environment: EnvironmentId,
        above: &'a [u8],
        below: &'a [u8],
        queue: Option<&'a str>,
        kind: Option<&'a str>,
        tag: Option<&'a str>,
        batch: Option<BatchId>,
        before: Timestamp,
        after: Timestamp,
        error: Option<&'a [u8]>,
        state: Option<JobState>,
        limit: usize,
        order: Order,
    }
}

statement! {
    pub(crate) FindJob = "find_job" { environment: EnvironmentId, id: JobId } -> Option<JobRecord>;
    ListJob<'a> = "list_job" { search: JobSearch<'a> } -> Vec<JobRecord>;
    ListJobBatch<'a> = "list_job_batch" { search: JobSearch<'a> } -> Vec<JobRecord>;
    ListJobOpen<'a> = "list_job_open" { search: JobSearch<'a> } -> Vec<JobRecord>;
    ListJobDead<'a> = "list_job_dead" { search: JobSearch<'a> } -> Vec<JobRecord>;
    ListTaskHeld = "list_task_held" { owner: SessionId } -> Vec<Task>;
}

impl PostgresStore {
    pub(crate) async fn find_job_once(
        &self,
        environment: EnvironmentId,
        id: JobId,
    ) -> Result<Option<JobRecord>, Fault> {
        self.database.read(FindJob { environment, id }).await
    }

    pub(crate) async fn list_jobs_once(
        &self,
        environment: EnvironmentId,
        filter: &JobFilter,
    ) -> Result<Piece<JobRecord, JobId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        let database = &self.database;
        if filter.is_selective() {
            let (above, below) = (range.above.as_slice(), range.below.as_slice());
            let scan = JobScan { environment, above, below, skipped: skipped(filter.scan), order: slice.order };
            scanned = match (filter.state, filter.batch) {
                (Some(JobState::Dead), _) => database.read(ScanJobDead { scan }).await?,
                (Some(JobState::Pending | JobState::Leased), _) => database.read(ScanTask { scan }).await?,
                (_, Some(batch)) => database.read(ScanJobBatch { scan, batch }).await?,
                (_, None) => database.read(ScanJob { scan }).await?,
            };
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let search = JobSearch {
            environment,
            above: &range.above,
            below: &range.below,
            queue: filter.queue.as_ref().map(|queue| queue.as_str()),
            kind: filter.kind.as_ref().map(|kind| kind.as_str()),
            tag: filter.tag.as_ref().map(|tag| tag.as_str()),
            batch: filter.batch,
            before: filter.before.unwrap_or(Timestamp::NEVER),
            after: filter.after.unwrap_or(Timestamp::from_micros(i64::MIN)),
            error: filter.error.as_ref().map(|error| error.as_bytes()),
            state: filter.state,
            limit: slice.limit,
            order: slice.order,
        };
        let found = match filter.state {
            Some(JobState::Dead) => database.read(ListJobDead { search }).await?,
            Some(JobState::Pending | JobState::Leased) => database.read(ListJobOpen { search }).await?,
            _ if filter.batch.is_some() => database.read(ListJobBatch { search }).await?,
            Some(JobState::Succeeded | JobState::Cancelled) | None => database.read(ListJob { search }).await?,
        };
        let found = found.into_iter().map(Ok);
        Piece::gather(found, slice.limit, job_bytes, |record| record.job.id, scanned.map(JobId))
    }

    pub(crate) async fn list_held_once(&self, session: SessionId) -> Result<Vec<Task>, Fault> {
        self.database.read(ListTaskHeld { owner: session }).await
    }
}
