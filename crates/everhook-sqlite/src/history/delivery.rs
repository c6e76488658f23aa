//! Delivery states, resend and redrive.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::delivery::{self, DeliveryTrace, EndpointPresence};
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::EndState;
use everhook_core::policy::order::OrderKey;
use everhook_core::task::{TaskKey, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::history::{Destination, Redrive, Resend, Resent};
use everhook_store::{row, statement};
use rusqlite::{OptionalExtension, params};

use crate::append::{Waits, add_pending, lower_lane_due};
use crate::connection::Connection;
use crate::dedup::{Claim, claim, unclaim};
use crate::error::Fault;
use crate::order;
use crate::resource;
use crate::rows::{ABOVE_IDS, BELOW_IDS};
use crate::settle::free_lane;
use crate::sql::{limit, run};
use crate::writer::Tx;

const REDRIVE_TASK: &str = include_str!("../../queries/redrive_task.sql");

statement! {
    // Returns an endpoint, the time of its deletion, and one life of a delivery to it.
    ListDestination = "list_destination" {
        environment: EnvironmentId, application: ApplicationId, message: MessageId,
    } -> Vec<(Endpoint, Option<Timestamp>, TraceRow)>;
}

row! {
    struct TraceRow in "task" {
        task: Id,
        epoch: u32,
        state: Option<TaskState>,
        due_at: Option<Timestamp>,
        end_state: Option<EndState>,
    }
}

/// One life of a delivery.
struct Life {
    endpoint: Endpoint,
    presence: EndpointPresence,
    /// The newest life counts: by task, then an open task before its attempts, then by epoch.
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
    let mut newest: BTreeMap<EndpointId, Life> = BTreeMap::new();
    for (endpoint, deleted_at, row) in run(conn, ListDestination { environment, application, message })? {
        let life = read_life(endpoint, deleted_at, &row)?;
        if newest.get(&life.endpoint.id).is_none_or(|known| known.rank < life.rank) {
            newest.insert(life.endpoint.id, life);
        }
    }
    Ok(newest.into_values().map(destination).collect())
}

fn read_life(endpoint: Endpoint, deleted_at: Option<Timestamp>, row: &TraceRow) -> Result<Life, Fault> {
    let presence = EndpointPresence::of(&endpoint, deleted_at.is_some());
    let (trace, due_at) = match (row.state, row.end_state) {
        (Some(state), _) => {
            (DeliveryTrace::Open(state), row.due_at.filter(|at| state == TaskState::Pending && *at < Timestamp::NEVER))
        }
        (None, Some(end)) => (DeliveryTrace::Ended(end), None),
        (None, None) => return Err(Fault::Corrupt { table: "task", column: "end_state" }),
    };
    Ok(Life { endpoint, presence, rank: (row.task, row.state.is_some(), row.epoch), trace, due_at })
}

fn destination(life: Life) -> Destination {
    let next_attempt = life.due_at.filter(|_| life.presence == EndpointPresence::Enabled);
    Destination { state: delivery::state(life.trace, life.presence), endpoint: life.endpoint, next_attempt }
}

pub(crate) fn resend(tx: &Tx<'_>, environment: EnvironmentId, resend: &Resend) -> Result<Resent, Fault> {
    let Resend { application, message, endpoint, key } = resend;
    match claim(tx, environment, key.as_ref(), message.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Resent::KeyReused),
        Claim::Repeated(_) => return Ok(Resent::Repeated),
    }
    let has_payload = has_payload(tx, environment, *application, *message)?;
    let found = resource::find_endpoint(tx.conn, environment, *application, *endpoint)?;
    let refused = match has_payload {
        None => Some(Resent::NotFound),
        _ if found.is_none() => Some(Resent::NotFound),
        Some(false) => Some(Resent::NoPayload),
        Some(true) => None,
    };
    if let Some(refused) = refused {
        unclaim(tx, environment, key.as_ref(), message.0)?;
        return Ok(refused);
    }
    let key = TaskKey { environment, subject: message.0, id: TaskId(tx.ids.next(tx.now)) };
    add_pending(tx, &new_delivery(key, endpoint.lane(), Trigger::Manual, tx.now))?;
    Ok(Resent::Pending)
}

/// Whether a message still has its payload; none if the message does not exist.
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

/// Makes dead deliveries pending again, due now.
pub(crate) fn redrive(tx: &Tx<'_>, environment: EnvironmentId, redrive: &Redrive) -> Result<usize, Fault> {
    let lane = redrive.endpoint.lane();
    let (since, until) = (redrive.since.map(Id::floor), redrive.until.map(Id::floor));
    let mut redrive_task = tx.conn.prepare_cached(REDRIVE_TASK)?;
    let params = params![
        environment.0,
        lane.as_bytes(),
        since.as_ref().map_or(BELOW_IDS, |id| id.as_bytes()),
        until.as_ref().map_or(ABOVE_IDS, |id| id.as_bytes()),
        redrive.message.as_ref().map(|message| message.as_bytes()),
        limit(redrive.limit),
        tx.now.as_micros(),
    ];
    let keys = redrive_task.query_map(params, |row| row.get::<_, Option<i64>>(0))?;
    let keys = keys.collect::<Result<Vec<Option<i64>>, _>>()?;
    let redriven = keys.len();
    for key in keys.into_iter().flatten().collect::<BTreeSet<i64>>() {
        order::promote_key(tx, environment, lane, OrderKey(key))?;
    }
    if redriven > 0 {
        lower_lane_due(tx, environment, lane, tx.now.as_micros(), Waits::No)?;
        free_lane(tx, environment, lane, HoldKind::Blocked..=HoldKind::Blocked)?;
    }
    Ok(redriven)
}
