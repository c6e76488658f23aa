//! Jobs as they are shown.

use everhook_core::id::{EnvironmentId, ID_BYTES, JobId, SessionId};
use everhook_core::job::JobState;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::job::{JobAttempt, JobFilter, JobRecord, job_bytes};
use everhook_store::piece::Piece;
use tokio_postgres::types::ToSql;

use crate::catalog::count;
use crate::error::Fault;
use crate::history;
use crate::job::rows::{attempt_at, record};
use crate::rows;
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn find_job_once(
        &self,
        environment: EnvironmentId,
        id: JobId,
    ) -> Result<Option<JobRecord>, Fault> {
        let found = self.database.read(&sql::FIND_JOB, &[&environment.0, &id.as_bytes().as_slice()]).await?;
        found.first().map(record).transpose()
    }

    pub(crate) async fn list_jobs_once(
        &self,
        environment: EnvironmentId,
        filter: &JobFilter,
    ) -> Result<Piece<JobRecord, JobId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        let batch = filter.batch.as_ref().map(|batch| batch.as_bytes().as_slice());
        let (sql, scan, of): (_, _, Option<&(dyn ToSql + Sync)>) = match filter.state {
            Some(JobState::Dead) => (&sql::LIST_JOB_DEAD, &sql::SCAN_JOB_DEAD, None),
            Some(JobState::Pending | JobState::Leased) => (&sql::LIST_JOB_OPEN, &sql::SCAN_TASK, None),
            _ if batch.is_some() => (&sql::LIST_JOB_BATCH, &sql::SCAN_JOB_BATCH, Some(&batch)),
            Some(JobState::Succeeded | JobState::Cancelled) | None => (&sql::LIST_JOB, &sql::SCAN_JOB, None),
        };
        if filter.is_selective() {
            let skipped = history::scan(filter.scan);
            let mut params: Vec<&(dyn ToSql + Sync)> = vec![&environment.0, &range.above, &range.below];
            params.extend(of);
            params.push(&skipped);
            scanned = self.scan_end(scan, slice.order, &params).await?;
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let (queue, kind, tag) = (
            filter.queue.as_ref().map(|queue| queue.as_str()),
            filter.kind.as_ref().map(|kind| kind.as_str()),
            filter.tag.as_ref().map(|tag| tag.as_str()),
        );
        let before = filter.before.unwrap_or(Timestamp::NEVER).as_micros();
        let after = filter.after.map_or(i64::MIN, Timestamp::as_micros);
        let error = filter.error.as_ref().map(|error| error.as_bytes());
        let state = filter.state.map(JobState::to_db);
        let params: Params<'_> = &[
            &environment.0,
            &range.above,
            &range.below,
            &queue,
            &kind,
            &tag,
            &batch,
            &before,
            &after,
            &error,
            &state,
            &count(slice.limit),
        ];
        let text = sql::directed(sql, slice.order);
        let found = self.database.read_as(sql, &text, params).await?;
        Piece::gather(found.iter().map(record), slice.limit, job_bytes, |record| record.job.id, scanned.map(JobId))
    }

    pub(crate) async fn list_job_attempts_once(
        &self,
        environment: EnvironmentId,
        id: JobId,
        limit: usize,
    ) -> Result<Vec<JobAttempt>, Fault> {
        let id: &[u8; ID_BYTES] = id.as_bytes();
        let params: Params<'_> = &[&environment.0, &id.as_slice(), &count(limit)];
        let found = self.database.read(&sql::LIST_JOB_ATTEMPT, params).await?;
        Ok(found.iter().map(|row| attempt_at(row, 0)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    pub(crate) async fn list_held_once(&self, session: SessionId) -> Result<Vec<Task>, Fault> {
        let found = self.database.read(&sql::LIST_TASK_HELD, &[&session.as_bytes().as_slice()]).await?;
        found.iter().map(rows::task).collect()
    }
}
