//! The statistics of a queue.

use std::collections::BTreeSet;

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::QUEUE_COUNTED_MAX;
use everhook_core::name::Name;
use everhook_core::queue::queue_id;
use everhook_core::time::Timestamp;
use everhook_store::queue::{QUEUE_KINDS_LOOKED_AT, QueueCount, QueueStats};
use everhook_store::{row, statement};

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

row! { struct StatsRow in "queue" { pending: u64, due: u64, running: u64, dead: u64, ended: u64 } }

statement! {
    CountQueue<'a> = "count_queue" {
        environment: EnvironmentId, queue: &'a Name, feed: Id, now: Timestamp, counted_max: usize, minute: i64,
    } -> Option<StatsRow>;
    // A job that was pruned has no kind.
    ListQueueKind = "list_queue_kind" { environment: EnvironmentId, feed: Id, now: Timestamp, jobs_max: usize }
        -> Vec<(Timestamp, Option<Name>)>;
    AddQueueMinute<'a> = "add_queue_minute" { environment: EnvironmentId, queue: &'a Name, minute: i64, ended: u64 };
    PruneQueueMinute<'a> = (
        "prune_queue_minute",
        "delete from queue_minute where environment = :environment and queue = :queue and minute < :minute"
    ) { environment: EnvironmentId, queue: &'a Name, minute: i64 };
}

/// The number of minutes that counts are kept; only the last whole minute is shown.
const MINUTES_KEPT: i64 = 60;

/// Counts the jobs of a queue, up to the bound.
pub(crate) fn read(
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
