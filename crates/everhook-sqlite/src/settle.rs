//! Ends attempts: writes the task's new state and the log entry, fenced by holder and epoch.
//!
//! A settlement without a matching row changes nothing. It is `Done` only if its own log entry already exists. The end
//! of a job updates its batch in the same transaction. Called by the store's `settle`, on the writer's thread.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use everhook_core::batch::{BatchChange, EndedJobs};
use everhook_core::id::{ApplicationId, AttemptId, BatchId, EndpointId, EnvironmentId, Id, LaneId, SessionId, TaskId};
use everhook_core::job::report::KeptResult;
use everhook_core::lane::{HoldKind, LaneState};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::operational::OperationalEvent;
use everhook_core::outcome::Class;
use everhook_core::policy::breaker::{Breaker, BreakerChange};
use everhook_core::policy::limit::RetryPlace;
use everhook_core::task::{TaskKey, TaskKind, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::batch::ended;
use everhook_store::lease::{NewAttempt, Settled, Settlement};
use everhook_store::made::{Made, WithMade};
use everhook_store::operational::AttemptEvent;
use everhook_store::statement;

use crate::append::{Waits, lower_lane_due};
use crate::batch;
use crate::error::Fault;
use crate::operational;
use crate::order;
use crate::resource::{self, SetLaneState};
use crate::sql::{Prepared, prepare, run};
use crate::writer::Tx;

statement! {
    // Returns the id of a queue that was open.
    StopQueue = "stop_queue" { environment: EnvironmentId, lane: LaneId, now: Timestamp } -> Option<Id>;
    ChangeBreaker = "change_breaker" {
        environment: EnvironmentId, lane: LaneId, seen: Breaker, next: Breaker, open_until: Timestamp,
    };
    StopGroup = "stop_group" { environment: EnvironmentId, id: Id };
    SettleGone = "settle_gone" { key: TaskKey, owner: SessionId, epoch: u32 };
    // Returns the due time.
    SettleKept = "settle_kept" {
        key: TaskKey, owner: SessionId, epoch: u32, state: TaskState, due_at: Option<Timestamp>, tries: u32,
        crashes: u32, is_in_place: bool,
    } -> Option<Timestamp>;
    FindSettled = "find_settled" {
        environment: EnvironmentId, subject: Id, task: TaskId, epoch: u32, attempt: AttemptId,
    } -> Option<i64>;
    pub(crate) AppendAttempt<'a> = "append_attempt" {
        kind: TaskKind, environment: EnvironmentId, subject: Id, task: TaskId, epoch: u32, id: AttemptId,
        session: Option<SessionId>, endpoint: Option<LaneId>, class: Class, end_state: EndState, trigger: Trigger,
        url: &'a str, status: u16, reply: &'a [u8], started_at: Timestamp, duration_us: Duration,
        exchange: Option<&'a str>,
    };
    FreeLane = "free_lane" { environment: EnvironmentId, lane: LaneId, first_kind: HoldKind, last_kind: HoldKind };
    HoldLane = "hold_lane" { environment: EnvironmentId, lane: LaneId, until: Timestamp, kind: HoldKind };
    DisableEndpoint = "disable_endpoint" {
        environment: EnvironmentId, application: ApplicationId, id: LaneId, now: Timestamp,
    };
    PutJobResult<'a> = "put_job_result" {
        environment: EnvironmentId, job: Id, result: Option<&'a [u8]>, result_bytes: Option<usize>, now: Timestamp,
    };
}

/// Ends attempts; one answer for each.
pub(crate) fn settle(tx: &Tx<'_>, settlements: &[Settlement]) -> Result<WithMade<Vec<Settled>>, Fault> {
    // Nearly all attempts have succeeded, so the statements for them are prepared once.
    let mut gone = prepare::<SettleGone>(tx.conn)?;
    let mut log = prepare::<AppendAttempt<'_>>(tx.conn)?;
    let mut batches: BTreeMap<(EnvironmentId, BatchId), EndedJobs> = BTreeMap::new();
    let mut settled = Vec::with_capacity(settlements.len());
    let mut made = Made::default();
    for settlement in settlements {
        let matched = match settlement.row {
            NextRow::Gone => settle_gone(&mut gone, settlement)?,
            NextRow::Pending { due_in } => settle_kept(tx, settlement, Some(tx.now.plus(due_in)))?,
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

fn settle_gone(gone: &mut Prepared<'_>, settlement: &Settlement) -> Result<bool, Fault> {
    let Settlement { key, session, epoch, .. } = *settlement;
    Ok(gone.run(SettleGone { key, owner: session, epoch })? == 1)
}

/// Ends an attempt whose task becomes pending at `due_at`, or dead without it.
fn settle_kept(tx: &Tx<'_>, settlement: &Settlement, due_at: Option<Timestamp>) -> Result<bool, Fault> {
    let Settlement { key, session, epoch, tries, crashes, .. } = *settlement;
    let state = if due_at.is_some() { TaskState::Pending } else { TaskState::Dead };
    let is_in_place = settlement.limits.place != RetryPlace::Moves;
    let kept = SettleKept { key, owner: session, epoch, state, due_at, tries, crashes, is_in_place };
    let kept = run(tx.conn, kept)?;
    if let (Some(kept_at), Some(_)) = (kept, due_at) {
        lower_lane_due(tx, key.environment, settlement.lane, kept_at, Waits::No)?;
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
        run(tx.conn, HoldLane { environment, lane, until: tx.now.plus(hold), kind })?;
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
    let (first_kind, last_kind) = kinds.into_inner();
    run(tx.conn, FreeLane { environment, lane, first_kind, last_kind }).map(drop)
}

fn append_attempt(log: &mut Prepared<'_>, settlement: &Settlement, attempt: &NewAttempt) -> Result<(), Fault> {
    let TaskKey { environment, subject, id: task } = settlement.key;
    let append = AppendAttempt {
        kind: settlement.kind,
        environment,
        subject,
        task,
        epoch: settlement.epoch,
        id: attempt.id,
        session: settlement.logged_session(),
        endpoint: settlement.logged_endpoint(),
        class: attempt.class,
        end_state: attempt.end,
        trigger: attempt.trigger,
        url: &attempt.url,
        status: attempt.status,
        reply: &attempt.reply,
        started_at: attempt.started_at,
        duration_us: attempt.duration,
        exchange: attempt.exchange_text(),
    };
    log.run(append).map(drop)
}

fn keep_result(tx: &Tx<'_>, settlement: &Settlement, result: &KeptResult) -> Result<(), Fault> {
    let (result, result_bytes) = match result {
        KeptResult::Whole(whole) => (Some(&whole[..]), None),
        KeptResult::TooLarge { bytes } => (None, Some(*bytes)),
    };
    let TaskKey { environment, subject: job, .. } = settlement.key;
    run(tx.conn, PutJobResult { environment, job, result, result_bytes, now: tx.now }).map(drop)
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
    let TaskKey { environment, subject, id: task } = settlement.key;
    let find = FindSettled { environment, subject, task, epoch: settlement.epoch, attempt: attempt.id };
    Ok(run(tx.conn, find)?.is_some())
}

/// Disables the endpoint of the settlement's lane, unless it is disabled or deleted already.
fn disable_endpoint(tx: &Tx<'_>, settlement: &Settlement) -> Result<Made, Fault> {
    let (environment, lane) = (settlement.key.environment, settlement.lane);
    let Some(application) = operational::application_of(tx, environment, lane)? else { return Ok(Made::default()) };
    if run(tx.conn, DisableEndpoint { environment, application, id: lane, now: tx.now })? == 0 {
        return Ok(Made::default());
    }
    run(tx.conn, SetLaneState { environment, id: lane, state: LaneState::Held })?;
    resource::touch_group(tx, environment, application)?;
    let (id, event) = (EndpointId(lane.0), OperationalEvent::EndpointDisabled);
    operational::tell_lost_endpoint(tx, environment, application, id, event)
}
