//! Queues as users see them.

use everhook_core::id::EnvironmentId;
use everhook_core::limits::QUEUE_LANES_DELETED_MAX;
use everhook_core::name::Name;
use everhook_core::queue::Queue;
use everhook_store::catalog::{Order, Slice};
use everhook_store::error::StoreError;
use everhook_store::piece::names_beyond;
use everhook_store::resource::{Deleted, ResourceKey};
use everhook_store::statement;
use everhook_store::store::Op;

use crate::SqliteStore;
use crate::connection::Connection;
use crate::error::Fault;
use crate::resource;
use crate::sql::run;
use crate::writer::Tx;

pub(crate) mod stats;

statement! {
    // The inner option is none for a queue without configuration.
    FindQueue<'a> = "find_queue" { environment: EnvironmentId, name: &'a Name } -> Option<Option<Queue>>;
    ListQueue<'a> = "list_queue" { environment: EnvironmentId, above: &'a str, below: &'a str, order: Order }
        -> Option<Name>;
    DeleteLaneQueue<'a> = "delete_lane_queue" { environment: EnvironmentId, queue: &'a Name, limit: usize };
    ListQueueTarget = "list_queue_target" {} -> Vec<(EnvironmentId, Name)>;
}

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
    let stats = stats::read(tx.conn, environment, name, tx.now)?;
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
