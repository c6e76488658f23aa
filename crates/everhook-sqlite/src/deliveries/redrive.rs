//! Resend and redrive: one more attempt on request, and dead deliveries made pending again.

use std::collections::BTreeSet;

use everhook_core::id::{ApplicationId, EnvironmentId, Id, LaneId, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::policy::order::OrderKey;
use everhook_core::task::{TaskKey, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::history::{Redrive, Resend, Resent};
use everhook_store::statement;

use crate::append::{Waits, add_pending, lower_lane_due};
use crate::dedup::{Claim, claim, unclaim};
use crate::error::Fault;
use crate::order;
use crate::resource;
use crate::settle::free_lane;
use crate::sql::{ABOVE_IDS, BELOW_IDS, run};
use crate::writer::Tx;

statement! {
    HasPayload = (
        "has_payload",
        "select payload is not null from message where environment = :environment and application = :application and id = :id"
    ) { environment: EnvironmentId, application: ApplicationId, id: MessageId } -> Option<bool>;
    // Returns the keys that order the deliveries.
    RedriveTask<'a> = "redrive_task" {
        environment: EnvironmentId, lane: LaneId, since: &'a [u8], until: &'a [u8], message: Option<MessageId>,
        limit: usize, now: Timestamp,
    } -> Vec<Option<OrderKey>>;
}

pub(crate) fn resend(tx: &Tx<'_>, environment: EnvironmentId, resend: &Resend) -> Result<Resent, Fault> {
    let Resend { application, message, endpoint, key } = resend;
    match claim(tx, environment, key.as_ref(), message.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Resent::KeyReused),
        Claim::Repeated(_) => return Ok(Resent::Repeated),
    }
    let has_payload = run(tx.conn, HasPayload { environment, application: *application, id: *message })?;
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

/// Makes dead deliveries pending again, due now.
pub(crate) fn redrive(tx: &Tx<'_>, environment: EnvironmentId, redrive: &Redrive) -> Result<usize, Fault> {
    let lane = redrive.endpoint.lane();
    let (since, until) = (redrive.since.map(Id::floor), redrive.until.map(Id::floor));
    let redrive = RedriveTask {
        environment,
        lane,
        since: since.as_ref().map_or(BELOW_IDS, |id| id.as_bytes()),
        until: until.as_ref().map_or(ABOVE_IDS, |id| id.as_bytes()),
        message: redrive.message,
        limit: redrive.limit,
        now: tx.now,
    };
    let keys = run(tx.conn, redrive)?;
    let redriven = keys.len();
    for key in keys.into_iter().flatten().collect::<BTreeSet<OrderKey>>() {
        order::promote_key(tx, environment, lane, key)?;
    }
    if redriven > 0 {
        lower_lane_due(tx, environment, lane, tx.now, Waits::No)?;
        free_lane(tx, environment, lane, HoldKind::Blocked..=HoldKind::Blocked)?;
    }
    Ok(redriven)
}
