//! Batches: updated in the transaction that ends a job, and announced in the same one.
//!
//! There is one writer, so a batch does not change between reading and writing it. Called for the API, and by settling,
//! steering and enqueueing.

use everhook_core::batch::{
    Announcement, Applied, BadChange, Batch, BatchChange, BatchCounts, FailedJob, Intake, Resolution, check_selection,
};
use everhook_core::id::{ApplicationId, BatchId, EnvironmentId, JobId, MessageId};
use everhook_core::job::JobAction;
use everhook_core::limits::BATCH_FAILED_LISTED_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, Resolved, announcement, failed_job};
use everhook_store::catalog::{Created, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::lease::Append;
use everhook_store::made::{Made, WithMade};
use everhook_store::piece::IdRange;
use everhook_store::sql::rows::json;
use everhook_store::sql::shared::ListBatch;
use everhook_store::statement;

use crate::append;
use crate::connection::Connection;
use crate::dedup::{Claim, claim, unclaim};
use crate::error::Fault;
use crate::job::{query as find_job, steer};
use crate::resource;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    CreateBatch<'a> = "create_batch" {
        environment: EnvironmentId, id: BatchId, application: ApplicationId, name: &'a str, prefix: &'a Name,
        metadata: String, now: Timestamp, intake: Intake, phase: u32,
    };
    FindBatch = "find_batch" { environment: EnvironmentId, id: BatchId } -> Option<BatchRecord>;
    ReplaceBatch = "replace_batch" {
        environment: EnvironmentId, id: BatchId, intake: Intake, phase: u32, announced: Option<Announcement>,
        pending: u32, succeeded: u32, dead: u32, cancelled: u32, skipped: u32,
    };
    ListJobFailed = "list_job_failed" { environment: EnvironmentId, batch: BatchId, limit: usize } -> Vec<JobId>;
}

/// Applies a change of jobs to their batch, and announces the result. A batch that no longer exists is skipped.
pub(crate) fn tell(tx: &Tx<'_>, environment: EnvironmentId, id: BatchId, change: BatchChange) -> Result<Made, Fault> {
    let Some(record) = find(tx.conn, environment, id)? else { return Ok(Made::default()) };
    let corrupt = |_: BadChange| Fault::Corrupt { table: "batch", column: "pending" };
    let Applied { batch, announce } = record.batch.apply(change).map_err(corrupt)?;
    replace(tx, environment, id, &batch)?;
    match announce {
        Some(announce) => self::announce(tx, environment, &BatchRecord { batch, ..record }, announce),
        None => Ok(Made::default()),
    }
}

/// Appends the announcement of a batch. If its application is gone, nothing is appended.
fn announce(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    record: &BatchRecord,
    announce: Announcement,
) -> Result<Made, Fault> {
    let failed = list_failed(tx, environment, record.id)?;
    let id = MessageId(tx.ids.next(tx.now));
    let messages = announcement(environment, record, announce, failed, id).into_iter().collect();
    Ok(Made::messages(&append::append(tx, Append { fast: None, messages })?))
}

fn list_failed(tx: &Tx<'_>, environment: EnvironmentId, id: BatchId) -> Result<Vec<FailedJob>, Fault> {
    let dead = run(tx.conn, ListJobFailed { environment, batch: id, limit: BATCH_FAILED_LISTED_MAX })?;
    let mut failed = Vec::with_capacity(dead.len());
    for id in dead {
        if let Some(record) = find_job::find_bare(tx.conn, environment, id)? {
            let last = record.last.map(|last| (last.note, last.started_at.plus(last.duration)));
            let (note, at) = last.unwrap_or_default();
            failed.push(failed_job(&record.job, &note, at));
        }
    }
    Ok(failed)
}

pub(crate) fn find(conn: &Connection, environment: EnvironmentId, id: BatchId) -> Result<Option<BatchRecord>, Fault> {
    run(conn, FindBatch { environment, id })
}

/// Writes the state of a batch.
pub(crate) fn replace(tx: &Tx<'_>, environment: EnvironmentId, id: BatchId, batch: &Batch) -> Result<(), Fault> {
    let BatchCounts { pending, succeeded, dead, cancelled, skipped } = batch.counts;
    let Batch { intake, phase, announced, .. } = *batch;
    let replace =
        ReplaceBatch { environment, id, intake, phase, announced, pending, succeeded, dead, cancelled, skipped };
    run(tx.conn, replace).map(drop)
}

pub(crate) fn create(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    batch: &BatchRecord,
    key: Option<&DedupKey>,
) -> Result<Created<BatchRecord>, Fault> {
    match claim(tx, environment, key, batch.id.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Created::KeyReused),
        // The batch of the first request was pruned, so the key counts as used by another request.
        Claim::Repeated(id) => {
            let found = find(tx.conn, environment, BatchId(id))?;
            return Ok(found.map_or(Created::KeyReused, Created::Repeated));
        }
    }
    if !resource::has_application(tx, environment, batch.application)? {
        unclaim(tx, environment, key, batch.id.0)?;
        return Ok(Created::NoParent);
    }
    let record = BatchRecord { created_at: tx.now, batch: Batch::new(), ..batch.clone() };
    let create = CreateBatch {
        environment,
        id: record.id,
        application: record.application,
        name: &record.name,
        prefix: &record.prefix,
        metadata: json(&record.metadata),
        now: tx.now,
        intake: record.batch.intake,
        phase: record.batch.phase,
    };
    run(tx.conn, create)?;
    Ok(Created::New(record))
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    slice: &Slice<BatchId>,
) -> Result<Vec<BatchRecord>, Fault> {
    let IdRange { above, below } = IdRange::beyond(slice.after.map(|id| id.0), slice.order);
    let (limit, order) = (slice.limit, slice.order);
    run(conn, ListBatch { environment, above: &above, below: &below, limit, order })
}

pub(crate) fn resolve(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    id: BatchId,
    jobs: &[JobId],
    how: Resolution,
) -> Result<WithMade<Resolved>, Fault> {
    if find(tx.conn, environment, id)?.is_none() {
        return Ok(Made::default().with(Resolved::NoBatch));
    }
    let mut found = Vec::new();
    for job in jobs {
        let record = find_job::find_bare(tx.conn, environment, *job)?.filter(|record| record.job.batch == Some(id));
        found.extend(record.map(|record| (*job, record)));
    }
    let states: Vec<_> = found.iter().map(|(job, record)| (*job, record.state)).collect();
    let selected = match check_selection(jobs, &states) {
        Ok(selected) => selected,
        Err(bad) => return Ok(Made::default().with(Resolved::Bad(bad))),
    };
    let count = u32::try_from(selected.len()).unwrap_or(u32::MAX);
    let plan = if how == Resolution::Retried { JobAction::Redrive } else { JobAction::Cancel };
    let mut made = Made::default();
    // A retry opens the new phase before its first job. A skip is announced after the jobs have ended, so that they are
    // not listed as failed.
    if plan == JobAction::Redrive {
        made += tell(tx, environment, id, BatchChange::Resolved { jobs: count, how })?;
    }
    for job in &selected {
        if let Some((_, record)) = found.iter().find(|(id, _)| id == job) {
            steer::carry_out(tx, environment, record, plan)?;
        }
    }
    if plan != JobAction::Redrive {
        made += tell(tx, environment, id, BatchChange::Resolved { jobs: count, how })?;
    }
    Ok(made.with(find(tx.conn, environment, id)?.map_or(Resolved::NoBatch, Resolved::Done)))
}
