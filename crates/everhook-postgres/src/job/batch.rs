//! Batches inside a transaction: locked, updated with the changes of their jobs, written, and announced.
//!
//! Every transaction that ends a job updates its batch here before it commits. If two nodes end the last two jobs at
//! the same time, the lock makes one of them wait, so that there is only one announcement.

use std::collections::BTreeMap;

use bytes::Bytes;
use everhook_core::batch::{Announcement, BadChange, BatchChange, FailedJob, Intake};
use everhook_core::id::{BatchId, EnvironmentId, MessageId};
use everhook_core::job::Job;
use everhook_core::limits::BATCH_FAILED_LISTED_MAX;
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, announcement, failed_job};
use everhook_store::lease::NewMessage;
use everhook_store::made::{Made, WithMade};
use everhook_store::{columns, statement};

use crate::columns::Keys;
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    Standings of Standing {
        environment: EnvironmentId,
        id: BatchId,
        intake: Intake,
        phase: u32,
        announced: Option<Announcement>,
        pending: u32,
        succeeded: u32,
        dead: u32,
        cancelled: u32,
        skipped: u32,
    }
}

statement! {
    LockBatch = "lock_batch" { wanted: Keys } -> Vec<(EnvironmentId, BatchRecord)>;
    ReplaceBatch = "replace_batch" { told: Standings };
    // Returns the job, the report of its last attempt, and the time of its end.
    ListJobFailed = "list_job_failed" { environment: EnvironmentId, batch: BatchId, limit: usize }
        -> Vec<(Job, Option<Bytes>, Option<Timestamp>)>;
}

pub(crate) type BatchKey = (EnvironmentId, BatchId);
/// Batches that this transaction has locked.
pub(crate) type Batches = BTreeMap<BatchKey, BatchRecord>;
/// Changes to apply to each batch, in this order.
pub(crate) type Changes = BTreeMap<BatchKey, Vec<BatchChange>>;

/// Locks batches. Batches that do not exist are missing from the result.
pub(crate) async fn lock(tx: &Tx<'_>, keys: impl Iterator<Item = &BatchKey>) -> Result<Batches, Fault> {
    let Some(wanted) = Keys::of(keys.map(|(environment, id)| (*environment, id.0))).nonempty() else {
        return Ok(Batches::new());
    };
    let locked = tx.run(LockBatch { wanted }).await?;
    Ok(locked.into_iter().map(|(environment, record)| ((environment, record.id), record)).collect())
}

/// Writes the states of locked batches.
pub(crate) async fn keep(tx: &Tx<'_>, batches: &Batches) -> Result<(), Fault> {
    let standing = |((environment, id), BatchRecord { batch, .. }): (&BatchKey, &BatchRecord)| Standing {
        environment: *environment,
        id: *id,
        intake: batch.intake,
        phase: batch.phase,
        announced: batch.announced,
        pending: batch.counts.pending,
        succeeded: batch.counts.succeeded,
        dead: batch.counts.dead,
        cancelled: batch.counts.cancelled,
        skipped: batch.counts.skipped,
    };
    let told: Standings = batches.iter().map(standing).collect();
    tx.run(told.nonempty().map(|told| ReplaceBatch { told })).await.map(drop)
}

impl PostgresStore {
    /// Applies changes of jobs to their batches, and announces the results. Batches that no longer exist are skipped.
    pub(crate) async fn tell_batches(
        &self,
        tx: &Tx<'_>,
        changes: &Changes,
        now: Timestamp,
    ) -> Result<WithMade<Batches>, Fault> {
        let mut batches = lock(tx, changes.keys()).await?;
        let mut announced = Vec::new();
        for (key, record) in &mut batches {
            for change in changes.get(key).into_iter().flatten() {
                let applied = record.batch.apply(*change).map_err(bad_change)?;
                record.batch = applied.batch;
                announced.extend(applied.announce.map(|announce| (*key, announce, record.clone())));
            }
        }
        keep(tx, &batches).await?;
        let mut messages: Vec<NewMessage> = Vec::new();
        for ((environment, id), announce, record) in announced {
            let failed =
                if record.batch.counts.dead == 0 { Vec::new() } else { failed_jobs(tx, environment, id).await? };
            messages.extend(announcement(environment, &record, announce, failed, MessageId(self.ids.next(now))));
        }
        // The messages are appended together: their keys differ, because each phase of a batch has its own event id.
        if messages.is_empty() {
            return Ok(Made::default().with(batches));
        }
        let made = Made::messages(&self.append_within(tx, messages).await?);
        Ok(made.with(batches))
    }
}

/// Adds a change to a batch, merged with equal changes.
pub(crate) fn add(changes: &mut Changes, key: BatchKey, change: BatchChange) {
    let told = changes.entry(key).or_default();
    for known in told.iter_mut() {
        match (known, change) {
            (BatchChange::Ended(sum), BatchChange::Ended(more)) => {
                *sum += more;
                return;
            }
            (BatchChange::Resolved { jobs, how }, BatchChange::Resolved { jobs: more, how: the_same })
                if *how == the_same =>
            {
                *jobs += more;
                return;
            }
            _ => {}
        }
    }
    told.push(change);
}

async fn failed_jobs(tx: &Tx<'_>, environment: EnvironmentId, batch: BatchId) -> Result<Vec<FailedJob>, Fault> {
    let failed = tx.run(ListJobFailed { environment, batch, limit: BATCH_FAILED_LISTED_MAX }).await?;
    let failed = failed
        .iter()
        .map(|(job, note, at)| failed_job(job, note.as_deref().unwrap_or_default(), at.unwrap_or_default()));
    Ok(failed.collect())
}

pub(crate) fn bad_change(_: BadChange) -> Fault {
    Fault::Corrupt { table: "batch", column: "pending" }
}
