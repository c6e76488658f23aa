//! Ends attempts. The only place that does, for whatever reason they end: a reply, a failure, a dead holder, a stop.
//!
//! Settlements are collected and written many per transaction: while one commits, the next batch forms; at low load each
//! goes at once. A failed write is repeated until the store answers: settling is idempotent, so doubt resolves itself. What
//! waits is bounded, and whoever waits for a place holds its slot: a store that is down stops the intake instead of filling
//! memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{AttemptId, SessionId};
use everhook_core::job::Job;
use everhook_core::job::report::KeptResult;
use everhook_core::lifecycle::{self, Decision, EndState, NextRow, Verdict};
use everhook_core::limits::{SETTLE_BATCH_MAX, SETTLE_QUEUE_MAX};
use everhook_core::outcome::{Class, Outcome};
use everhook_core::retry::RetryPolicy;
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::batch;
use everhook_store::capacity::Slot;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::{NewAttempt, Settled, Settlement};
use everhook_store::store::Store;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{debug, error, info, warn};

use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::jobs::counts::EndedCounts;
use crate::metrics::Metrics;
use crate::session::Session;
use crate::stall_watch::StallWatch;
use crate::wakeup::Wakeups;

/// Transactions under way at once at most: the second only helps while the first hangs.
const WRITERS: usize = 2;
/// How soon one transaction begins after the one before, while few wait for it: who sends one message after the other does not find the
/// store busy with the end of the last one each time.
const SETTLE_PACE: Duration = Duration::from_millis(3);
/// How many are written at once, whenever the last transaction was.
const SETTLE_WORTH_IT: usize = 50;
/// How long a transaction may take before the next one goes past it. Before that, what comes meanwhile goes together: fewer and larger ones
/// are cheaper.
const HANGS_AFTER: Duration = Duration::from_millis(20);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How long someone waits for what becomes of a settlement.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// An attempt that ended, or a task that was not begun.
pub(crate) struct FinishedAttempt {
    pub(crate) task: Task,
    /// What the task is about, if it is a job: it has its own retry policy.
    pub(crate) job: Option<Arc<Job>>,
    pub(crate) by: AttemptHolder,
    /// Held, not read: dropping it after the write frees it.
    pub(crate) slot: SlotHold,
    pub(crate) end: AttemptEnd,
}

/// Who held the task.
pub(crate) enum AttemptHolder {
    /// This node.
    Node(Arc<Session>),
    /// A remote worker, in whose name someone waits for the answer.
    Worker {
        session: SessionId,
        /// Dropped unanswered if nothing can be said: the worker repeats what it said.
        answer: oneshot::Sender<SettleReply>,
    },
}

/// What whoever waits for a settlement is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettleReply {
    /// It counts; how it left the task, unless that was handed back.
    Done(Option<EndState>),
    /// It does not.
    Rejected,
}

impl AttemptHolder {
    fn session(&self) -> SessionId {
        match self {
            AttemptHolder::Node(session) => session.id,
            AttemptHolder::Worker { session, .. } => *session,
        }
    }

    /// Nobody cares any more.
    fn is_gone(&self) -> bool {
        match self {
            AttemptHolder::Node(session) => session.is_closed(),
            AttemptHolder::Worker { answer, .. } => answer.is_closed(),
        }
    }
}

/// What the end of an attempt holds until it is written.
pub(crate) enum SlotHold {
    /// Nothing: a task that was taken over never had a slot.
    Nothing,
    /// Its slot.
    Slot { _slot: Slot },
    /// Its slot is free again; a stop waits for it all the same.
    Unsettled { _token: TaskTrackerToken },
}

/// How it ended.
pub(crate) enum AttemptEnd {
    /// Nothing was done with the task: it goes back as it was.
    HandedBack,
    /// Something was done, or came to light.
    Attempted(AttemptRecord),
}

/// What the attempt log will say.
pub(crate) struct AttemptRecord {
    pub(crate) outcome: Outcome,
    pub(crate) class: Class,
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) reply: Bytes,
    pub(crate) started_at: Timestamp,
    pub(crate) duration: Duration,
    pub(crate) result: Option<KeptResult>,
    /// Who did it, if not who settles it.
    pub(crate) holder: Option<SessionId>,
}

/// Takes what ended to the store.
pub(crate) struct Settler {
    store: Arc<dyn Store>,
    ids: Arc<Ids>,
    clock: Arc<Clock>,
    policy: RetryPolicy,
    entropy: Entropy,
    wakeups: Arc<Wakeups>,
    metrics: Arc<Metrics>,
    counts: Arc<EndedCounts>,
    queue: mpsc::Sender<FinishedAttempt>,
    waiting: Mutex<mpsc::Receiver<FinishedAttempt>>,
    /// Whoever writes has it, unless another one hangs: when the last one began.
    turn: Mutex<Option<Duration>>,
    /// What gave its slot back and is not written.
    unsettled: TaskTracker,
    /// Of the writers, a batch at a time.
    stall_watch: StallWatch,
}

/// What a settler stands on.
pub(crate) struct SettlerParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) entropy: Entropy,
    pub(crate) clock: Arc<Clock>,
    /// The policy of deliveries.
    pub(crate) policy: RetryPolicy,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) counts: Arc<EndedCounts>,
}

impl Settler {
    pub(crate) fn new(parts: SettlerParts) -> Settler {
        let SettlerParts { store, ids, entropy, clock, policy, wakeups, metrics, counts } = parts;
        let (queue, waiting) = mpsc::channel(SETTLE_QUEUE_MAX);
        Settler {
            store,
            ids,
            clock,
            policy,
            entropy,
            wakeups,
            metrics,
            counts,
            queue,
            waiting: Mutex::new(waiting),
            turn: Mutex::default(),
            unsettled: TaskTracker::new(),
            stall_watch: StallWatch::default(),
        }
    }

    /// For how long no batch was written although one is to be.
    pub(crate) fn stalled(&self) -> Duration {
        self.stall_watch.stalled(self.clock.elapsed())
    }

    /// Waits until everything is written that gave its slot back before.
    pub(crate) async fn settled(&self) {
        self.unsettled.close();
        self.unsettled.wait().await;
    }

    /// How many gave their slot back and are not written.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Hands over what ended, as soon as there is a place for it.
    pub(crate) async fn settle(&self, mut ended: FinishedAttempt) {
        // The receiver lives as long as the settler itself.
        let Ok(place) = self.queue.reserve().await else { return };
        // A target that took one can take the next. One that did not may have to rest: its slot is free when that is written.
        if matches!(&ended.end, AttemptEnd::Attempted(record) if record.outcome == Outcome::Success) {
            ended.slot = SlotHold::Unsettled { _token: self.unsettled.token() };
        }
        place.send(ended);
    }

    /// Settles what a remote worker said, and waits for the answer; none if there is none.
    pub(crate) async fn settle_for(
        &self,
        session: SessionId,
        task: Task,
        job: Option<Arc<Job>>,
        end: AttemptEnd,
    ) -> Option<SettleReply> {
        let (answer, answered) = oneshot::channel();
        let by = AttemptHolder::Worker { session, answer };
        self.settle(FinishedAttempt { task, job, by, slot: SlotHold::Nothing, end }).await;
        tokio::time::timeout(ANSWER_DEADLINE, answered).await.ok()?.ok()
    }

    /// Writes settlements for ever; dropped when the engine has drained.
    pub(crate) async fn run(&self) {
        let writers: [_; WRITERS] = std::array::from_fn(|_| self.write_batches());
        futures_util::future::join_all(writers).await;
    }

    async fn write_batches(&self) {
        let mut batch = Vec::with_capacity(SETTLE_BATCH_MAX);
        loop {
            // One writer waits for work at a time, so that it gets all of what has come, not a share.
            let mut waiting = self.waiting.lock().await;
            batch.extend(waiting.recv().await);
            self.stall_watch.begin(self.clock.elapsed());
            let mut turn = tokio::time::timeout(HANGS_AFTER, self.turn.lock()).await;
            if let Ok(last) = &mut turn {
                let nobody_asks = batch.iter().all(|ended| matches!(ended.by, AttemptHolder::Node(_)));
                if let Some(begun) = **last
                    && nobody_asks
                    && waiting.len() < SETTLE_WORTH_IT
                {
                    tokio::time::sleep_until(self.clock.instant(begun + SETTLE_PACE)).await;
                }
                **last = Some(self.clock.elapsed());
            }
            while batch.len() < SETTLE_BATCH_MAX
                && let Ok(ended) = waiting.try_recv()
            {
                batch.push(ended);
            }
            drop(waiting);
            self.write(&mut batch).await;
            self.stall_watch.end(self.clock.elapsed());
            drop(turn);
            batch.clear();
        }
    }

    async fn write(&self, batch: &mut Vec<FinishedAttempt>) {
        let (settlements, decided): (Vec<_>, Vec<_>) = batch.iter().map(|ended| self.decide(ended)).unzip();
        let settlements: Arc<[Settlement]> = settlements.into();
        let begun = self.metrics.begin();
        let Some(settled) = self.write_until_answered(&settlements, batch).await else { return };
        self.metrics.settled(settlements.len(), begun);
        let (mut jobs, mut batches) = (false, false);
        for (((ended, settlement), decision), settled) in batch.drain(..).zip(&*settlements).zip(&decided).zip(settled)
        {
            log(&ended, decision.as_ref(), settled);
            self.count(&ended, settled);
            jobs |= settlement.kind == TaskKind::Job;
            batches |= settled == Settled::Done && may_announce(settlement);
            if let (Settled::Done, NextRow::Pending { due_in }) = (settled, settlement.row) {
                self.wakeups.due_in(settlement.kind, due_in);
            }
            if let AttemptHolder::Worker { answer, .. } = ended.by {
                let end = decision.map(|decision| decision.end);
                let _ =
                    answer.send(if settled == Settled::Done { SettleReply::Done(end) } else { SettleReply::Rejected });
            }
        }
        if batches {
            // The announcement is a message of the same transaction: its deliveries are pending, on a lane that any node may look at.
            self.wakeups.hint_deliveries();
        }
        if jobs {
            // A queue at its limit has room again; whoever leases from it was told nothing of when.
            self.wakeups.hint_jobs_here();
        }
    }

    fn count(&self, ended: &FinishedAttempt, settled: Settled) {
        match (settled, &ended.end) {
            (Settled::Lost, _) => self.metrics.lost(),
            (Settled::Done, AttemptEnd::HandedBack) => {}
            (Settled::Done, AttemptEnd::Attempted(record)) => {
                self.metrics.attempted(ended.task.kind, record.class, record.duration);
                if let Some(job) = &ended.job {
                    self.counts.ended(ended.task.key.environment, &job.queue);
                }
            }
        }
    }

    fn decide(&self, ended: &FinishedAttempt) -> (Settlement, Option<Decision>) {
        let task = &ended.task;
        let settlement = Settlement {
            key: task.key,
            kind: task.kind,
            lane: task.lane,
            batch: task.batch,
            session: ended.by.session(),
            epoch: task.epoch,
            row: NextRow::Pending { due_in: Duration::ZERO },
            tries: task.tries,
            crashes: task.crashes,
            attempt: None,
            hold_lane: None,
            stop_lane: false,
            result: None,
        };
        let AttemptEnd::Attempted(record) = &ended.end else { return (settlement, None) };
        let policy = ended.job.as_ref().map_or(&self.policy, |job| &job.retry);
        let decision = lifecycle::decide(task, record.outcome, policy, self.entropy.jitter());
        let attempt = NewAttempt {
            id: AttemptId(self.ids.next(self.clock.now())),
            holder: record.holder,
            class: record.class,
            end: decision.end,
            trigger: task.trigger,
            url: record.url.clone(),
            status: record.status,
            reply: record.reply.clone(),
            started_at: record.started_at,
            duration: record.duration,
        };
        let settlement = Settlement {
            row: decision.row,
            tries: decision.tries,
            crashes: decision.crashes,
            attempt: Some(attempt),
            hold_lane: decision.hold_lane,
            stop_lane: decision.stop_lane,
            result: record.result.clone(),
            ..settlement
        };
        (settlement, Some(decision))
    }

    /// Repeats the write until the store answers, or until nobody waits for the answer any more: every session was closed.
    async fn write_until_answered(
        &self,
        settlements: &Arc<[Settlement]>,
        batch: &[FinishedAttempt],
    ) -> Option<Vec<Settled>> {
        loop {
            match self.store.settle(Arc::clone(settlements)).await {
                Ok(settled) => {
                    self.metrics.made(settled.made);
                    return Some(settled.answer);
                }
                Err(error @ (StoreError::Refused { .. } | StoreError::Corrupt { .. })) if settlements.len() > 1 => {
                    let count = settlements.len();
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "store refused to settle {count} tasks: settling them singly"
                    );
                    return Some(self.write_singly(settlements, batch).await);
                }
                Err(error @ (StoreError::Refused { .. } | StoreError::Corrupt { .. })) => {
                    error!(error = &error as &dyn std::error::Error, "could not settle task {}", settlements[0].key.id);
                    give_up(&batch[0]);
                    return None;
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(error, "could not settle {} tasks, trying again", settlements.len());
                }
            }
            if batch.iter().all(|ended| ended.by.is_gone()) {
                warn!("gave up settling {} tasks: their session was closed, or nobody waits", settlements.len());
                return None;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Each by itself, and each until the store answers: a store that fails meanwhile costs nobody their settlement.
    async fn write_singly(&self, settlements: &[Settlement], batch: &[FinishedAttempt]) -> Vec<Settled> {
        let mut settled = Vec::with_capacity(settlements.len());
        for (settlement, ended) in settlements.iter().zip(batch) {
            let (one, ended) = (Arc::from([settlement.clone()]), std::slice::from_ref(ended));
            let answers = Box::pin(self.write_until_answered(&one, ended)).await;
            settled.push(answers.and_then(|answers| answers.first().copied()).unwrap_or(Settled::Lost));
        }
        settled
    }
}

/// Whether a batch was told that a job of it has ended. Only the store knows what that made of the batch.
fn may_announce(settlement: &Settlement) -> bool {
    let end = settlement.attempt.as_ref().and_then(|attempt| batch::ended(attempt.end));
    settlement.batch.is_some() && end.is_some()
}

/// A task whose end cannot be written stays with its session, which lives: only when that ends a sweep finds it, counts a
/// crash, and ends it as poison if it comes to that. What a sweep itself cannot write is left, or there would be no end of it.
fn give_up(ended: &FinishedAttempt) {
    if matches!(&ended.end, AttemptEnd::Attempted(record) if record.outcome == Outcome::Abandoned) {
        return;
    }
    if let AttemptHolder::Node(session) = &ended.by {
        session.retire("it holds a task that could not be settled");
    }
}

fn log(ended: &FinishedAttempt, decision: Option<&Decision>, settled: Settled) {
    let task = &ended.task;
    if settled == Settled::Lost {
        // Superseded: someone else holds or ended the task. It changed nothing.
        let session = ended.by.session();
        warn!(task.id = %task.key.id, task.epoch = task.epoch, session.id = %session, "lost task {}", task.key.id);
        return;
    }
    let (AttemptEnd::Attempted(record), Some(decision)) = (&ended.end, decision) else {
        info!(task.id = %task.key.id, "handed back task {}", task.key.id);
        return;
    };
    match task.kind {
        TaskKind::Delivery => log_delivery(task, record, decision),
        TaskKind::Job => log_job(task, ended.job.as_deref(), record, decision),
    }
}

fn log_delivery(task: &Task, record: &AttemptRecord, decision: &Decision) {
    let duration_ms = u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX);
    let subject = everhook_core::id::MessageId(task.key.subject);
    let endpoint = everhook_core::id::EndpointId(task.lane.0);
    match decision.verdict {
        Verdict::Succeed => debug!(
            task.id = %task.key.id, message.id = %subject, endpoint.id = %endpoint, class = %record.class,
            http.status = record.status, duration_ms, attempt = decision.tries,
            "delivered {subject} in {duration_ms} ms"
        ),
        verdict => warn!(
            task.id = %task.key.id, message.id = %subject, endpoint.id = %endpoint, class = %record.class,
            http.status = record.status, duration_ms, attempt = decision.tries, verdict = %verdict,
            "attempt of {subject} ended as {}: {verdict}", record.class
        ),
    }
}

fn log_job(task: &Task, job: Option<&Job>, record: &AttemptRecord, decision: &Decision) {
    let duration_ms = u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX);
    let id = everhook_core::id::JobId(task.key.subject);
    let (queue, kind) = job.map_or(("", ""), |job| (job.queue.as_str(), job.kind.as_str()));
    match decision.verdict {
        Verdict::Succeed => debug!(
            task.id = %task.key.id, job.id = %id, queue, job.kind = kind, class = %record.class, duration_ms,
            attempt = decision.tries, "did {id} of {queue} in {duration_ms} ms"
        ),
        verdict => warn!(
            task.id = %task.key.id, job.id = %id, queue, job.kind = kind, class = %record.class, duration_ms,
            attempt = decision.tries, verdict = %verdict, "attempt of {id} ended as {}: {verdict}", record.class
        ),
    }
}
