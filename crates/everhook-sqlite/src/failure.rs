//! Failure groups: dead deliveries by endpoint and class, and the marks of operators.

use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::time::Timestamp;
use everhook_store::failure::{DeadCount, FailureGroups, FailureNote, MarkRow};
use everhook_store::sql::param::StoreClock;
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    ListDeadLane<'a> = "list_dead_lane" { environment: EnvironmentId, after: &'a [u8], limit: usize } -> Vec<EndpointId>;
    CountDead = "count_dead" { environment: EnvironmentId, lane: EndpointId, counted_max: usize } -> Vec<DeadCount>;
    ListFailureMark = "list_failure_mark" { environment: EnvironmentId, endpoint: EndpointId } -> Vec<MarkRow>;
}

/// Lists the groups of the next lanes with dead tasks.
pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    after: Option<EndpointId>,
    (limit, counted_max): (usize, usize),
) -> Result<FailureGroups, Fault> {
    let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
    let lanes = run(conn, ListDeadLane { environment, after: &after, limit })?;
    let next = lanes.last().copied().filter(|_| lanes.len() == limit);
    read(conn, environment, &lanes, counted_max, next)
}

/// Reads the groups of one endpoint.
pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    endpoint: EndpointId,
    counted_max: usize,
) -> Result<FailureGroups, Fault> {
    read(conn, environment, &[endpoint], counted_max, None)
}

fn read(
    conn: &Connection,
    environment: EnvironmentId,
    lanes: &[EndpointId],
    counted_max: usize,
    next: Option<EndpointId>,
) -> Result<FailureGroups, Fault> {
    let (mut counts, mut marks) = (Vec::new(), Vec::new());
    for lane in lanes {
        counts.extend(run(conn, CountDead { environment, lane: *lane, counted_max })?);
        marks.extend(run(conn, ListFailureMark { environment, endpoint: *lane })?);
    }
    Ok(FailureGroups::fold(counts, marks, next))
}

/// Marks a group; returns the time of the mark.
pub(crate) fn mark(tx: &Tx<'_>, environment: EnvironmentId, note: &FailureNote) -> Result<Timestamp, Fault> {
    let put = note.put(environment, StoreClock::At(tx.now));
    run(tx.conn, put)?.ok_or(Fault::Corrupt { table: "failure_mark", column: "marked_at" })
}
