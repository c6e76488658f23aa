//! Batches inside a transaction: locked, told what was done to their jobs, kept, and announced.
//!
//! Whoever ends a job tells its batch here, before it commits. The lock is what makes it one announcement when two nodes end the last
//! two jobs at the same instant.

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
    /// Where batches stand.
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
    // The job, the note of its last attempt, and when that ended.
    ListJobFailed = "list_job_failed" { environment: EnvironmentId, batch: BatchId, limit: usize }
        -> Vec<(Job, Option<Bytes>, Option<Timestamp>)>;
}

/// A batch of an environment.
pub(crate) type BatchKey = (EnvironmentId, BatchId);
/// Batches that this transaction has locked.
pub(crate) type Batches = BTreeMap<BatchKey, BatchRecord>;
/// What is to be told, in this order.
pub(crate) type Changes = BTreeMap<BatchKey, Vec<BatchChange>>;

/// Locks batches; those that do not exist are not there.
pub(crate) async fn lock(tx: &Tx<'_>, keys: impl Iterator<Item = &BatchKey>) -> Result<Batches, Fault> {
    let Some(wanted) = Keys::of(keys.map(|(environment, id)| (*environment, id.0))).nonempty() else {
        return Ok(Batches::new());
    };
    let locked = tx.run(LockBatch { wanted }).await?;
    Ok(locked.into_iter().map(|(environment, record)| ((environment, record.id), record)).collect())
}

/// Keeps where batches stand that this transaction has locked.
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
    /// Tells batches what this transaction does to their jobs, and announces what that makes of them. Those that do not exist any more
    /// are told nothing.
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
        // Of two messages with one key in one append the second would be refused: no two phases of a batch share one.
        if messages.is_empty() {
            return Ok(Made::default().with(batches));
        }
        let made = Made::messages(&self.append_within(tx, messages).await?);
        Ok(made.with(batches))
    }
}

/// Adds up what is told to a batch.
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
