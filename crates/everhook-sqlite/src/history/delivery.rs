//! Where deliveries stand, and putting them back.

use std::collections::BTreeMap;

use everhook_core::delivery::{self, DeliveryTrace, EndpointPresence};
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId, TaskId};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::REDRIVE_BATCH_MAX;
use everhook_core::task::{TaskKey, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::catalog::Locator;
use everhook_store::history::{Destination, Redrive, Resend, Resent};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::append::{Waits, add_pending, lower_lane_due};
use crate::catalog::{Claim, claim, endpoint, limit, release};
use crate::error::Fault;
use crate::rows::{self, ABOVE_IDS, BELOW_IDS, ENDPOINT_COLUMNS, Reader};
use crate::writer::Tx;

const LIST_DESTINATION: &str = include_str!("../../queries/list_destination.sql");
const REDRIVE_TASK: &str = include_str!("../../queries/redrive_task.sql");

/// One life of a delivery, as one row of the list tells it.
struct Life {
    endpoint: Endpoint,
    presence: EndpointPresence,
    /// Which life is newer: by task; an open task beats what is logged of it; then by lease.
    rank: (Id, bool, u32),
    trace: DeliveryTrace,
    due_at: Option<Timestamp>,
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    message: MessageId,
) -> Result<Vec<Destination>, Fault> {
    let mut list = conn.prepare_cached(LIST_DESTINATION)?;
    let params = params![environment.0, application.as_bytes(), message.as_bytes()];
    let mut newest: BTreeMap<EndpointId, Life> = BTreeMap::new();
    for life in list.query_and_then(params, read_life)? {
        let life = life?;
        if newest.get(&life.endpoint.id).is_none_or(|known| known.rank < life.rank) {
            newest.insert(life.endpoint.id, life);
        }
    }
    Ok(newest.into_values().map(destination).collect())
}

fn read_life(row: &Row<'_>) -> Result<Life, Fault> {
    let endpoint = rows::endpoint(row)?;
    let record = Reader::new(row, "task");
    let presence = if !record.is_null(ENDPOINT_COLUMNS)? {
        EndpointPresence::Deleted
    } else if endpoint.state == EndpointState::Enabled {
        EndpointPresence::Enabled
    } else {
        EndpointPresence::Disabled
    };
    let task = record.id(ENDPOINT_COLUMNS + 1, "id")?;
    let epoch = record.get(ENDPOINT_COLUMNS + 2, "epoch")?;
    let is_open = !record.is_null(ENDPOINT_COLUMNS + 3)?;
    let (trace, due_at) = if is_open {
        let state = record.variant(ENDPOINT_COLUMNS + 3, "state", TaskState::from_db)?;
        let due_at = record.time(ENDPOINT_COLUMNS + 4, "due_at")?;
        (DeliveryTrace::Open(state), (state == TaskState::Pending).then_some(due_at))
    } else {
        let end = record.variant(ENDPOINT_COLUMNS + 5, "end_state", EndState::from_db)?;
        (DeliveryTrace::Ended(end), None)
    };
    Ok(Life { endpoint, presence, rank: (task, is_open, epoch), trace, due_at })
}

fn destination(life: Life) -> Destination {
    let next_attempt = life.due_at.filter(|_| life.presence == EndpointPresence::Enabled);
    Destination { state: delivery::state(life.trace, life.presence), endpoint: life.endpoint, next_attempt }
}

/// Adds a task for one manual attempt.
pub(crate) fn resend(tx: &Tx<'_>, environment: EnvironmentId, resend: &Resend) -> Result<Resent, Fault> {
    let Resend { application, message, endpoint, key } = resend;
    match claim(tx, environment, key.as_ref(), message.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Resent::KeyReused),
        Claim::Repeated(_) => return Ok(Resent::Repeated),
    }
    let has_payload = has_payload(tx, environment, *application, *message)?;
    let found = endpoint::find(tx.conn, environment, *application, &Locator::Id(*endpoint))?;
    let refused = match has_payload {
        None => Some(Resent::NotFound),
        _ if found.is_none() => Some(Resent::NotFound),
        Some(false) => Some(Resent::NoPayload),
        Some(true) => None,
    };
    if let Some(refused) = refused {
        release(tx, environment, key.as_ref(), message.0)?;
        return Ok(refused);
    }
    let key = TaskKey { environment, subject: message.0, id: TaskId(tx.ids.next(tx.now)) };
    add_pending(tx, &new_delivery(key, endpoint.lane(), Trigger::Manual, tx.now))?;
    Ok(Resent::Pending)
}

/// Whether a message still has its payload; none if there is no such message.
fn has_payload(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    message: MessageId,
) -> Result<Option<bool>, Fault> {
    let mut find = tx.conn.prepare_cached(
        "select payload is not null from message where environment = ?1 and application = ?2 and id = ?3",
    )?;
    let params = params![environment.0, application.as_bytes(), message.as_bytes()];
    Ok(find.query_row(params, |row| row.get(0)).optional()?)
}

/// Puts dead deliveries back to pending, due now.
pub(crate) fn redrive(tx: &Tx<'_>, environment: EnvironmentId, redrive: &Redrive) -> Result<usize, Fault> {
    let lane = redrive.endpoint.lane();
    let (since, until) = (redrive.since.map(Id::floor), redrive.until.map(Id::floor));
    let redriven = tx.conn.prepare_cached(REDRIVE_TASK)?.execute(params![
        environment.0,
        lane.as_bytes(),
        since.as_ref().map_or(BELOW_IDS, |id| id.as_bytes()),
        until.as_ref().map_or(ABOVE_IDS, |id| id.as_bytes()),
        redrive.message.as_ref().map(|message| message.as_bytes()),
        limit(redrive.limit.min(REDRIVE_BATCH_MAX)),
        tx.now.as_micros(),
    ])?;
    if redriven > 0 {
        lower_lane_due(tx, environment, lane, tx.now.as_micros(), Waits::No)?;
    }
    Ok(redriven)
}
