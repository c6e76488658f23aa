//! Resend and redrive: one more attempt on request, and dead deliveries made pending again.

use std::collections::BTreeSet;

use everhook_core::id::{ApplicationId, EnvironmentId, Id, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::policy::order::OrderKey;
use everhook_core::task::{TaskKey, Trigger};
use everhook_store::append::new_delivery;
use everhook_store::history::{Redrive, Resend, Resent};
use everhook_store::row;
use rusqlite::{OptionalExtension, params};

use crate::append::{Waits, add_pending, lower_lane_due};
use crate::dedup::{Claim, claim, unclaim};
use crate::error::Fault;
use crate::order;
use crate::resource;
use crate::settle::free_lane;
use crate::sql::{ABOVE_IDS, BELOW_IDS, limit};
use crate::writer::Tx;

const REDRIVE_TASK: &str = include_str!("../../queries/redrive_task.sql");

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
