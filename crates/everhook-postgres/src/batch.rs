//! Batches: as users see them, and inside a transaction: locked, updated with the changes of their jobs, written, and
//! announced.
//!
//! Every transaction that ends a job updates its batch here before it commits. If two nodes end the last two jobs at
//! the same time, the lock makes one of them wait, so that there is only one announcement.

use std::collections::BTreeMap;

use bytes::Bytes;
use everhook_core::batch::{Announcement, BadChange, Batch, BatchChange, FailedJob, Intake};
use everhook_core::id::{ApplicationId, BatchId, EnvironmentId, MessageId};
use everhook_core::job::Job;
use everhook_core::limits::BATCH_FAILED_LISTED_MAX;
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, announcement, failed_job};
use everhook_store::catalog::{Created, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::lease::NewMessage;
use everhook_store::made::{Made, WithMade};
use everhook_store::piece::IdRange;
use everhook_store::sql::rows::json;
use everhook_store::sql::shared::ListBatch;
use everhook_store::{columns, statement};

use crate::append::FindGroupVersion;
use crate::columns::Keys;
use crate::dedup;
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
    CreateBatch<'a> = "create_batch" {
        environment: EnvironmentId, id: BatchId, application: ApplicationId, name: &'a str, prefix: &'a str,
        metadata: String, intake: Intake, phase: u32,
    } -> Option<(EnvironmentId, BatchRecord)>;
    pub(crate) FindBatch = "find_batch" { environment: EnvironmentId, id: BatchId }
        -> Option<(EnvironmentId, BatchRecord)>;
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

impl PostgresStore {
    pub(crate) async fn create_batch_once(
        &self,
        environment: EnvironmentId,
        new: &BatchRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<BatchRecord>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if let Some(key) = key
            && let Some(holder) = dedup::take_one(&tx, environment, key, new.id.0).await?
        {
            tx.roll_back().await?;
            let known = if holder.body == key.body {
                self.find_batch_once(environment, BatchId(holder.object)).await?
            } else {
                None
            };
            return Ok(known.map_or(Created::KeyReused, Created::Repeated));
        }
        let wanted = Keys::of([(environment, new.application.0)]);
        if tx.run(FindGroupVersion { wanted }).await?.is_empty() {
            tx.roll_back().await?;
            return Ok(Created::NoParent);
        }
        let empty = Batch::new();
        let create = CreateBatch {
            environment,
            id: new.id,
            application: new.application,
            name: &new.name,
            prefix: new.prefix.as_str(),
            metadata: json(&new.metadata),
            intake: empty.intake,
            phase: empty.phase,
        };
        let Some((_, record)) = tx.run(create).await? else {
            tx.roll_back().await?;
            let known = self.find_batch_once(environment, new.id).await?;
            return known.map(Created::Repeated).ok_or(Fault::Contended("the batch was deleted while it was created"));
        };
        tx.commit().await?;
        Ok(Created::New(record))
    }

    pub(crate) async fn find_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
    ) -> Result<Option<BatchRecord>, Fault> {
        Ok(self.database.read(FindBatch { environment, id }).await?.map(|(_, record)| record))
    }

    pub(crate) async fn list_batches_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<BatchId>,
    ) -> Result<Vec<BatchRecord>, Fault> {
        let IdRange { above, below } = IdRange::beyond(slice.after.map(|id| id.0), slice.order);
        let (above, below, limit, order) = (above.as_slice(), below.as_slice(), slice.limit, slice.order);
        self.database.read(ListBatch { environment, above, below, limit, order }).await
    }

    pub(crate) async fn seal_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
    ) -> Result<WithMade<Option<BatchRecord>>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let now = tx.now().await?;
        let changes = Changes::from([((environment, id), vec![BatchChange::Sealed])]);
        let WithMade { answer: mut told, made } = self.tell_batches(&tx, &changes, now).await?;
        tx.commit().await?;
        Ok(made.with(told.remove(&(environment, id))))
    }

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
