//! Prunes old rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhook_core::batch::Intake;
use everhook_core::id::{EnvironmentId, Id, JobId};
use everhook_core::job::JobState;
use everhook_core::message::Message;
use everhook_core::retention::next_cut;
use everhook_core::task::{Task, TaskKey, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::batch::BatchRecord;
use everhook_store::retention::Prunable;
use everhook_store::schedule::RUNS_KEPT;

use crate::mem::tables::{JobRow, SessionRow, Tables, TaskPlace, TaskRow};
use crate::mem::{MemStore, job};

impl MemStore {
    pub(super) fn prune_now(&self, what: Prunable, before: Timestamp, limit: usize) -> usize {
        let (mut tables, now) = self.lock();
        let tables = &mut *tables;
        match what {
            Prunable::Messages => prune_messages(tables, before, limit),
            Prunable::DeadDeliveries => {
                let waits_behind = |dead: &TaskRow, row: &TaskRow| {
                    let key = |task: &Task| (task.key.environment, task.lane, task.order_key);
                    row.place == TaskPlace::Pending && row.task.is_behind() && key(&row.task) == key(&dead.task)
                };
                let blocks = |(key, dead): (&TaskKey, &TaskRow)| {
                    tables.key_places.get(key).is_some_and(|(_, blocks)| *blocks)
                        && tables.tasks.values().any(|row| waits_behind(dead, row))
                };
                let dead = tables.tasks.iter().filter(|(key, row)| {
                    row.place == TaskPlace::Dead
                        && row.task.kind == TaskKind::Delivery
                        && row.task.due_at < before
                        && !blocks((key, row))
                });
                let old = dead.map(|(key, row)| (row.task.due_at, *key)).collect();
                remove(&mut tables.tasks, old, limit)
            }
            Prunable::Payloads => erase_payloads(tables, now, limit),
            Prunable::Keys => {
                // Keys expire at their own time, independent of the age.
                let expired = tables.keys.iter().filter(|(_, row)| row.expires_at <= now);
                let old = expired.map(|(key, row)| (row.expires_at, *key)).collect();
                remove(&mut tables.keys, old, limit)
            }
            Prunable::Jobs => prune_jobs(tables, before, limit),
            Prunable::OnceSlots => {
                let unused = tables.once.iter().filter(|(_, row)| row.updated_at < before);
                let old = unused.map(|(key, row)| (row.updated_at, key.clone())).collect();
                remove(&mut tables.once, old, limit)
            }
            Prunable::Sessions => prune_sessions(tables, before, limit),
            Prunable::Batches => {
                let over = tables.batches.iter().filter(|(key, record)| is_over(tables, key.0, record, before));
                let old = over.map(|(key, record)| (record.created_at, *key)).collect();
                remove(&mut tables.batches, old, limit)
            }
            Prunable::Runs => prune_runs(tables, before, limit),
            // The store has no such rows.
            Prunable::Answers
            | Prunable::Polled
            | Prunable::PollConsumers
            | Prunable::Tokens
            | Prunable::TrafficMinutes
            | Prunable::TrafficHours => 0,
        }
    }
}

/// Removes the oldest of these rows; returns their number.
fn remove<A: Ord, K: Ord, V>(rows: &mut BTreeMap<K, V>, mut old: Vec<(A, K)>, limit: usize) -> usize {
    old.sort();
    old.truncate(limit);
    old.iter().filter(|(_, key)| rows.remove(key).is_some()).count()
}

fn has_task(tables: &Tables, environment: EnvironmentId, subject: Id) -> bool {
    tables.tasks.keys().any(|key| (key.environment, key.subject) == (environment, subject))
}

fn forget_attempts(tables: &mut Tables, environment: EnvironmentId, subject: Id) {
    tables.attempts.retain(|(key, _), _| (key.environment, key.subject) != (environment, subject));
}

fn prune_messages(tables: &mut Tables, before: Timestamp, limit: usize) -> usize {
    let is_old = |key: &&(EnvironmentId, _, everhook_core::id::MessageId)| {
        key.2.0 < Id::floor(before) && !has_task(tables, key.0, key.2.0)
    };
    let old: Vec<_> = tables.messages.keys().filter(is_old).take(limit).copied().collect();
    for key in &old {
        tables.messages.remove(key);
        forget_attempts(tables, key.0, key.2.0);
    }
    old.len()
}

fn erase_payloads(tables: &mut Tables, now: Timestamp, limit: usize) -> usize {
    let is_due = |message: &Message| message.payload.is_some() && message.payload_at(now).is_none();
    let due = tables.messages.values_mut().filter(|message| is_due(message)).take(limit);
    due.map(|message| Arc::make_mut(message).payload = None).count()
}

fn prune_jobs(tables: &mut Tables, before: Timestamp, limit: usize) -> usize {
    let is_old = |((environment, id), row): &(&(EnvironmentId, JobId), &JobRow)| {
        let Some(record) = job::record(tables, *environment, *id) else { return false };
        let ended_at = record.last.map_or(row.created_at, |last| last.started_at.plus(last.duration));
        matches!(record.state, JobState::Succeeded | JobState::Cancelled) && ended_at < before
    };
    let old: Vec<_> = tables.jobs.iter().filter(is_old).map(|(key, _)| *key).take(limit).collect();
    for (environment, id) in &old {
        tables.jobs.remove(&(*environment, *id));
        forget_attempts(tables, *environment, id.0);
    }
    old.len()
}

fn prune_sessions(tables: &mut Tables, before: Timestamp, limit: usize) -> usize {
    let holds = |id| tables.tasks.values().any(|row| row.place == TaskPlace::Leased(id));
    let closed = |row: &SessionRow| row.closed_at.filter(|at| *at < before);
    let old = tables.sessions.iter().filter(|(id, _)| !holds(**id));
    let old: Vec<_> = old.filter_map(|(id, row)| Some((closed(row)?, *id))).collect();
    let pruned = remove(&mut tables.sessions, old, limit);
    tables.workers.retain(|id, _| tables.sessions.contains_key(id));
    pruned
}

/// Returns whether a batch can be pruned: sealed, without open or dead jobs, and without job records that refer to it.
fn is_over(tables: &Tables, environment: EnvironmentId, record: &BatchRecord, before: Timestamp) -> bool {
    let counts = record.batch.counts;
    let has_job = || tables.jobs.iter().any(|((env, _), row)| *env == environment && row.job.batch == Some(record.id));
    record.created_at < before
        && record.batch.intake == Intake::Sealed
        && (counts.pending, counts.dead) == (0, 0)
        && !has_job()
}

fn prune_runs(tables: &mut Tables, before: Timestamp, limit: usize) -> usize {
    let mut old = Vec::new();
    let mut place: BTreeMap<_, usize> = BTreeMap::new();
    for ((environment, schedule, id), run) in tables.runs.iter().rev() {
        let place = place.entry((*environment, *schedule)).or_default();
        *place += 1;
        if *place > RUNS_KEPT && run.at < before {
            old.push((*id, (*environment, *schedule, *id)));
        }
    }
    remove(&mut tables.runs, old, limit)
}

/// Returns the next cut, while the payloads are larger than allowed.
pub(super) fn find_size_cut(tables: &Tables, bytes_max: u64) -> Option<Timestamp> {
    let bytes = |message: &Arc<Message>| message.payload.as_ref().map_or(0, |payload| payload.len() as u64);
    let used: u64 = tables.messages.values().map(bytes).sum();
    let times = || tables.messages.values().map(|message| message.created_at);
    let (oldest, newest) = times().min().zip(times().max()).filter(|_| used > bytes_max)?;
    Some(next_cut(oldest, newest))
}
