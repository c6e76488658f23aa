//! Ends attempts: writes the task's new state and the log entry, fenced by holder and epoch.
//!
//! A settlement without a matching row changes nothing. It is `Done` only if its own log entry already exists. The end
//! of a job updates its batch in the same transaction. Called by the store's `settle`, on the writer's thread.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use everhook_core::batch::{BatchChange, EndedJobs};
use everhook_core::id::{BatchId, EndpointId, EnvironmentId, Id, LaneId, SessionId};
use everhook_core::job::report::KeptResult;
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::NextRow;
use everhook_core::operational::OperationalEvent;
use everhook_core::policy::breaker::{Breaker, BreakerChange};
use everhook_core::policy::limit::RetryPlace;
use everhook_core::task::{TaskKind, TaskState};
use everhook_core::time::{Timestamp, micros};
use everhook_store::batch::ended;
use everhook_store::lease::{NewAttempt, Settled, Settlement};
use everhook_store::made::{Made, WithMade};
use everhook_store::operational::AttemptEvent;
use everhook_store::statement;
use rusqlite::{CachedStatement, OptionalExtension, params};

use crate::append::{Waits, lower_lane_due};
use crate::batch;
use crate::error::Fault;
use crate::operational;
use crate::order;
use crate::resource;
use crate::sql::run;
use crate::writer::Tx;

const SETTLE_GONE: &str = include_str!("../queries/settle_gone.sql");
const SETTLE_KEPT: &str = include_str!("../queries/settle_kept.sql");
const FIND_SETTLED: &str = include_str!("../queries/find_settled.sql");
const APPEND_ATTEMPT: &str = include_str!("../queries/append_attempt.sql");
const FREE_LANE: &str = include_str!("../queries/free_lane.sql");
const HOLD_LANE: &str = include_str!("../queries/hold_lane.sql");
const DISABLE_ENDPOINT: &str = include_str!("../queries/disable_endpoint.sql");
const SET_LANE_STATE: &str = include_str!("../queries/set_lane_state.sql");
const PUT_JOB_RESULT: &str = include_str!("../queries/put_job_result.sql");

statement! {
    // Returns the id of a queue that was open.
    StopQueue = "stop_queue" { environment: EnvironmentId, lane: LaneId, now: Timestamp } -> Option<Id>;
    ChangeBreaker = "change_breaker" {
        environment: EnvironmentId, lane: LaneId, seen: Breaker, next: Breaker, open_until: Timestamp,
    };
    StopGroup = "stop_group" { environment: EnvironmentId, id: Id };
}

/// Ends attempts; one answer for each.
pub(crate) fn settle(tx: &Tx<'_>, settlements: &[Settlement]) -> Result<WithMade<Vec<Settled>>, Fault> {
    // Nearly all attempts have succeeded, so the statements for them are prepared once.
    let mut gone = tx.conn.prepare_cached(SETTLE_GONE)?;
    let mut log = tx.conn.prepare_cached(APPEND_ATTEMPT)?;
    let mut batches: BTreeMap<(EnvironmentId, BatchId), EndedJobs> = BTreeMap::new();
    let mut settled = Vec::with_capacity(settlements.len());
    let mut made = Made::default();
    for settlement in settlements {
        let matched = match settlement.row {
            NextRow::Gone => settle_gone(&mut gone, settlement)?,
            NextRow::Pending { due_in } => settle_kept(tx, settlement, Some(tx.now.plus(due_in).as_micros()))?,
            NextRow::Dead => settle_kept(tx, settlement, None)?,
        };
        if !matched {
            settled.push(if was_settled(tx, settlement)? { Settled::Done } else { Settled::Lost });
            continue;
        }
        if let Some(attempt) = &settlement.attempt {
            append_attempt(&mut log, settlement, attempt)?;
            if let (Some(batch), Some(ended)) = (settlement.batch, ended(attempt.end)) {
                *batches.entry((settlement.key.environment, batch)).or_default() += ended;
            }
        }
        change_holds(tx, settlement)?;
        if let Some((environment, lane, key)) = settlement.ended_key() {
            order::promote_key(tx, environment, lane, key)?;
        }
        if let Some(result) = &settlement.result {
            keep_result(tx, settlement, result)?;
        }
        if settlement.stop_lane {
            made += stop_lane(tx, settlement)?;
        }
        if let Some(event) = AttemptEvent::of(settlement) {
            made += operational::tell_attempt(tx, &event)?;
        }
        settled.push(Settled::Done);
    }
    for ((environment, id), ended) in batches {
        made += batch::tell(tx, environment, id, BatchChange::Ended(ended))?;
    }
    Ok(made.with(settled))
}

fn settle_gone(gone: &mut CachedStatement<'_>, settlement: &Settlement) -> Result<bool, Fault> {
    let key = &settlement.key;
    let changed = gone.execute(params![
        key.environment.0,
        key.subject.as_bytes(),
        key.id.as_bytes(),
        settlement.session.as_bytes(),
        settlement.epoch,
    ])?;
    Ok(changed == 1)
}

/// Ends an attempt whose task becomes pending at `due`, or dead without it.
fn settle_kept(tx: &Tx<'_>, settlement: &Settlement, due: Option<i64>) -> Result<bool, Fault> {
    let key = &settlement.key;
    let state = if due.is_some() { TaskState::Pending } else { TaskState::Dead };
    let params = params![
        key.environment.0,
        key.subject.as_bytes(),
        key.id.as_bytes(),
        settlement.session.as_bytes(),
        settlement.epoch,
        state.to_db(),
        due,
        settlement.tries,
        settlement.crashes,
        settlement.limits.place != RetryPlace::Moves,
    ];
    let kept: Option<i64> = tx.conn.prepare_cached(SETTLE_KEPT)?.query_row(params, |row| row.get(0)).optional()?;
    if let (Some(due_at), Some(_)) = (kept, due) {
        lower_lane_due(tx, key.environment, settlement.lane, due_at, Waits::No)?;
    }
    Ok(kept.is_some())
}

/// Ends the hold of a lane at its limit, changes its breaker, and holds the lane for its receiver or for the retry of
/// its first task. Old holds end first, or a new hold would end at once.
fn change_holds(tx: &Tx<'_>, settlement: &Settlement) -> Result<(), Fault> {
    let (environment, lane) = (settlement.key.environment, settlement.lane);
    if settlement.limits.is_freed {
        free_lane(tx, environment, lane, HoldKind::Concurrency..=HoldKind::Order)?;
    }
    if let Some(BreakerChange { from: seen, to: next, open_for }) = settlement.limits.breaker {
        let open_until = open_for.map_or(Timestamp::default(), |open_for| tx.now.plus(open_for));
        run(tx.conn, ChangeBreaker { environment, lane, seen, next, open_until })?;
    }
    let retry = Some(settlement.retry_hold()).filter(|hold| !hold.is_zero());
    for (hold, kind) in [(settlement.hold_lane, HoldKind::BackOff), (retry, HoldKind::Retry)] {
        let Some(hold) = hold else { continue };
        let (until, mut statement) = (tx.now.plus(hold).as_micros(), tx.conn.prepare_cached(HOLD_LANE)?);
        statement.execute(params![environment.0, lane.as_bytes(), until, kind.to_db()])?;
    }
    Ok(())
}

/// Ends the hold of a lane if it is of one of these kinds.
pub(crate) fn free_lane(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    lane: LaneId,
    kinds: RangeInclusive<HoldKind>,
) -> Result<(), Fault> {
    let (first, last) = (kinds.start().to_db(), kinds.end().to_db());
    tx.conn.prepare_cached(FREE_LANE)?.execute(params![environment.0, lane.as_bytes(), first, last])?;
    Ok(())
}

fn append_attempt(log: &mut CachedStatement<'_>, settlement: &Settlement, attempt: &NewAttempt) -> Result<(), Fault> {
    let key = &settlement.key;
    log.execute(params![
        settlement.kind.to_db(),
        key.environment.0,
        key.subject.as_bytes(),
        key.id.as_bytes(),
        settlement.epoch,
        attempt.id.as_bytes(),
        settlement.logged_session().as_ref().map(SessionId::as_bytes),
        settlement.logged_endpoint().as_ref().map(LaneId::as_bytes),
        attempt.class.to_db(),
        attempt.end.to_db(),
        attempt.trigger.to_db(),
        attempt.url,
        attempt.status,
        &attempt.reply[..],
        attempt.started_at.as_micros(),
        micros(attempt.duration),
        attempt.exchange_text(),
    ])?;
    Ok(())
}

fn keep_result(tx: &Tx<'_>, settlement: &Settlement, result: &KeptResult) -> Result<(), Fault> {
    let (whole, bytes) = match result {
        KeptResult::Whole(whole) => (Some(&whole[..]), None),
        KeptResult::TooLarge { bytes } => (None, Some(i64::try_from(*bytes).unwrap_or(i64::MAX))),
    };
    let (environment, job) = (settlement.key.environment, settlement.key.subject);
    let params = params![environment.0, job.as_bytes(), whole, bytes, tx.now.as_micros()];
    tx.conn.prepare_cached(PUT_JOB_RESULT)?.execute(params)?;
    Ok(())
}

/// Stops the settlement's lane. Returns the messages that report it.
fn stop_lane(tx: &Tx<'_>, settlement: &Settlement) -> Result<Made, Fault> {
    match settlement.kind {
        TaskKind::Delivery => disable_endpoint(tx, settlement),
        TaskKind::Job => {
            let (environment, lane) = (settlement.key.environment, settlement.lane);
            let stopped = run(tx.conn, StopQueue { environment, lane, now: tx.now })?;
            stopped.map_or(Ok(()), |id| run(tx.conn, StopGroup { environment, id }).map(drop))?;
            Ok(Made::default())
        }
    }
}

/// Whether this settlement was written before.
fn was_settled(tx: &Tx<'_>, settlement: &Settlement) -> Result<bool, Fault> {
    let Some(attempt) = &settlement.attempt else { return Ok(false) };
    let key = &settlement.key;
    let mut find = tx.conn.prepare_cached(FIND_SETTLED)?;
    Ok(find.exists(params![
        key.environment.0,
        key.subject.as_bytes(),
        key.id.as_bytes(),
        settlement.epoch,
        attempt.id.as_bytes(),
    ])?)
}

/// Disables the endpoint of the settlement's lane, unless it is disabled or deleted already.
fn disable_endpoint(tx: &Tx<'_>, settlement: &Settlement) -> Result<Made, Fault> {
    let (environment, lane) = (settlement.key.environment, settlement.lane);
    let Some(application) = operational::application_of(tx, environment, lane)? else { return Ok(Made::default()) };
    let mut disable = tx.conn.prepare_cached(DISABLE_ENDPOINT)?;
    let disabled =
        disable.execute(params![environment.0, application.as_bytes(), lane.as_bytes(), tx.now.as_micros()])?;
    if disabled == 0 {
        return Ok(Made::default());
    }
    tx.conn.prepare_cached(SET_LANE_STATE)?.execute(params![environment.0, lane.as_bytes(), 1])?;
    resource::touch_group(tx, environment, application)?;
    let (id, event) = (EndpointId(lane.0), OperationalEvent::EndpointDisabled);
    operational::tell_lost_endpoint(tx, environment, application, id, event)
}
