//! Settles attempts, fenced by task, epoch and session.

use std::collections::BTreeMap;

use everhook_core::batch::{BatchChange, EndedJobs};
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{BatchId, EndpointId, EnvironmentId};
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::NextRow;
use everhook_core::task::TaskKind;
use everhook_core::time::Timestamp;
use everhook_store::batch;
use everhook_store::ids::Ids;
use everhook_store::lease::{Settled, Settlement};
use everhook_store::made::{Made, WithMade};

use crate::mem::tables::{AttemptRow, Tables, TaskPlace, TaskRow};
use crate::mem::{job, queue, resource};

/// Settles attempts, and applies all ends of jobs to their batches at once, as in one transaction.
pub(super) fn settle(tables: &mut Tables, ids: &Ids, now: Timestamp, batch: &[Settlement]) -> WithMade<Vec<Settled>> {
    let mut told: BTreeMap<(EnvironmentId, BatchId), EndedJobs> = BTreeMap::new();
    let mut settled = Vec::with_capacity(batch.len());
    let mut made = Made::default();
    for settlement in batch {
        let holder = tables.tasks.get(&settlement.key).map(|row| (row.place, row.task.epoch));
        let counts = holder == Some((TaskPlace::Leased(settlement.session), settlement.epoch));
        settled.push(settle_one(tables, now, settlement));
        if counts && settlement.stop_lane {
            stop_lane(tables, now, settlement);
        }
        let ended = settlement.attempt.as_ref().and_then(|attempt| batch::ended(attempt.end));
        if let (true, Some(id), Some(ended)) = (counts, settlement.batch, ended) {
            *told.entry((settlement.key.environment, id)).or_default() += ended;
        }
    }
    for (id, ended) in told {
        let told = super::batch::tell(tables, ids, now, id, BatchChange::Ended(ended));
        made += told.expect("the jobs were pending");
    }
    made.with(settled)
}

/// Settles one attempt if the session still holds the task; otherwise changes nothing.
fn settle_one(tables: &mut Tables, now: Timestamp, settlement: &Settlement) -> Settled {
    let held =
        |row: &&mut TaskRow| row.place == TaskPlace::Leased(settlement.session) && row.task.epoch == settlement.epoch;
    let Some(row) = tables.tasks.get_mut(&settlement.key).filter(held) else {
        return if was_settled(tables, settlement) { Settled::Done } else { Settled::Lost };
    };
    let task = row.task;
    row.task.tries = settlement.tries;
    row.task.crashes = settlement.crashes;
    let environment = settlement.key.environment;
    match settlement.row {
        NextRow::Gone => drop(tables.tasks.remove(&settlement.key)),
        NextRow::Dead => row.let_go_in(TaskPlace::Dead, settlement.limits.place),
        NextRow::Pending { due_in } => {
            row.let_go_in(TaskPlace::Pending, settlement.limits.place);
            if row.limit_group.is_none() {
                row.task.due_at = now.plus(due_in);
            }
            let due_at = row.task.due_at;
            if let Some(lane) = tables.lane(environment, settlement.lane) {
                lane.touch(due_at);
            }
        }
    }
    if settlement.ended_key().is_some() {
        tables.promote(&task, now);
    }
    if let Some(attempt) = settlement.attempt.clone() {
        let session = attempt.holder.unwrap_or(settlement.session);
        let row = AttemptRow { endpoint: EndpointId(settlement.lane.0), session, attempt };
        tables.attempts.insert((settlement.key, settlement.epoch), row);
    }
    if let Some(lane) = tables.lane(environment, settlement.lane)
        && settlement.limits.is_freed
        && [HoldKind::Concurrency, HoldKind::Order].contains(&lane.hold_kind)
    {
        (lane.hold_until, lane.hold_kind) = (Timestamp::default(), HoldKind::BackOff);
    }
    if let (Some(change), Some(lane)) = (settlement.limits.breaker, tables.lane(environment, settlement.lane))
        && lane.breaker == change.from
    {
        lane.breaker = change.to;
        let until = change.open_for.map_or(Timestamp::default(), |open_for| now.plus(open_for));
        if lane.hold_until < until {
            (lane.hold_until, lane.hold_kind) = (until, HoldKind::Breaker);
        }
    }
    let retry = Some(settlement.retry_hold()).filter(|hold| !hold.is_zero());
    for (hold, kind) in [(settlement.hold_lane, HoldKind::BackOff), (retry, HoldKind::Retry)] {
        if let (Some(hold), Some(lane)) = (hold, tables.lane(environment, settlement.lane))
            && lane.hold_until < now.plus(hold)
        {
            (lane.hold_until, lane.hold_kind) = (now.plus(hold), kind);
        }
    }
    job::keep_result(tables, settlement);
    Settled::Done
}

/// Returns whether this settlement was already recorded, so that its repetition after a lost reply succeeds.
fn was_settled(tables: &Tables, settlement: &Settlement) -> bool {
    let logged = tables.attempts.get(&(settlement.key, settlement.epoch)).map(|row| row.attempt.id);
    logged.is_some() && logged == settlement.attempt.as_ref().map(|attempt| attempt.id)
}

/// Stops a lane. An endpoint that wants no more requests is disabled; its remaining tasks wait until an operator
/// enables it again.
fn stop_lane(tables: &mut Tables, now: Timestamp, settlement: &Settlement) {
    let (environment, lane) = (settlement.key.environment, settlement.lane);
    if settlement.kind == TaskKind::Job {
        return queue::stop(tables, environment, lane, now);
    }
    let id = EndpointId(lane.0);
    let known = tables.endpoint(environment, id);
    let is_enabled = known.is_some_and(|(endpoint, _)| endpoint.state == EndpointState::Enabled);
    if is_enabled {
        resource::set_endpoint_state(tables, environment, id, EndpointState::Gone);
    }
}
