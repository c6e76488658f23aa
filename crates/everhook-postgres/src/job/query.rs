//! Jobs as users see them.

use everhook_core::id::{BatchId, EnvironmentId, JobId, SessionId};
use everhook_core::job::JobState;
use everhook_core::name::Name;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::job::{JobFilter, JobRecord, job_bytes};
use everhook_store::piece::{Piece, after, before};
use everhook_store::sql::shared::{ScanJob, ScanJobBatch, ScanJobDead, ScanTask};
use everhook_store::{fields, statement};

use crate::error::Fault;
use crate::store::PostgresStore;

fields! {
    /// The filter of a list of jobs.
    JobSearch<'a> {
        environment: EnvironmentId,
        above: &'a [u8],
        below: &'a [u8],
        queue: Option<&'a Name>,
        kind: Option<&'a Name>,
        tag: Option<&'a Name>,
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
    pub(crate) FindJob = ["find_job", "job_found", "job_state"] { environment: EnvironmentId, id: JobId }
        -> Option<JobRecord>;
    ListJob<'a> = ["list_job", "job_found", "job_state", "job_page", "job_filter"] { search: JobSearch<'a> }
        -> Vec<JobRecord>;
    ListJobBatch<'a> = ["list_job_batch", "job_found", "job_state", "job_page", "job_filter"] { search: JobSearch<'a> }
        -> Vec<JobRecord>;
    ListJobOpen<'a> = ["list_job_open", "job_open", "job_state", "job_filter"] { search: JobSearch<'a> }
        -> Vec<JobRecord>;
    ListJobDead<'a> = ["list_job_dead", "job_open", "job_state", "job_filter"] { search: JobSearch<'a> }
        -> Vec<JobRecord>;
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
            let scan = range.scan(filter.scan, slice.order);
            scanned = match (filter.state, filter.batch) {
                (Some(JobState::Dead), _) => database.read(ScanJobDead { environment, scan }).await?,
                (Some(JobState::Pending | JobState::Leased), _) => {
                    database.read(ScanTask { environment, scan }).await?
                }
                (_, Some(batch)) => database.read(ScanJobBatch { environment, scan, batch }).await?,
                (_, None) => database.read(ScanJob { environment, scan }).await?,
            };
            range = range.until(scanned, slice.order);
        }
        let search = JobSearch {
            environment,
            above: &range.above,
            below: &range.below,
            queue: filter.queue.as_ref(),
            kind: filter.kind.as_ref(),
            tag: filter.tag.as_ref(),
            batch: filter.batch,
            before: before(filter.before),
            after: after(filter.after),
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
