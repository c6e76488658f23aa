//! Observes the database from inside: the holders of tasks, the closed sessions, and the deliveries to expect.
//!
//! The witness sees every call at the moment it takes effect, even if the reply is lost.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::batch::{Announcement, BatchCounts};
use everhook_core::id::{BatchId, EnvironmentId, LaneId, MessageId, SessionId};
use everhook_core::task::{Task, TaskKey, TaskKind};
use everhook_store::lease::{Appended, Leased, Reclaimed};
use everhook_testkit::mem::{Tables, TaskPlace, TaskRow};

use crate::client::APPLICATION;
use crate::job::{NARROW_LIMITS, narrow};

#[derive(Debug, Default)]
pub(crate) struct Witness {
    holders: BTreeMap<(TaskKey, u32), SessionId>,
    closed: BTreeSet<SessionId>,
    /// The numbers of the endpoints that were enabled when a message was accepted.
    pub(crate) promised: BTreeMap<MessageId, Vec<usize>>,
    pub(crate) violations: Vec<String>,
    /// Batches already reported as wrong, so that each is reported once.
    wrong: BTreeSet<BatchId>,
}

impl Witness {
    pub(crate) fn holds(&mut self, session: SessionId, task: &Task) {
        self.holders.insert((task.key, task.epoch), session);
    }

    pub(crate) fn appended(&mut self, session: Option<SessionId>, appended: &[Appended], enabled: &[usize]) {
        for appended in appended {
            let Appended::Accepted { message, leased, .. } = appended else { continue };
            if message.application == APPLICATION {
                self.promised.insert(message.id, enabled.to_vec());
            }
            for (leased, _) in leased {
                self.holders.extend(session.map(|session| ((leased.task.key, leased.task.epoch), session)));
            }
        }
    }

    /// Checks that a lane whose breaker is not closed has no more deliveries under way than its breaker allows: one
    /// while it probes.
    pub(crate) fn probes(&mut self, tables: &Tables, leased: &[Leased]) {
        for Leased { task, breaker, .. } in leased {
            let limits = breaker.at_once().filter(|_| task.kind == TaskKind::Delivery);
            let is_counted = |row: &&TaskRow| {
                let is_leased = matches!(row.place, TaskPlace::Leased(_));
                is_leased && (row.task.key.environment, row.task.lane) == (task.key.environment, task.lane)
            };
            let own = |row: &&TaskRow| row.limit_group == Some(task.lane.0);
            let running = tables.tasks.values().filter(is_counted).filter(own).count();
            if limits.is_some_and(|most| running > usize::try_from(most).unwrap_or(usize::MAX)) {
                self.violations.push(format!("{running} deliveries of {} run under {breaker:?}", task.lane));
            }
        }
    }

    pub(crate) fn closed(&mut self, session: SessionId) {
        self.closed.insert(session);
    }

    /// Checks that a closed session is never renewed.
    pub(crate) fn renewed(&mut self, session: SessionId) {
        if self.closed.contains(&session) {
            self.violations.push(format!("session {session} was renewed after it was closed"));
        }
    }

    /// Checks that a task has one holder: it is only taken from a closed session.
    pub(crate) fn reclaimed(&mut self, session: SessionId, Reclaimed { task, from, .. }: &Reclaimed) {
        let before = task.epoch.checked_sub(1).and_then(|epoch| self.holders.get(&(task.key, epoch)));
        if before.is_some_and(|before| *before != from.session) {
            self.violations
                .push(format!("task {} was taken from {}, which did not hold it", task.key.id, from.session));
        }
        if before.is_some_and(|before| !self.closed.contains(before)) {
            self.violations.push(format!("task {} was taken from an open session", task.key.id));
        }
        self.holds(session, task);
    }

    /// Checks the invariants of jobs and batches that hold at every instant.
    pub(crate) fn inspect(&mut self, tables: &Tables) {
        self.inspect_limits(tables);
        for ((environment, id), record) in &tables.batches {
            let counts = record.batch.counts;
            let said = (counts.pending, counts.dead, counts.succeeded + counts.cancelled + counts.skipped);
            let truth = count(tables, *environment, *id);
            let truth = (truth.pending, truth.dead, truth.succeeded);
            let completed = record.batch.announced == Some(Announcement::Completed);
            if (said != truth || (completed && truth.0 + truth.1 > 0)) && self.wrong.insert(*id) {
                self.violations
                    .push(format!("batch {id} counts {said:?}, there are {truth:?}; completed: {completed}"));
            }
        }
    }

    /// Checks that a queue never has more leased jobs than its limits allow, in total and per concurrency key.
    fn inspect_limits(&mut self, tables: &Tables) {
        let queue = narrow();
        let mut lanes = BTreeMap::<LaneId, u32>::new();
        for row in tables.tasks.values().filter(|row| matches!(row.place, TaskPlace::Leased(_))) {
            let lane = (row.task.key.environment, row.task.lane);
            if row.task.kind == TaskKind::Job
                && tables.queue_lanes.get(&lane).is_some_and(|name| name.as_str() == queue)
            {
                *lanes.entry(row.task.lane).or_default() += 1;
            }
        }
        let (limit, key_limit) = NARROW_LIMITS;
        let own = everhook_core::job::lane(crate::client::ENVIRONMENT, &crate::job::name(queue), None);
        let of_one_key = lanes.iter().filter(|(lane, _)| **lane != own).map(|(_, leased)| *leased).max().unwrap_or(0);
        let leased: u32 = lanes.values().sum();
        if leased > limit || of_one_key > key_limit {
            self.violations.push(format!("{leased} jobs of {queue} are leased at once, {of_one_key} of one key"));
        }
    }
}

/// Counts the jobs of a batch by state. All ended jobs count as succeeded.
fn count(tables: &Tables, environment: EnvironmentId, batch: BatchId) -> BatchCounts {
    let of_batch = tables.jobs.iter().filter(|((env, _), row)| *env == environment && row.job.batch == Some(batch));
    let mut counts =
        BatchCounts { succeeded: u32::try_from(of_batch.count()).unwrap_or(u32::MAX), ..BatchCounts::default() };
    let tasks = tables.tasks.values().filter(|row| row.task.batch == Some(batch));
    for row in tasks.filter(|row| row.task.key.environment == environment) {
        counts.succeeded -= 1;
        match row.place {
            TaskPlace::Dead => counts.dead += 1,
            TaskPlace::Pending | TaskPlace::Leased(_) => counts.pending += 1,
        }
    }
    counts
}
