//! Batches: updated in the transaction that ends a job, and announced in the same one.
//!
//! There is one writer, so a batch does not change between reading and writing it. Called for the API, and by settling,
//! steering and enqueueing.

use everhook_core::batch::{
    Announcement, Applied, BadChange, Batch, BatchChange, BatchCounts, FailedJob, Resolution, check_selection,
};
use everhook_core::id::{BatchId, EnvironmentId, JobId, MessageId};
use everhook_core::job::JobAction;
use everhook_core::limits::BATCH_FAILED_LISTED_MAX;
use everhook_store::batch::{BatchRecord, Resolved, announcement, failed_job};
use everhook_store::catalog::{Created, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::lease::Append;
use everhook_store::made::{Made, WithMade};
use rusqlite::{Row, params};

use crate::append;
use crate::connection::Connection;
use crate::dedup::{Claim, claim, unclaim};
use crate::error::Fault;
use crate::job::{query as find_job, steer};
use crate::resource;
use crate::rows::{ABOVE_IDS, BELOW_IDS, Reader, to_json};
use crate::sql::read_at;
use crate::sql::{bounds, directed, limit};
use crate::writer::Tx;

const CREATE_BATCH: &str = include_str!("../queries/create_batch.sql");
const FIND_BATCH: &str = include_str!("../queries/find_batch.sql");
const LIST_BATCH: &str = include_str!("../queries/list_batch.sql");
const REPLACE_BATCH: &str = include_str!("../queries/replace_batch.sql");
const LIST_JOB_FAILED: &str = include_str!("../queries/list_job_failed.sql");

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
    let mut list = tx.conn.prepare_cached(LIST_JOB_FAILED)?;
    let params = params![environment.0, id.as_bytes(), limit(BATCH_FAILED_LISTED_MAX)];
    let read = |row: &Row<'_>| Reader::new(row, "task").id(0, "subject").map(JobId);
    let dead = list.query_and_then(params, read)?.collect::<Result<Vec<_>, Fault>>()?;
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
    let mut find = conn.prepare_cached(FIND_BATCH)?;
    let mut rows = find.query(params![environment.0, id.as_bytes()])?;
    rows.next()?.map(read).transpose()
}

/// Writes the state of a batch.
pub(crate) fn replace(tx: &Tx<'_>, environment: EnvironmentId, id: BatchId, batch: &Batch) -> Result<(), Fault> {
    let BatchCounts { pending, succeeded, dead, cancelled, skipped } = batch.counts;
    tx.conn.prepare_cached(REPLACE_BATCH)?.execute(params![
        environment.0,
        id.as_bytes(),
        batch.intake.to_db(),
        batch.phase,
        batch.announced.map(Announcement::to_db),
        pending,
        succeeded,
        dead,
        cancelled,
        skipped,
    ])?;
    Ok(())
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
    tx.conn.prepare_cached(CREATE_BATCH)?.execute(params![
        environment.0,
        record.id.as_bytes(),
        record.application.as_bytes(),
        record.name,
        record.prefix.as_str(),
        to_json(&record.metadata)?,
        tx.now.as_micros(),
        record.batch.intake.to_db(),
        record.batch.phase,
    ])?;
    Ok(Created::New(record))
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    slice: &Slice<BatchId>,
) -> Result<Vec<BatchRecord>, Fault> {
    let after = slice.after.as_ref().map(|id| id.as_bytes().as_slice());
    let (above, below) = bounds(after, slice.order, (BELOW_IDS, ABOVE_IDS));
    let mut list = conn.prepare_cached(&directed(LIST_BATCH, slice.order))?;
    list.query_and_then(params![environment.0, above, below, limit(slice.limit)], read)?.collect()
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

fn read(row: &Row<'_>) -> Result<BatchRecord, Fault> {
    read_at(row, 0)
}
