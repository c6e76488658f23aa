//! Schedules: kept for the API, and looked at by every node.
//!
//! There is one writer, so that what is due is decided, started and moved on with nobody in between. What is to be done now is decided in
//! `core::schedule::fire`; firing is in a file of its own.

use everhook_core::id::{EnvironmentId, JobId, ScheduleId};
use everhook_core::name::Name;
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::piece::Piece;
use everhook_store::schedule::encoding::{read_spec, read_starts, spec, starts};
use everhook_store::schedule::{Run, RunKind, ScheduleRecord, schedule_bytes};
use rusqlite::{Connection, OptionalExtension, Row, params};
use tracing::warn;

use crate::catalog::{Claim, NAME_ENDS, bounds, claim, directed, limit, release};
use crate::error::Fault;
use crate::rows::Reader;
use crate::writer::Tx;

pub(crate) mod fire;

const CREATE_SCHEDULE: &str = include_str!("../queries/create_schedule.sql");
const FIND_SCHEDULE: &str = include_str!("../queries/find_schedule.sql");
const LIST_SCHEDULE: &str = include_str!("../queries/list_schedule.sql");
const REPLACE_SCHEDULE: &str = include_str!("../queries/replace_schedule.sql");
const DELETE_SCHEDULE: &str = include_str!("../queries/delete_schedule.sql");
const DELETE_SCHEDULE_RUN: &str = include_str!("../queries/delete_schedule_run.sql");
const LIST_SCHEDULE_RUN: &str = include_str!("../queries/list_schedule_run.sql");

pub(crate) fn create(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    schedule: &ScheduleRecord,
    key: Option<&DedupKey>,
) -> Result<Created<ScheduleRecord>, Fault> {
    let id = schedule.schedule.id;
    match claim(tx, environment, key, id.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Created::KeyReused),
        Claim::Repeated(object) => {
            let found = find(tx.conn, environment, &schedule.name)?;
            // One that was deleted since is as good as another request.
            let same = found.filter(|found| found.schedule.id.0 == object);
            return Ok(same.map_or(Created::KeyReused, Created::Repeated));
        }
    }
    let state = begin(schedule, tx.now);
    let written = tx.conn.prepare_cached(CREATE_SCHEDULE)?.execute(params![
        environment.0,
        schedule.name.as_str(),
        id.as_bytes(),
        spec(&schedule.schedule),
        starts(&schedule.starts),
        schedule.paused,
        state.next.map(Timestamp::as_micros),
        state.queued.map(Timestamp::as_micros),
        state.look_at.as_micros(),
        tx.now.as_micros(),
    ])?;
    if written == 0 {
        release(tx, environment, key, id.0)?;
        let holder = find(tx.conn, environment, &schedule.name)?;
        return holder.map(Created::Taken).ok_or(Fault::Corrupt { table: "schedule", column: "name" });
    }
    let (created_at, updated_at) = (tx.now, tx.now);
    Ok(Created::New(ScheduleRecord { state, created_at, updated_at, revision: 1, ..schedule.clone() }))
}

/// Where a schedule stands that was just created or changed.
fn begin(schedule: &ScheduleRecord, now: Timestamp) -> ScheduleState {
    if schedule.paused { ScheduleState::paused() } else { ScheduleState::begin(&schedule.schedule, now) }
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    name: &Name,
) -> Result<Option<ScheduleRecord>, Fault> {
    let mut find = conn.prepare_cached(FIND_SCHEDULE)?;
    let mut rows = find.query(params![environment.0, name.as_str()])?;
    rows.next()?.map(|row| Kept::read(row)?.record()).transpose()
}

/// What cannot be read is told, and left out: it must not hide the others.
pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    slice: &Slice<Name>,
) -> Result<Piece<ScheduleRecord, Name>, Fault> {
    let (above, below) = bounds(slice.after.as_ref().map(Name::as_str), slice.order, NAME_ENDS);
    let mut list = conn.prepare_cached(&directed(LIST_SCHEDULE, slice.order))?;
    let params = params![environment.0, above, below, limit(slice.limit)];
    let kept = list.query_and_then(params, Kept::read)?;
    let readable = kept.filter_map(|kept| kept.map(|kept| kept.readable()).transpose());
    Piece::gather(readable, slice.limit, schedule_bytes, |record| record.name.clone(), None)
}

pub(crate) fn replace(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    schedule: &ScheduleRecord,
) -> Result<Replaced<ScheduleRecord>, Fault> {
    let mut known = tx
        .conn
        .prepare_cached("select created_at from schedule where environment = ?1 and name = ?2 and revision = ?3")?;
    let params = params![environment.0, schedule.name.as_str(), schedule.revision];
    let Some(created_at) = known.query_row(params, |row| row.get(0)).optional()? else { return Ok(Replaced::Stale) };
    let state = begin(schedule, tx.now);
    tx.conn.prepare_cached(REPLACE_SCHEDULE)?.execute(params![
        environment.0,
        schedule.name.as_str(),
        schedule.revision,
        spec(&schedule.schedule),
        starts(&schedule.starts),
        schedule.paused,
        state.next.map(Timestamp::as_micros),
        state.queued.map(Timestamp::as_micros),
        state.look_at.as_micros(),
        tx.now.as_micros(),
    ])?;
    let (created_at, revision) = (Timestamp::from_micros(created_at), schedule.revision + 1);
    Ok(Replaced::Done(ScheduleRecord { state, created_at, updated_at: tx.now, revision, ..schedule.clone() }))
}

pub(crate) fn delete(tx: &Tx<'_>, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
    let mut delete = tx.conn.prepare_cached(DELETE_SCHEDULE)?;
    let read = |row: &Row<'_>| Ok(Reader::new(row, "schedule").id(0, "id"));
    let Some(id) = delete.query_row(params![environment.0, name.as_str()], read).optional()? else { return Ok(false) };
    tx.conn.prepare_cached(DELETE_SCHEDULE_RUN)?.execute(params![environment.0, id?.as_bytes()])?;
    Ok(true)
}

pub(crate) fn list_runs(
    conn: &Connection,
    environment: EnvironmentId,
    id: ScheduleId,
    runs: usize,
) -> Result<Vec<Run>, Fault> {
    let mut list = conn.prepare_cached(LIST_SCHEDULE_RUN)?;
    let read = |row: &Row<'_>| {
        let record = Reader::new(row, "schedule_run");
        Ok(Run {
            nominal: record.time(0, "nominal")?,
            at: record.time(1, "at")?,
            kind: record.variant(2, "kind", RunKind::from_db)?,
            object: record.optional_id(3, "object")?,
        })
    };
    list.query_and_then(params![environment.0, id.as_bytes(), limit(runs)], read)?.collect()
}

/// A row, of which the texts may be of a later version.
struct Kept {
    environment: EnvironmentId,
    name: Name,
    id: ScheduleId,
    spec: String,
    starts: String,
    paused: bool,
    state: ScheduleState,
    last_job: Option<JobId>,
    created_at: Timestamp,
    updated_at: Timestamp,
    revision: i64,
}

impl Kept {
    fn read(row: &Row<'_>) -> Result<Kept, Fault> {
        let record = Reader::new(row, "schedule");
        let state = ScheduleState {
            next: record.optional_time(6, "next")?,
            queued: record.optional_time(7, "queued")?,
            look_at: record.time(8, "look_at")?,
        };
        Ok(Kept {
            environment: record.environment(0)?,
            name: record.name(1, "name")?,
            id: ScheduleId(record.id(2, "id")?),
            spec: record.get(3, "spec")?,
            starts: record.get(4, "starts")?,
            paused: record.get(5, "paused")?,
            state,
            last_job: record.optional_id(9, "last_job")?.map(JobId),
            created_at: record.time(10, "created_at")?,
            updated_at: record.time(11, "updated_at")?,
            revision: record.get(12, "revision")?,
        })
    }

    fn record(&self) -> Result<ScheduleRecord, Fault> {
        let corrupt = |column| Fault::Corrupt { table: "schedule", column };
        Ok(ScheduleRecord {
            name: self.name.clone(),
            schedule: read_spec(self.id, &self.spec).ok_or_else(|| corrupt("spec"))?,
            starts: read_starts(&self.starts).ok_or_else(|| corrupt("starts"))?,
            paused: self.paused,
            state: self.state,
            created_at: self.created_at,
            updated_at: self.updated_at,
            revision: self.revision,
        })
    }

    /// What it says, if this binary can read it; a warning if not.
    fn readable(&self) -> Option<ScheduleRecord> {
        let record = self.record();
        if record.is_err() {
            warn!(schedule.name = %self.name, "could not read schedule {}: it may be of a later version", self.name);
        }
        record.ok()
    }
}
