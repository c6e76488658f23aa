//! The statistics of a queue.

use std::collections::BTreeSet;

use everhook_core::id::EnvironmentId;
use everhook_core::limits::QUEUE_COUNTED_MAX;
use everhook_core::name::Name;
use everhook_core::queue::queue_id;
use everhook_core::time::Timestamp;
use everhook_store::queue::{QUEUE_KINDS_LOOKED_AT, QueueCount, QueueStats};
use rusqlite::{Row, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql::limit;
use crate::writer::Tx;

const COUNT_QUEUE: &str = include_str!("../../queries/count_queue.sql");
const LIST_QUEUE_KIND: &str = include_str!("../../queries/list_queue_kind.sql");
const ADD_QUEUE_MINUTE: &str = include_str!("../../queries/add_queue_minute.sql");
const PRUNE_QUEUE_MINUTE: &str = "delete from queue_minute where environment = ?1 and queue = ?2 and minute < ?3";

/// The number of minutes that counts are kept; only the last whole minute is shown.
const MINUTES_KEPT: i64 = 60;

/// Counts the jobs of a queue, up to the bound.
pub(crate) fn read(
    conn: &Connection,
    environment: EnvironmentId,
    name: &Name,
    now: Timestamp,
) -> Result<QueueStats, Fault> {
    let mut count = conn.prepare_cached(COUNT_QUEUE)?;
    let feed = queue_id(environment, name);
    let params = params![
        environment.0,
        name.as_str(),
        now.as_micros(),
        limit(QUEUE_COUNTED_MAX),
        minute(now) - 1,
        feed.as_bytes(),
    ];
    let counted = count.query_row(params, |row| Ok(read_counts(row)))??;
    let (oldest, due_kinds) = list_due(conn, environment, name, now)?;
    Ok(QueueStats { oldest_due: oldest.map(|at| now.since(at)), due_kinds, ..counted })
}

fn read_counts(row: &Row<'_>) -> Result<QueueStats, Fault> {
    let record = Reader::new(row, "task");
    let count = |index, column| Ok::<u64, Fault>(record.get::<i64>(index, column)?.unsigned_abs());
    Ok(QueueStats {
        pending: count(0, "pending")?,
        due: count(1, "due")?,
        running: count(2, "running")?,
        dead: count(3, "dead")?,
        ended_last_minute: count(4, "ended")?,
        ..QueueStats::default()
    })
}

/// Returns the due time of the job that has been due longest, and the kinds of the jobs that have been due longest.
fn list_due(
    conn: &Connection,
    environment: EnvironmentId,
    name: &Name,
    now: Timestamp,
) -> Result<(Option<Timestamp>, Vec<Name>), Fault> {
    let mut list = conn.prepare_cached(LIST_QUEUE_KIND)?;
    let feed = queue_id(environment, name);
    let params = params![environment.0, feed.as_bytes(), now.as_micros(), limit(QUEUE_KINDS_LOOKED_AT)];
    let mut rows = list.query(params)?;
    let (mut oldest, mut kinds) = (None, BTreeSet::new());
    while let Some(row) = rows.next()? {
        let record = Reader::new(row, "task");
        oldest.get_or_insert(record.time(0, "due_at")?);
        kinds.extend(record.optional_name(1, "kind")?);
    }
    Ok((oldest, kinds.into_iter().collect()))
}

/// Adds to the numbers of attempts that ended in this minute.
pub(crate) fn count_ended(tx: &Tx<'_>, counts: &[QueueCount]) -> Result<(), Fault> {
    let minute = minute(tx.now);
    for count in counts {
        let (environment, name) = (count.environment.0, count.name.as_str());
        let ended = i64::try_from(count.ended).unwrap_or(i64::MAX);
        tx.conn.prepare_cached(ADD_QUEUE_MINUTE)?.execute(params![environment, name, minute, ended])?;
        tx.conn.prepare_cached(PRUNE_QUEUE_MINUTE)?.execute(params![environment, name, minute - MINUTES_KEPT])?;
    }
    Ok(())
}

fn minute(at: Timestamp) -> i64 {
    at.as_secs().div_euclid(60)
}
