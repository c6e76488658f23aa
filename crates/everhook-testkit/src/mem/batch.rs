//! Batches: they record every end of a job, and create announcements in the same transaction.

use everhook_core::batch::{Batch, BatchChange, FailedJob, Resolution, check_selection};
use everhook_core::id::{BatchId, EnvironmentId, JobId, MessageId};
use everhook_core::job::{JobAction, JobState, OperatorCommand};
use everhook_core::limits::BATCH_FAILED_LISTED_MAX;
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, Resolved, announcement, failed_job, steered};
use everhook_store::catalog::Created;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::made::{Made, WithMade};

use crate::mem::append::{append_one, holder, keep_key};
use crate::mem::tables::{JobRow, Tables};
use crate::mem::{MemStore, job};

/// Applies a change of jobs to their batch, and creates the resulting announcement.
pub(super) fn tell(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    (environment, id): (EnvironmentId, BatchId),
    change: BatchChange,
) -> Result<Made, everhook_core::batch::BadChange> {
    let Some(record) = tables.batches.get_mut(&(environment, id)) else { return Ok(Made::default()) };
    let applied = record.batch.apply(change)?;
    record.batch = applied.batch;
    let Some(announce) = applied.announce else { return Ok(Made::default()) };
    let record = record.clone();
    let failed = dead_jobs(tables, environment, id);
    let message = announcement(environment, &record, announce, failed, MessageId(ids.next(now)));
    let appended = message.map(|message| append_one(tables, ids, now, None, message));
    Ok(Made::messages(appended.as_slice()))
}

fn dead_jobs(tables: &Tables, environment: EnvironmentId, batch: BatchId) -> Vec<FailedJob> {
    let of_batch =
        |((env, _), row): &(&(EnvironmentId, JobId), &JobRow)| *env == environment && row.job.batch == Some(batch);
    let mut failed = Vec::new();
    for ((_, id), row) in tables.jobs.iter().filter(of_batch) {
        let record = job::record(tables, environment, *id);
        if record.as_ref().is_some_and(|record| record.state == JobState::Dead) {
            let last = record.and_then(|record| record.last);
            let (note, at) =
                last.map_or_else(Default::default, |last| (last.note, last.started_at.plus(last.duration)));
            failed.push(failed_job(&row.job, &note, at));
        }
    }
    failed.truncate(BATCH_FAILED_LISTED_MAX);
    failed
}

impl MemStore {
    pub(super) fn create_batch_now(
        &self,
        environment: EnvironmentId,
        batch: &BatchRecord,
        key: Option<&DedupKey>,
    ) -> Created<BatchRecord> {
        let (mut tables, now) = self.lock();
        if let Some((key, holder)) = key.and_then(|key| Some((key, holder(&tables, environment, key, now)?))) {
            let known = tables.batches.get(&(environment, BatchId(holder.object))).cloned();
            return match known {
                Some(known) if holder.body == key.body => Created::Repeated(known),
                _ => Created::KeyReused,
            };
        }
        if !tables.has_application(environment, batch.application) {
            return Created::NoParent;
        }
        if let Some(key) = key {
            keep_key(&mut tables, environment, key, batch.id.0, now);
        }
        let batch = BatchRecord { created_at: now, batch: Batch::new(), ..batch.clone() };
        tables.batches.insert((environment, batch.id), batch.clone());
        Created::New(batch)
    }

    pub(super) fn seal_batch_now(&self, environment: EnvironmentId, id: BatchId) -> WithMade<Option<BatchRecord>> {
        let (mut tables, now) = self.lock();
        let told = tell(&mut tables, &self.ids, now, (environment, id), BatchChange::Sealed);
        let made = told.expect("a seal can be repeated");
        made.with(tables.batches.get(&(environment, id)).cloned())
    }

    pub(super) fn resolve_batch_now(
        &self,
        environment: EnvironmentId,
        id: BatchId,
        jobs: &[JobId],
        how: Resolution,
    ) -> Result<WithMade<Resolved>, StoreError> {
        let (mut tables, now) = self.lock();
        if !tables.batches.contains_key(&(environment, id)) {
            return Ok(Made::default().with(Resolved::NoBatch));
        }
        let state = |job: &JobId| {
            let record = job::record(&tables, environment, *job).filter(|record| record.job.batch == Some(id));
            record.map(|record| (*job, record.state))
        };
        let found: Vec<_> = jobs.iter().filter_map(state).collect();
        let selected = match check_selection(jobs, &found) {
            Ok(selected) => selected,
            Err(bad) => return Ok(Made::default().with(Resolved::Bad(bad))),
        };
        let count = u32::try_from(selected.len()).unwrap_or(u32::MAX);
        // The new phase must exist before its first job.
        let made = tell(&mut tables, &self.ids, now, (environment, id), BatchChange::Resolved { jobs: count, how })
            .map_err(|_| StoreError::Corrupt { table: "batch", column: "dead" })?;
        let plan = if how == Resolution::Retried { JobAction::Redrive } else { JobAction::Cancel };
        for job in selected {
            job::carry_out(&mut tables, &self.ids, now, environment, job, plan);
        }
        let record = tables.batches.get(&(environment, id)).cloned();
        Ok(made.with(record.map_or(Resolved::NoBatch, Resolved::Done)))
    }
}

/// Applies an operator's command; adds announcements of the batch to `made`.
pub(super) fn steer(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    environment: EnvironmentId,
    id: JobId,
    command: OperatorCommand,
    made: &mut Made,
) -> Option<JobAction> {
    let record = job::record(tables, environment, id)?;
    let plan = record.state.on(command);
    let change = record.job.batch.zip(steered(record.state, plan));
    let mut tell = |tables: &mut Tables| {
        if let Some((batch, change)) = change {
            *made += self::tell(tables, ids, now, (environment, batch), change).expect("the job was just counted");
        }
    };
    // A retry needs the new phase to be open already. Ended jobs are not listed as failed.
    if plan == JobAction::Redrive {
        tell(tables);
        job::carry_out(tables, ids, now, environment, id, plan);
    } else {
        job::carry_out(tables, ids, now, environment, id, plan);
        tell(tables);
    }
    Some(plan)
}
