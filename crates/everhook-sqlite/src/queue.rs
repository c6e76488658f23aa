//! Queues as users see them, and their statistics.

use std::collections::BTreeSet;

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::{QUEUE_COUNTED_MAX, QUEUE_LANES_DELETED_MAX};
use everhook_core::name::Name;
use everhook_core::queue::{Queue, queue_id};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Slice};
use everhook_store::error::StoreError;
use everhook_store::piece::names_beyond;
use everhook_store::queue::{QUEUE_KINDS_LOOKED_AT, QueueCount, QueueStats};
use everhook_store::resource::{Deleted, ResourceKey};
use everhook_store::store::Op;
use everhook_store::{row, statement};

use crate::SqliteStore;
use crate::connection::Connection;
use crate::error::Fault;
use crate::resource;
use crate::sql::run;
use crate::writer::Tx;

row! { struct StatsRow in "queue" { pending: u64, due: u64, running: u64, dead: u64, ended: u64 } }

statement! {
    // The inner option is none for a queue without configuration.
    FindQueue<'a> = "find_queue" { environment: EnvironmentId, name: &'a Name } -> Option<Option<Queue>>;
    ListQueue<'a> = "list_queue" { environment: EnvironmentId, above: &'a str, below: &'a str, order: Order }
        -> Option<Name>;
    DeleteLaneQueue<'a> = "delete_lane_queue" { environment: EnvironmentId, queue: &'a Name, limit: usize };
    CountQueue<'a> = ["count_queue", "ready_lane"] {
        environment: EnvironmentId, queue: &'a Name, feed: Id, now: Timestamp, counted_max: usize, minute: i64,
    } -> Option<StatsRow>;
    // A job that was pruned has no kind.
    ListQueueKind = ["list_queue_kind", "ready_lane"] {
        environment: EnvironmentId, feed: Id, now: Timestamp, jobs_max: usize,
    } -> Vec<(Timestamp, Option<Name>)>;
    AddQueueMinute<'a> = "add_queue_minute" { environment: EnvironmentId, queue: &'a Name, minute: i64, ended: u64 };
    PruneQueueMinute<'a> = (
        "prune_queue_minute",
        "delete from queue_minute where environment = :environment and queue = :queue and minute < :minute"
    ) { environment: EnvironmentId, queue: &'a Name, minute: i64 };
    ListQueueTarget = "list_queue_target" {} -> Vec<(EnvironmentId, Name)>;
}

/// The number of minutes that counts are kept; only the last whole minute is shown.
const MINUTES_KEPT: i64 = 60;

impl SqliteStore {
    /// Deletes a queue in several transactions, because it may have many lanes.
    pub(crate) async fn delete_queue(&self, environment: EnvironmentId, name: &Name) -> Result<Deleted, StoreError> {
        let mut known = false;
        loop {
            let name = name.clone();
            match self.change(Op::DeleteResource, move |tx| delete(tx, environment, &name)).await? {
                Deletion::HasJobs => return Ok(Deleted::HasJobs),
                Deletion::Part => known = true,
                Deletion::Whole { found } => return Ok((known || found).into()),
            }
        }
    }
}

pub(crate) fn find(conn: &Connection, environment: EnvironmentId, name: &Name) -> Result<Option<Queue>, Fault> {
    let found = run(conn, FindQueue { environment, name })?;
    Ok(found.map(|queue| queue.unwrap_or_else(|| Queue::new(name.clone()))))
}

pub(crate) fn list(conn: &Connection, environment: EnvironmentId, slice: &Slice<Name>) -> Result<Vec<Queue>, Fault> {
    let mut queues: Vec<Queue> = Vec::new();
    let mut rest = slice.clone();
    while queues.len() < slice.limit {
        let (above, below) = names_beyond(&rest);
        let Some(name) = run(conn, ListQueue { environment, above, below, order: slice.order })? else { break };
        queues.extend(find(conn, environment, &name)?);
        rest.after = Some(name);
    }
    Ok(queues)
}

/// The result of one transaction of a deletion.
enum Deletion {
    HasJobs,
    /// More lanes may remain.
    Part,
    Whole {
        found: bool,
    },
}

fn delete(tx: &Tx<'_>, environment: EnvironmentId, name: &Name) -> Result<Deletion, Fault> {
    let stats = read_stats(tx.conn, environment, name, tx.now)?;
    if stats.pending + stats.running + stats.dead > 0 {
        return Ok(Deletion::HasJobs);
    }
    let lanes = run(tx.conn, DeleteLaneQueue { environment, queue: name, limit: QUEUE_LANES_DELETED_MAX })?;
    if lanes == QUEUE_LANES_DELETED_MAX as u64 {
        return Ok(Deletion::Part);
    }
    let is_configured = resource::delete(tx, environment, &ResourceKey::Queue(name.clone()))?.answer;
    Ok(Deletion::Whole { found: lanes > 0 || is_configured })
}

pub(crate) fn list_targets(conn: &Connection) -> Result<Vec<(EnvironmentId, Name)>, Fault> {
    run(conn, ListQueueTarget {})
}

/// Counts the jobs of a queue, up to the bound.
pub(crate) fn read_stats(
    conn: &Connection,
    environment: EnvironmentId,
    name: &Name,
    now: Timestamp,
) -> Result<QueueStats, Fault> {
    let (feed, counted_max, minute) = (queue_id(environment, name), QUEUE_COUNTED_MAX, minute(now) - 1);
    let counted = run(conn, CountQueue { environment, queue: name, feed, now, counted_max, minute })?;
    let due = run(conn, ListQueueKind { environment, feed, now, jobs_max: QUEUE_KINDS_LOOKED_AT })?;
    let oldest_due = due.first().map(|(at, _)| now.since(*at));
    let due_kinds: BTreeSet<Name> = due.into_iter().filter_map(|(_, kind)| kind).collect();
    let mut stats = QueueStats { oldest_due, due_kinds: due_kinds.into_iter().collect(), ..QueueStats::default() };
    if let Some(StatsRow { pending, due, running, dead, ended }) = counted {
        stats = QueueStats { pending, due, running, dead, ended_last_minute: ended, ..stats };
    }
    Ok(stats)
}

/// Adds to the numbers of attempts that ended in this minute.
pub(crate) fn count_ended(tx: &Tx<'_>, counts: &[QueueCount]) -> Result<(), Fault> {
    let minute = minute(tx.now);
    for QueueCount { environment, name: queue, ended } in counts {
        let environment = *environment;
        run(tx.conn, AddQueueMinute { environment, queue, minute, ended: *ended })?;
        run(tx.conn, PruneQueueMinute { environment, queue, minute: minute - MINUTES_KEPT })?;
    }
    Ok(())
}

fn minute(at: Timestamp) -> i64 {
    at.as_secs().div_euclid(60)
}
