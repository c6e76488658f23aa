//! Batches inside a transaction: locked, told what was done to their jobs, kept, and announced.
//!
//! Whoever ends a job tells its batch here, before it commits. The lock is what makes it one announcement when two nodes end the last
//! two jobs at the same instant.

use std::collections::BTreeMap;

use everhook_core::batch::{Announcement, BadChange, Batch, Change, Counts, FailedJob, Intake};
use everhook_core::id::{ApplicationId, BatchId, EnvironmentId, JobId, MessageId};
use everhook_core::limits::BATCH_FAILED_LISTED_MAX;
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, announcement, failed_job};
use everhook_store::lease::NewMessage;
use everhook_store::made::{Made, WithMade};
use tokio_postgres::Row;

use crate::catalog::count;
use crate::error::Fault;
use crate::job::rows::{JOB_COLUMNS, job_at};
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Statements, Transaction};
use crate::store::PostgresStore;

/// A batch of an environment.
pub(crate) type BatchKey = (EnvironmentId, BatchId);
/// Batches that this transaction has locked.
pub(crate) type Batches = BTreeMap<BatchKey, BatchRecord>;
/// What is to be told, in this order.
pub(crate) type Changes = BTreeMap<BatchKey, Vec<Change>>;

/// Locks batches; those that do not exist are not there.
pub(crate) async fn lock(
    transaction: &impl Statements,
    keys: impl Iterator<Item = &BatchKey>,
) -> Result<Batches, Fault> {
    let (environments, ids) = columns(keys);
    if ids.is_empty() {
        return Ok(Batches::new());
    }
    let rows = transaction.rows(&sql::LOCK_BATCH, &[&environments, &ids]).await?;
    rows.iter().map(|row| read(row).map(|(environment, record)| ((environment, record.id), record))).collect()
}

/// Keeps where batches stand that this transaction has locked.
pub(crate) async fn keep(transaction: &impl Statements, batches: &Batches) -> Result<(), Fault> {
    if batches.is_empty() {
        return Ok(());
    }
    let (environments, ids) = columns(batches.keys());
    let each = || batches.values().map(|record| &record.batch);
    let intakes: Vec<i16> = each().map(|batch| batch.intake.to_db()).collect();
    let phases: Vec<i32> = each().map(|batch| int(batch.phase)).collect();
    let announced: Vec<Option<i16>> = each().map(|batch| batch.announced.map(Announcement::to_db)).collect();
    let column = |count: fn(&Counts) -> u32| -> Vec<i32> { each().map(|batch| int(count(&batch.counts))).collect() };
    let (pending, succeeded, dead) =
        (column(|counts| counts.pending), column(|counts| counts.succeeded), column(|counts| counts.dead));
    let (cancelled, skipped) = (column(|counts| counts.cancelled), column(|counts| counts.skipped));
    let params: crate::statement::Params<'_> =
        &[&environments, &ids, &intakes, &phases, &announced, &pending, &succeeded, &dead, &cancelled, &skipped];
    transaction.change(&sql::REPLACE_BATCH, params).await.map(drop)
}

impl PostgresStore {
    /// Tells batches what this transaction does to their jobs, and announces what that makes of them. Those that do not exist any more
    /// are told nothing.
    pub(crate) async fn tell_batches(
        &self,
        transaction: &Transaction,
        changes: &Changes,
        now: Timestamp,
    ) -> Result<WithMade<Batches>, Fault> {
        let mut batches = lock(transaction, changes.keys()).await?;
        let mut announced = Vec::new();
        for (key, record) in &mut batches {
            for change in changes.get(key).into_iter().flatten() {
                let applied = record.batch.apply(*change).map_err(bad_change)?;
                record.batch = applied.batch;
                announced.extend(applied.announce.map(|announce| (*key, announce, record.clone())));
            }
        }
        keep(transaction, &batches).await?;
        let mut messages: Vec<NewMessage> = Vec::new();
        for ((environment, id), announce, record) in announced {
            let failed = if record.batch.counts.dead == 0 {
                Vec::new()
            } else {
                failed_jobs(transaction, environment, id).await?
            };
            messages.extend(announcement(environment, &record, announce, failed, MessageId(self.ids.next(now))));
        }
        // Of two messages with one key in one append the second would be refused: no two phases of a batch share one.
        if messages.is_empty() {
            return Ok(Made::default().with(batches));
        }
        let made = Made::messages(&self.append_within(transaction, messages).await?);
        Ok(made.with(batches))
    }
}

/// Adds up what is told to a batch.
pub(crate) fn add(changes: &mut Changes, key: BatchKey, change: Change) {
    let told = changes.entry(key).or_default();
    for known in told.iter_mut() {
        match (known, change) {
            (Change::Ended(sum), Change::Ended(more)) => {
                *sum += more;
                return;
            }
            (Change::Resolved { jobs, how }, Change::Resolved { jobs: more, how: the_same }) if *how == the_same => {
                *jobs += more;
                return;
            }
            _ => {}
        }
    }
    told.push(change);
}

async fn failed_jobs(
    transaction: &Transaction,
    environment: EnvironmentId,
    batch: BatchId,
) -> Result<Vec<FailedJob>, Fault> {
    let (id, most) = (batch.as_bytes().as_slice(), count(BATCH_FAILED_LISTED_MAX));
    let rows = transaction.rows(&sql::LIST_JOB_FAILED, &[&environment.0, &id, &most]).await?;
    let mut failed = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = JobId(Reader::new(row, "job").id("id")?);
        let Some(job) = job_at(row, 1, id)? else { continue };
        let mut last = Reader::from(row, "job_attempt", 1 + JOB_COLUMNS);
        let note: Option<&[u8]> = last.get("note")?;
        let at: Option<i64> = last.get("started_at")?;
        failed.push(failed_job(
            &job,
            note.unwrap_or_default(),
            at.map_or_else(Timestamp::default, Timestamp::from_micros),
        ));
    }
    Ok(failed)
}

pub(crate) fn read(row: &Row) -> Result<(EnvironmentId, BatchRecord), Fault> {
    let mut row = Reader::new(row, "batch");
    let environment = EnvironmentId(row.get("environment")?);
    let record = BatchRecord {
        id: BatchId(row.id("id")?),
        application: ApplicationId(row.id("application")?),
        name: row.get("name")?,
        prefix: row.name("prefix")?,
        metadata: row.json("metadata")?,
        created_at: row.time("created_at")?,
        batch: Batch {
            intake: row.coded("intake", Intake::from_db)?,
            phase: row.unsigned("phase")?,
            announced: {
                let number: Option<i16> = row.get("announced")?;
                let read = |number| Announcement::from_db(number).ok_or_else(|| row.corrupt("announced"));
                number.map(read).transpose()?
            },
            counts: Counts {
                pending: row.unsigned("pending")?,
                succeeded: row.unsigned("succeeded")?,
                dead: row.unsigned("dead")?,
                cancelled: row.unsigned("cancelled")?,
                skipped: row.unsigned("skipped")?,
            },
        },
    };
    Ok((environment, record))
}

pub(crate) fn bad_change(_: BadChange) -> Fault {
    Fault::Corrupt { table: "batch", column: "pending" }
}

fn columns<'a>(keys: impl Iterator<Item = &'a BatchKey>) -> (Vec<i32>, Vec<&'a [u8]>) {
    keys.map(|(environment, id)| (environment.0, id.as_bytes().as_slice())).unzip()
}

fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
