//! Queues: how they are configured, and how much is in them.

use everhook_core::id::EnvironmentId;
use everhook_core::limits::QUEUE_LANES_DELETED_MAX;
use everhook_core::name::Name;
use everhook_core::queue::{Queue, Rate};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Replaced, Slice};
use everhook_store::error::StoreError;
use everhook_store::queue::QueueDeleted;
use everhook_store::sql::rows::keys_text;
use everhook_store::store::Op;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::SqliteStore;
use crate::catalog::{NAME_ENDS, bounds, directed, limit};
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql::read_at;
use crate::writer::Tx;

pub(crate) mod stats;

const FIND_QUEUE: &str = include_str!("../queries/find_queue.sql");
const LIST_QUEUE: &str = include_str!("../queries/list_queue.sql");
const CREATE_QUEUE: &str = include_str!("../queries/create_queue.sql");
const REPLACE_QUEUE: &str = include_str!("../queries/replace_queue.sql");
const RESERVE_QUEUE_RATE: &str = "update queue set booked_until = ?3 where environment = ?1 and name = ?2";
const DELETE_QUEUE: &str = include_str!("../queries/delete_queue.sql");
const DELETE_LANE_QUEUE: &str = include_str!("../queries/delete_lane_queue.sql");
const LIST_QUEUE_TARGET: &str = include_str!("../queries/list_queue_target.sql");

impl SqliteStore {
    /// Deletes a queue in parts, each one transaction: its lanes may be many.
    pub(crate) async fn delete_queue(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<QueueDeleted, StoreError> {
        let mut known = false;
        loop {
            let name = name.clone();
            match self.change(Op::DeleteResource, move |tx| delete(tx, environment, &name)).await? {
                Deletion::HasJobs => return Ok(QueueDeleted::HasJobs),
                Deletion::Part => known = true,
                Deletion::Whole { found } if known || found => return Ok(QueueDeleted::Done),
                Deletion::Whole { .. } => return Ok(QueueDeleted::NoQueue),
            }
        }
    }
}

/// A queue that was configured, and until when its rate is used up.
pub(crate) fn find_configured(
    conn: &Connection,
    environment: EnvironmentId,
    name: &Name,
) -> Result<Option<(Queue, Timestamp)>, Fault> {
    let mut find = conn.prepare_cached(FIND_QUEUE)?;
    let mut rows = find.query(params![environment.0, name.as_str()])?;
    rows.next()?.map(read).transpose()
}

/// Keeps until when the rate of a queue is used up.
pub(crate) fn book(tx: &Tx<'_>, environment: EnvironmentId, name: &Name, until: Timestamp) -> Result<(), Fault> {
    tx.conn.prepare_cached(RESERVE_QUEUE_RATE)?.execute(params![environment.0, name.as_str(), until.as_micros()])?;
    Ok(())
}

pub(crate) fn find(conn: &Connection, environment: EnvironmentId, name: &Name) -> Result<Option<Queue>, Fault> {
    if let Some((queue, _)) = find_configured(conn, environment, name)? {
        return Ok(Some(queue));
    }
    let mut used = conn.prepare_cached("select 1 from lane where environment = ?1 and queue = ?2 limit 1")?;
    Ok(used.exists(params![environment.0, name.as_str()])?.then(|| Queue::new(name.clone())))
}

pub(crate) fn list(conn: &Connection, environment: EnvironmentId, slice: &Slice<Name>) -> Result<Vec<Queue>, Fault> {
    let mut next = conn.prepare_cached(&directed(LIST_QUEUE, slice.order))?;
    let mut queues: Vec<Queue> = Vec::new();
    let mut after = slice.after.clone();
    while queues.len() < slice.limit {
        let (above, below) = bounds(after.as_ref().map(Name::as_str), slice.order, NAME_ENDS);
        let read = |row: &Row<'_>| Ok(Reader::new(row, "queue").name(0, "name"));
        let Some(name) = next.query_row(params![environment.0, above, below], read).optional()? else { break };
        let name = name?;
        let configured = find_configured(conn, environment, &name)?;
        queues.push(configured.map_or_else(|| Queue::new(name.clone()), |(queue, _)| queue));
        after = Some(name);
    }
    Ok(queues)
}

pub(crate) fn replace(tx: &Tx<'_>, environment: EnvironmentId, queue: &Queue) -> Result<Replaced<Queue>, Fault> {
    let known = find_configured(tx.conn, environment, &queue.name)?;
    if known.map_or(0, |(known, _)| known.revision) != queue.revision {
        return Ok(Replaced::Stale);
    }
    let keys = queue.target.as_ref().map(|target| keys_text(&target.keys));
    let write = if queue.revision == 0 { CREATE_QUEUE } else { REPLACE_QUEUE };
    tx.conn.prepare_cached(write)?.execute(params![
        environment.0,
        queue.name.as_str(),
        queue.revision,
        queue.state.to_db(),
        queue.limit,
        queue.key_limit,
        queue.rate.map(Rate::to_db),
        queue.target.as_ref().map(|target| target.url.as_str()),
        keys,
        tx.now.as_micros(),
    ])?;
    Ok(Replaced::Done(Queue { updated_at: tx.now, revision: queue.revision + 1, ..queue.clone() }))
}

/// What one transaction did of a deletion.
enum Deletion {
    HasJobs,
    /// There may be more lanes.
    Part,
    Whole {
        found: bool,
    },
}

fn delete(tx: &Tx<'_>, environment: EnvironmentId, name: &Name) -> Result<Deletion, Fault> {
    let stats = stats::read(tx.conn, environment, name, tx.now)?;
    if stats.pending + stats.running + stats.dead > 0 {
        return Ok(Deletion::HasJobs);
    }
    let mut delete_lanes = tx.conn.prepare_cached(DELETE_LANE_QUEUE)?;
    let lanes = delete_lanes.execute(params![environment.0, name.as_str(), limit(QUEUE_LANES_DELETED_MAX)])?;
    if lanes == QUEUE_LANES_DELETED_MAX {
        return Ok(Deletion::Part);
    }
    let configured = tx.conn.prepare_cached(DELETE_QUEUE)?.execute(params![environment.0, name.as_str()])?;
    Ok(Deletion::Whole { found: lanes + configured > 0 })
}

pub(crate) fn list_targets(conn: &Connection) -> Result<Vec<(EnvironmentId, Name)>, Fault> {
    let mut list = conn.prepare_cached(LIST_QUEUE_TARGET)?;
    let read = |row: &Row<'_>| {
        let record = Reader::new(row, "queue");
        Ok((record.environment(0)?, record.name(1, "name")?))
    };
    list.query_and_then([], read)?.collect()
}

fn read(row: &Row<'_>) -> Result<(Queue, Timestamp), Fault> {
    read_at(row, 0)
}
