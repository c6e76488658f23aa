//! Slices of bulk work, and the background tasks of an environment.

use std::sync::Arc;

use everhook_core::background::replay::{AttemptEnding, Candidate, Replay};
use everhook_core::background::selection::BulkSelection;
use everhook_core::background::{BACKGROUND_QUEUE, Effect, Purge};
use everhook_core::delivery::DeliveryCommand;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, JobId, MessageId, SERVER_ENVIRONMENT, TaskId};
use everhook_core::job::LeaseLost;
use everhook_core::lifecycle::EndState;
use everhook_core::limits::ID_SKEW_MAX;
use everhook_core::message::Message;
use everhook_core::scope::AppScope;
use everhook_core::task::{Task, TaskKey, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::background::{
    Advance, Advanced, AttemptCount, BackgroundFilter, BulkWork, SliceRead, SliceRows, owner_key,
};
use everhook_store::catalog::Order;
use everhook_store::delivery::VisitedTask;
use everhook_store::job::{JobRecord, job_bytes};
use everhook_store::piece::{IdRange, Piece};

use crate::mem::MemStore;
use crate::mem::deliveries::steer;
use crate::mem::job::record;
use crate::mem::tables::{Tables, TaskPlace, TaskRow};

impl MemStore {
    /// Does one slice and stores its position, if the caller still holds the job.
    pub(super) fn advance_now(
        &self,
        environment: EnvironmentId,
        advance: &Advance,
    ) -> Result<Option<Advanced>, LeaseLost> {
        let (mut tables, now) = self.lock();
        let job = (SERVER_ENVIRONMENT, advance.job);
        if let Some(done) = advance.check(record(&tables, job.0, job.1).as_ref())? {
            return Ok(Some(done));
        }
        let advanced = match &advance.work {
            BulkWork::Replay(wanted) => self.replay(&mut tables, environment, advance, wanted, now),
            BulkWork::Purge(wanted) => Some(purge(&mut tables, environment, advance, wanted)),
            BulkWork::Steer(wanted, command) => {
                self.steer_slice(&mut tables, environment, advance, (wanted, *command), now)
            }
        };
        if let (Some(advanced), Some(row)) = (&advanced, tables.jobs.get_mut(&job)) {
            row.progress = Some(advance.progress(advanced));
        }
        Ok(advanced)
    }

    fn replay(
        &self,
        tables: &mut Tables,
        environment: EnvironmentId,
        advance: &Advance,
        wanted: &Replay,
        now: Timestamp,
    ) -> Option<Advanced> {
        let (endpoint, deleted) = tables.endpoint(environment, wanted.endpoint)?;
        let endpoint = Some(endpoint.clone()).filter(|known| !deleted && known.application == wanted.application)?;
        let at = (wanted.application, wanted.endpoint);
        let read = read_rows(tables, environment, at, &advance.replay_rows(wanted), advance.limit);
        let lane = wanted.endpoint.lane();
        let mut changed = 0;
        for id in read.messages.iter().copied() {
            let Some(candidate) = candidate(tables, environment, at, id) else { continue };
            if !wanted.wants(&endpoint, &candidate, now) {
                continue;
            }
            changed += 1;
            if advance.effect == Effect::Count {
                continue;
            }
            let is_dead = |row: &&TaskRow| {
                let Task { key, lane: at, .. } = row.task;
                (key.environment, key.subject, at) == (environment, id.0, lane) && row.place == TaskPlace::Dead
            };
            let dead: Vec<Task> = tables.tasks.values().filter(is_dead).map(|row| row.task).collect();
            for task in dead {
                tables.tasks.remove(&task.key);
                tables.promote(&task, now);
            }
            let key = TaskKey { environment, subject: id.0, id: TaskId(self.ids.next(now)) };
            let task = new_delivery(key, lane, Trigger::Scheduled, now);
            tables.add_last(task, now);
        }
        Some(advance.done(&read, changed))
    }

    fn steer_slice(
        &self,
        tables: &mut Tables,
        environment: EnvironmentId,
        advance: &Advance,
        (wanted, command): (&BulkSelection, DeliveryCommand),
        now: Timestamp,
    ) -> Option<Advanced> {
        let at = (wanted.application, wanted.endpoint);
        tables
            .endpoint(environment, wanted.endpoint)
            .filter(|(known, deleted)| !deleted && known.application == at.0)?;
        let read = read_rows(tables, environment, at, &advance.steer_rows(wanted, command), advance.limit);
        let mut changed = 0;
        for id in read.messages.iter().copied() {
            let Some(candidate) = candidate(tables, environment, at, id) else { continue };
            if !wanted.wants(command, &candidate, now) {
                continue;
            }
            changed += 1;
            if advance.effect == Effect::Apply {
                steer(tables, &self.ids, now, (environment, id, Some(wanted.endpoint)), command);
            }
        }
        Some(advance.done(&read, changed))
    }

    pub(super) fn count_attempts(
        &self,
        scope: AppScope,
        after: Option<MessageId>,
        (since, until): (Timestamp, Timestamp),
        limit: usize,
    ) -> AttemptCount {
        let (tables, _) = self.lock();
        let range = IdRange::beyond(after.map(|id| id.0), Order::Ascending);
        let range = range.between(Some(since), Some(until), (ID_SKEW_MAX, ID_SKEW_MAX));
        let messages = messages_in(&tables, scope.environment, scope.application, &range, limit);
        let in_window = |id: &&MessageId| {
            let message = tables.messages.get(&(scope.environment, scope.application, **id));
            message.is_some_and(|message| message.created_at >= since && message.created_at < until)
        };
        let attempts_of = |id: &MessageId| {
            let of = |(key, _): &&(TaskKey, u32)| key.environment == scope.environment && key.subject == id.0;
            tables.attempts.keys().filter(of).count() as u64
        };
        let attempts = messages.iter().filter(in_window).map(attempts_of).sum();
        AttemptCount { attempts, next: messages.last().copied().filter(|_| messages.len() == limit) }
    }

    pub(super) fn list_background(
        &self,
        environment: EnvironmentId,
        filter: &BackgroundFilter,
    ) -> Piece<JobRecord, JobId> {
        let (tables, _) = self.lock();
        let (owner, range) = (owner_key(environment), filter.range());
        let mut records: Vec<JobRecord> = tables
            .jobs
            .iter()
            .filter(|((environment, _), row)| {
                *environment == SERVER_ENVIRONMENT
                    && row.job.queue.as_str() == BACKGROUND_QUEUE
                    && row.job.concurrency_key.as_ref() == Some(&owner)
            })
            .filter_map(|((_, id), _)| record(&tables, SERVER_ENVIRONMENT, *id))
            .filter(|record| is_within(&range, record.job.id.0))
            .collect();
        if filter.slice.order == Order::Descending {
            records.reverse();
        }
        let scanned = records.get(filter.scan.saturating_sub(1)).filter(|_| filter.is_selective());
        let scanned = scanned.map(|record| record.job.id);
        if scanned.is_some() {
            records.truncate(filter.scan);
        }
        let wanted = records.into_iter().filter(|record| filter.wants(record)).map(|mut record| {
            record.job.payload = None;
            Ok::<_, std::convert::Infallible>(record)
        });
        let Ok(piece) = Piece::gather(wanted, filter.slice.limit, job_bytes, |record| record.job.id, scanned);
        piece
    }
}

fn purge(tables: &mut Tables, environment: EnvironmentId, advance: &Advance, wanted: &Purge) -> Advanced {
    let range = advance.purge_range(wanted);
    let read = SliceRead::of_messages(messages_in(tables, environment, wanted.application, &range, advance.limit));
    let mut changed = 0;
    for id in &read.messages {
        let Some(message) = tables.messages.get_mut(&(environment, wanted.application, *id)) else { continue };
        if message.payload.is_some() && message.created_at < wanted.until {
            changed += 1;
            if advance.effect == Effect::Apply {
                *message = Arc::new(Message { payload: None, ..Message::clone(message) });
            }
        }
    }
    advance.done(&read, changed)
}

/// Reads the rows of a slice.
fn read_rows(
    tables: &Tables,
    environment: EnvironmentId,
    (application, endpoint): (ApplicationId, EndpointId),
    rows: &SliceRows,
    limit: usize,
) -> SliceRead {
    match rows {
        SliceRows::Messages(range) => {
            SliceRead::of_messages(messages_in(tables, environment, application, range, limit))
        }
        SliceRows::OpenTasks(range) => {
            let is_wanted =
                |row: &&TaskRow| row.task.key.environment == environment && is_within(range, row.task.key.subject);
            let visited = |row: &TaskRow| VisitedTask {
                subject: row.task.key.subject,
                kind: row.task.kind,
                lane: row.task.lane,
                state: row.state(),
                has_class: true,
            };
            let tasks: Vec<VisitedTask> = tables.tasks.values().filter(is_wanted).map(visited).take(limit).collect();
            SliceRead::of_open(&tasks, endpoint)
        }
        SliceRows::DeadTasks { after } => {
            let dead = dead_after(tables, environment, endpoint, *after, limit);
            let dead: Vec<_> = dead.into_iter().map(|key| (MessageId(key.subject), key.id)).collect();
            SliceRead::of_dead(&dead)
        }
    }
}

fn messages_in(
    tables: &Tables,
    environment: EnvironmentId,
    application: ApplicationId,
    range: &IdRange,
    limit: usize,
) -> Vec<MessageId> {
    let keys = tables.messages.keys().filter(|key| key.0 == environment && key.1 == application);
    keys.map(|key| key.2).filter(|id| is_within(range, id.0)).take(limit).collect()
}

fn dead_after(
    tables: &Tables,
    environment: EnvironmentId,
    endpoint: EndpointId,
    after: Id,
    limit: usize,
) -> Vec<TaskKey> {
    let lane = endpoint.lane();
    let is_dead = |row: &&TaskRow| {
        let key = row.task.key;
        row.place == TaskPlace::Dead && row.task.lane == lane && key.environment == environment && key.id.0 > after
    };
    let mut dead: Vec<TaskKey> = tables.tasks.values().filter(is_dead).map(|row| row.task.key).collect();
    dead.sort_by_key(|key| key.id);
    dead.truncate(limit);
    dead
}

fn candidate(
    tables: &Tables,
    environment: EnvironmentId,
    (application, endpoint): (ApplicationId, EndpointId),
    id: MessageId,
) -> Option<Candidate> {
    let message = tables.messages.get(&(environment, application, id))?;
    let lane = endpoint.lane();
    let is_of = |key: &TaskKey| key.environment == environment && key.subject == id.0;
    let tasks = || tables.tasks.values().filter(|row| is_of(&row.task.key) && row.task.lane == lane);
    let attempts = || tables.attempts.iter().filter(|((key, _), row)| is_of(key) && row.endpoint == endpoint);
    let last = attempts().max_by_key(|((key, epoch), _)| (key.id, *epoch)).map(|(_, row)| AttemptEnding {
        end: row.attempt.end,
        class: row.attempt.class,
        status: row.attempt.status,
        started_at: row.attempt.started_at,
    });
    Some(Candidate {
        message: Message::clone(message),
        is_open: tasks().any(|row| row.place != TaskPlace::Dead),
        is_dead: tasks().any(|row| row.place == TaskPlace::Dead),
        has_succeeded: attempts().any(|(_, row)| row.attempt.end == EndState::Succeeded),
        last,
    })
}

fn is_within(range: &IdRange, id: Id) -> bool {
    id.as_bytes().as_slice() > range.above.as_slice() && id.as_bytes().as_slice() < range.below.as_slice()
}
