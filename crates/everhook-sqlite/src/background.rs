//! Slices of bulk work, and the background tasks of an environment.

use everhook_core::background::replay::Replay;
use everhook_core::background::selection::BulkSelection;
use everhook_core::background::{Effect, Purge};
use everhook_core::delivery::{DeliveryAction, DeliveryCommand};
use everhook_core::id::{EndpointId, EnvironmentId, JobId, MessageId, SERVER_ENVIRONMENT, TaskId};
use everhook_core::job::LeaseLost;
use everhook_core::job::report::KeptResult;
use everhook_core::limits::RESULT_BYTES_MAX;
use everhook_core::message::Message;
use everhook_core::policy::order::OrderKey;
use everhook_core::scope::AppScope;
use everhook_core::task::{TaskKey, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::background::{
    Advance, Advanced, AttemptCount, BackgroundFilter, BulkWork, SliceRead, SliceRows, owner_key,
};
use everhook_store::catalog::Order;
use everhook_store::job::{JobRecord, job_bytes};
use everhook_store::piece::{IdRange, Piece};
use everhook_store::query::CountAttempts;
use everhook_store::sql::rows::CandidateRow;
use everhook_store::sql::shared::{ListMessageId, ListTaskDead, ScanBackground};
use everhook_store::statement;

use crate::append::add_pending;
use crate::connection::Connection;
use crate::deliveries;
use crate::error::Fault;
use crate::job::query::find_bare;
use crate::job::steer::put_progress;
use crate::order;
use crate::resource;
use crate::sql::{run, stream};
use crate::writer::Tx;

statement! {
    ListBackground<'a> = "list_background" { owner: &'a str, above: &'a [u8], below: &'a [u8], order: Order }
        -> Vec<JobId>;
    FindCandidate = "find_candidate" {
        scope: AppScope, id: MessageId, endpoint: EndpointId, payload_bytes: usize,
    } -> Option<(Message, CandidateRow)>;
    DeleteTaskDead = "delete_task_dead" {
        environment: EnvironmentId, message: MessageId, lane: EndpointId,
    } -> Vec<Option<OrderKey>>;
    PurgeContent = "purge_content" { scope: AppScope, id: MessageId, until: Timestamp };
    HasContent = "has_content" { scope: AppScope, id: MessageId, until: Timestamp } -> Option<MessageId>;
    CountAttempt = "count_attempt" { scope: AppScope, id: MessageId, since: Timestamp, until: Timestamp }
        -> Option<u64>;
}

/// Does one slice and stores its position, if the caller still holds the job.
pub(crate) fn advance(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    advance: &Advance,
) -> Result<Result<Option<Advanced>, LeaseLost>, Fault> {
    let record = find_bare(tx.conn, SERVER_ENVIRONMENT, advance.job)?;
    match advance.check(record.as_ref()) {
        Err(lost) => return Ok(Err(lost)),
        Ok(Some(done)) => return Ok(Ok(Some(done))),
        Ok(None) => {}
    }
    let advanced = match &advance.work {
        BulkWork::Replay(wanted) => replay(tx, environment, advance, wanted)?,
        BulkWork::Purge(wanted) => Some(purge(tx, environment, advance, wanted)?),
        BulkWork::Steer(wanted, command) => steer(tx, environment, advance, wanted, *command)?,
    };
    if let Some(advanced) = &advanced {
        put_progress(tx, SERVER_ENVIRONMENT, advance.job, &advance.progress(advanced))?;
        if let Some(reset) = advance.reset_crashes(record.as_ref()) {
            run(tx.conn, reset)?;
        }
    }
    Ok(Ok(advanced))
}

/// Adds a delivery for each message of the slice that the replay wants. Returns none if the endpoint does not exist.
fn replay(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    advance: &Advance,
    wanted: &Replay,
) -> Result<Option<Advanced>, Fault> {
    let (scope, lane) = (AppScope::of(environment, wanted.application), wanted.endpoint);
    let Some(endpoint) = resource::find_endpoint(tx.conn, environment, wanted.application, lane)? else {
        return Ok(None);
    };
    let rows = advance.replay_rows(wanted);
    let read = read_rows(tx.conn, scope, lane, &rows, advance.limit)?;
    let mut changed = 0;
    for id in read.messages.iter().copied() {
        let payload_bytes = wanted.payload_bytes(&endpoint);
        let found = run(tx.conn, FindCandidate { scope, id, endpoint: lane, payload_bytes })?;
        let Some(candidate) = found.map(|(message, row)| row.of(message)) else { continue };
        if wanted.wants(&endpoint, &candidate, tx.now) {
            changed += 1;
            if advance.effect == Effect::Count {
                continue;
            }
            for key in run(tx.conn, DeleteTaskDead { environment, message: id, lane })?.into_iter().flatten() {
                order::promote_key(tx, environment, lane.lane(), key)?;
            }
            let key = TaskKey { environment, subject: id.0, id: TaskId(tx.ids.next(tx.now)) };
            add_pending(tx, &new_delivery(key, lane.lane(), Trigger::Scheduled, tx.now))?;
        }
    }
    Ok(Some(advance.done(&read, changed)))
}

/// Carries out a command for each chosen delivery of the slice. Returns none if the endpoint does not exist.
fn steer(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    advance: &Advance,
    wanted: &BulkSelection,
    command: DeliveryCommand,
) -> Result<Option<Advanced>, Fault> {
    let (scope, endpoint) = (AppScope::of(environment, wanted.application), wanted.endpoint);
    if resource::find_endpoint(tx.conn, environment, wanted.application, endpoint)?.is_none() {
        return Ok(None);
    }
    let rows = advance.steer_rows(wanted, command);
    let read = read_rows(tx.conn, scope, endpoint, &rows, advance.limit)?;
    let mut changed = 0;
    for id in read.messages.iter().copied() {
        let found = run(tx.conn, FindCandidate { scope, id, endpoint, payload_bytes: 0 })?;
        let candidate = found.map(|(message, row)| row.of(message));
        if !candidate.is_some_and(|candidate| wanted.wants(command, &candidate, tx.now)) {
            continue;
        }
        changed += match advance.effect {
            Effect::Count => 1,
            Effect::Apply => {
                let actions = deliveries::steer::change(tx, environment, id, Some(endpoint), command)?;
                usize::from(actions.into_iter().any(DeliveryAction::is_change))
            }
        };
    }
    Ok(Some(advance.done(&read, changed)))
}

/// Reads the rows of a slice.
fn read_rows(
    conn: &Connection,
    scope: AppScope,
    endpoint: EndpointId,
    rows: &SliceRows,
    limit: usize,
) -> Result<SliceRead, Fault> {
    let environment = scope.environment;
    Ok(match rows {
        SliceRows::Messages(range) => SliceRead::of_messages(list_messages(conn, scope, range, limit)?),
        SliceRows::OpenTasks(range) => {
            SliceRead::of_open(&deliveries::list_open(conn, environment, range, limit)?, endpoint)
        }
        SliceRows::DeadTasks { after } => {
            let dead = ListTaskDead { environment, lane: endpoint, after: *after, limit };
            SliceRead::of_dead(&run(conn, dead)?)
        }
    })
}

fn purge(tx: &Tx<'_>, environment: EnvironmentId, advance: &Advance, wanted: &Purge) -> Result<Advanced, Fault> {
    let (scope, until) = (AppScope::of(environment, wanted.application), wanted.until);
    let range = advance.purge_range(wanted);
    let read = SliceRead::of_messages(list_messages(tx.conn, scope, &range, advance.limit)?);
    let mut changed = 0;
    for id in &read.messages {
        let has_content = match advance.effect {
            Effect::Apply => run(tx.conn, PurgeContent { scope, id: *id, until })? > 0,
            Effect::Count => run(tx.conn, HasContent { scope, id: *id, until })?.is_some(),
        };
        changed += usize::from(has_content);
    }
    Ok(advance.done(&read, changed))
}

fn list_messages(conn: &Connection, scope: AppScope, range: &IdRange, limit: usize) -> Result<Vec<MessageId>, Fault> {
    run(conn, ListMessageId { scope, step: range.step(limit, Order::Ascending) })
}

/// Counts the attempts of the next messages of a window.
pub(crate) fn count_attempts(conn: &Connection, count: &CountAttempts) -> Result<AttemptCount, Fault> {
    let CountAttempts { scope, since, until, limit, .. } = *count;
    let range = count.range();
    let messages = list_messages(conn, scope, &range, limit)?;
    let mut attempts = 0;
    for id in &messages {
        attempts += run(conn, CountAttempt { scope, id: *id, since, until })?.unwrap_or_default();
    }
    let next = messages.last().copied().filter(|_| messages.len() == limit);
    Ok(AttemptCount { attempts, next })
}

/// Lists background tasks. The index yields candidates, and each is then read and compared with the filter.
pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    filter: &BackgroundFilter,
) -> Result<Piece<JobRecord, JobId>, Fault> {
    let (owner, order, mut range) = (&owner_key(environment), filter.slice.order, filter.range());
    let mut scanned = None;
    if filter.is_selective() {
        scanned = run(conn, ScanBackground { owner, scan: range.scan(filter.scan, order) })?;
        range = range.until(scanned, order);
    }
    let gather = |ids: &mut dyn Iterator<Item = Result<JobId, Fault>>| {
        let found = ids.filter_map(|id| match id.and_then(|id| find_bare(conn, SERVER_ENVIRONMENT, id)) {
            Ok(found) => found.filter(|record| filter.wants(record)).map(|record| Ok(without_large_result(record))),
            Err(fault) => Some(Err(fault)),
        });
        Piece::gather(found, filter.slice.limit, job_bytes, |record| record.job.id, scanned.map(JobId))
    };
    stream(conn, ListBackground { owner, above: &range.above, below: &range.below, order }, gather)
}

fn without_large_result(record: JobRecord) -> JobRecord {
    let is_small = |result: &KeptResult| !matches!(result, KeptResult::Whole(json) if json.len() > RESULT_BYTES_MAX);
    JobRecord { result: record.result.filter(is_small), ..record }
}
