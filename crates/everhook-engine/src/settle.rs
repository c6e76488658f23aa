//! Ends attempts. Every end goes through this module: a reply, a failure, a crashed holder, a stop.
//!
//! Settlements are written in batches: while one transaction commits, the next batch fills. At low load each is written
//! at once. A failed write is repeated until the store responds. Settling is idempotent, so repeating a write in doubt
//! is safe. The queue is bounded, and an attempt keeps its slot while it waits for a place. An unavailable store
//! therefore stops the intake instead of filling memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::exchange::StoredExchange;
use everhook_core::id::{AttemptId, SessionId};
use everhook_core::job::Job;
use everhook_core::job::report::KeptResult;
use everhook_core::lifecycle::{self, Decision, EndState, NextRow, Verdict};
use everhook_core::limits::{SETTLE_BATCH_MAX, SETTLE_QUEUE_MAX};
use everhook_core::outcome::{Class, Outcome};
use everhook_core::policy::limit::LimitEnd;
use everhook_core::retry::RetryPolicy;
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_core::traffic;
use everhook_store::capacity::Slot;
use everhook_store::error::StoreError;
use everhook_store::lease::{NewAttempt, Settled, Settlement};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{debug, error, info, warn};

use crate::node::Node;
use crate::session::Session;
use crate::stall_watch::StallWatch;

/// Concurrent transactions. The second one is only used while the first hangs.
const WRITERS: usize = 2;
/// The minimum time between the starts of two transactions at low load. A client that sends one message after another
/// would otherwise find the store busy with the previous settlement each time.
const SETTLE_PACE: Duration = Duration::from_millis(3);
/// A batch of this size is written without waiting for `SETTLE_PACE`.
const SETTLE_WORTH_IT: usize = 50;
/// The time after which a second transaction starts beside a slow one. Until then settlements collect, because fewer
/// and larger transactions are cheaper.
const HANGS_AFTER: Duration = Duration::from_millis(20);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The longest wait of a remote worker for the result of its settlement.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// An attempt that has ended, or a leased task that was not started.
pub(crate) struct FinishedAttempt {
    pub(crate) task: Task,
    /// The job of a job task; it contains the retry policy.
    pub(crate) job: Option<Arc<Job>>,
    /// The retry policy of a delivery, if it is not the server's.
    pub(crate) retry: Option<RetryPolicy>,
    /// The effect on the lane of a delivery, by its limits as of the lease.
    pub(crate) limits: LimitEnd,
    pub(crate) by: AttemptHolder,
    /// Dropping it after the write releases the slot.
    pub(crate) slot: SlotHold,
    pub(crate) end: AttemptEnd,
}

/// The holder of the task's lease.
pub(crate) enum AttemptHolder {
    Node(Arc<Session>),
    /// A remote worker whose request waits for the answer.
    Worker {
        session: SessionId,
        /// Dropped without an answer if the result is unknown; the worker then repeats its report.
        answer: oneshot::Sender<SettleReply>,
    },
}

/// The answer to a remote worker's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettleReply {
    /// The settlement was recorded. Contains the task's new state, unless the task was handed back.
    Done(Option<EndState>),
    /// The settlement was not recorded, because the lease was lost.
    Rejected,
}

impl AttemptHolder {
    fn session(&self) -> SessionId {
        match self {
            AttemptHolder::Node(session) => session.id,
            AttemptHolder::Worker { session, .. } => *session,
        }
    }

    /// Returns true if the settlement is pointless: the session was closed, or the worker's request has ended.
    fn is_gone(&self) -> bool {
        match self {
            AttemptHolder::Node(session) => session.is_closed(),
            AttemptHolder::Worker { answer, .. } => answer.is_closed(),
        }
    }
}

/// The capacity that an ended attempt holds until it is written.
pub(crate) enum SlotHold {
    /// A reclaimed task never had a slot.
    Nothing,
    /// The slot is released after the write.
    Slot { _slot: Slot },
    /// The slot was released early. The token makes a drain wait for the write.
    Unsettled { _token: TaskTrackerToken },
}

/// The way in which a lease ended.
#[expect(clippy::large_enum_variant, reason = "nearly all leases end with an attempt, which a box would slow down")]
pub(crate) enum AttemptEnd {
    /// The task was not tried and is due again, unchanged.
    HandedBack,
    /// The attempt has an outcome, which is logged and counted.
    Attempted(AttemptRecord),
}

impl AttemptEnd {
    pub(crate) const fn record(&self) -> Option<&AttemptRecord> {
        match self {
            AttemptEnd::HandedBack => None,
            AttemptEnd::Attempted(record) => Some(record),
        }
    }
}

/// The entry for the attempt log.
pub(crate) struct AttemptRecord {
    /// The id that the request carried; none if no request was sent under an id.
    pub(crate) id: Option<AttemptId>,
    pub(crate) outcome: Outcome,
    pub(crate) class: Class,
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) reply: Bytes,
    pub(crate) started_at: Timestamp,
    pub(crate) duration: Duration,
    pub(crate) result: Option<KeptResult>,
    /// The session that made the attempt, if another one settles it.
    pub(crate) holder: Option<SessionId>,
    /// How long the lane has to rest, by the experience of this node with its receiver.
    pub(crate) rest: Option<Duration>,
    /// The steps of a delivery's request.
    pub(crate) exchange: Option<StoredExchange>,
}

impl AttemptRecord {
    /// An attempt that took no time, and sent no request.
    pub(crate) fn new((class, outcome): (Class, Outcome), reply: Bytes, started_at: Timestamp) -> AttemptRecord {
        AttemptRecord {
            id: None,
            outcome,
            class,
            url: String::new(),
            status: 0,
            reply,
            started_at,
            duration: Duration::ZERO,
            result: None,
            holder: None,
            rest: None,
            exchange: None,
        }
    }
}

/// Writes ended attempts to the store.
pub(crate) struct Settler {
    queue: mpsc::Sender<FinishedAttempt>,
    waiting: Mutex<mpsc::Receiver<FinishedAttempt>>,
    /// Held by the active writer, with the start of the last transaction. A second writer proceeds without it if the
    /// first one hangs.
    turn: Mutex<Option<Duration>>,
    /// Attempts whose slot was released before they were written.
    unsettled: TaskTracker,
    /// Measures the progress of the writers, one batch at a time.
    stall_watch: StallWatch,
}

impl Default for Settler {
    fn default() -> Settler {
        let (queue, waiting) = mpsc::channel(SETTLE_QUEUE_MAX);
        Settler {
            queue,
            waiting: Mutex::new(waiting),
            turn: Mutex::default(),
            unsettled: TaskTracker::new(),
            stall_watch: StallWatch::default(),
        }
    }
}

impl Settler {
    /// Returns how long no batch was written although some were waiting.
    pub(crate) fn stalled(&self, now: Duration) -> Duration {
        self.stall_watch.stalled(now)
    }

    /// Waits until all attempts with an early released slot are written.
    pub(crate) async fn settled(&self) {
        self.unsettled.close();
        self.unsettled.wait().await;
    }

    /// The number of unwritten attempts whose slot was released.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Queues an ended attempt; waits while the queue is full.
    #[expect(clippy::manual_async_fn, reason = "an async function keeps its argument twice in its future")]
    pub(crate) fn settle(&self, mut ended: FinishedAttempt) -> impl Future<Output = ()> + Send {
        async move {
            // The receiver belongs to the settler, so the channel cannot be closed here.
            let Ok(place) = self.queue.reserve().await else { return };
            // After a success the slot is released at once, because the endpoint can take the next request. After a
            // failure the endpoint may have to back off. The slot stays occupied until that is committed, so that no
            // other task of the lane starts.
            if matches!(&ended.end, AttemptEnd::Attempted(record) if record.outcome == Outcome::Success) {
                ended.slot = SlotHold::Unsettled { _token: self.unsettled.token() };
            }
            place.send(ended);
        }
    }

    /// Settles the report of a remote worker. Returns none if the result is not known within the deadline.
    pub(crate) async fn settle_for(
        &self,
        session: SessionId,
        task: Task,
        job: Option<Arc<Job>>,
        end: AttemptEnd,
    ) -> Option<SettleReply> {
        let (answer, answered) = oneshot::channel();
        let by = AttemptHolder::Worker { session, answer };
        self.settle(FinishedAttempt {
            task,
            job,
            retry: None,
            limits: LimitEnd::default(),
            by,
            slot: SlotHold::Nothing,
            end,
        })
        .await;
        tokio::time::timeout(ANSWER_DEADLINE, answered).await.ok()?.ok()
    }

    /// Writes settlements until it is dropped at the end of a drain.
    pub(crate) async fn run(&self, node: &Node) {
        let writers: [_; WRITERS] = std::array::from_fn(|_| self.write_batches(node));
        futures_util::future::join_all(writers).await;
    }

    async fn write_batches(&self, node: &Node) {
        let mut batch = Vec::with_capacity(SETTLE_BATCH_MAX);
        loop {
            // Only one writer receives at a time, so that it collects all waiting attempts instead of a part.
            let mut waiting = self.waiting.lock().await;
            batch.extend(waiting.recv().await);
            self.stall_watch.begin(node.clock.elapsed());
            // A writer that waits too long for its turn proceeds anyway: a hanging transaction must not block the
            // others.
            let mut turn = tokio::time::timeout(HANGS_AFTER, self.turn.lock()).await;
            if let Ok(last) = &mut turn {
                // The pace applies only to this node's own attempts; a remote worker waits for its answer.
                let nobody_asks = batch.iter().all(|ended| matches!(ended.by, AttemptHolder::Node(_)));
                if let Some(begun) = **last
                    && nobody_asks
                    && waiting.len() < SETTLE_WORTH_IT
                {
                    tokio::time::sleep_until(node.clock.instant(begun + SETTLE_PACE)).await;
                }
                **last = Some(node.clock.elapsed());
            }
            while batch.len() < SETTLE_BATCH_MAX
                && let Ok(ended) = waiting.try_recv()
            {
                batch.push(ended);
            }
            drop(waiting);
            write(node, &mut batch).await;
            self.stall_watch.end(node.clock.elapsed());
            drop(turn);
            batch.clear();
        }
    }
}

async fn write(node: &Node, batch: &mut Vec<FinishedAttempt>) {
    let (settlements, decided): (Vec<_>, Vec<_>) = batch.iter().map(|ended| decide(node, ended)).unzip();
    let settlements: Arc<[Settlement]> = settlements.into();
    let begun = node.metrics.begin();
    let Some(settled) = write_until_answered(node, &settlements, batch).await else { return };
    node.metrics.settled(settlements.len(), begun);
    node.activity.changed(batch.iter().map(|ended| ended.task.key.environment));
    node.traffic.attempted(batch.iter().zip(&decided).zip(&settled).filter_map(attempt_of_delivery));
    let (mut jobs, mut is_freed) = (false, false);
    for (((ended, settlement), decision), settled) in batch.drain(..).zip(&*settlements).zip(&decided).zip(settled) {
        log(&ended, decision.as_ref(), settled);
        count(node, &ended, decision.as_ref(), settled);
        jobs |= settlement.kind == TaskKind::Job;
        is_freed |= settlement.limits.is_freed || settlement.ended_key().is_some();
        if let (Settled::Done, NextRow::Pending { due_in }) = (settled, settlement.row) {
            node.wakeups.due_in(settlement.kind, due_in);
        }
        if let AttemptHolder::Worker { answer, .. } = ended.by {
            let end = decision.map(|decision| decision.end);
            let _ = answer.send(if settled == Settled::Done { SettleReply::Done(end) } else { SettleReply::Rejected });
        }
    }
    if is_freed {
        // A lane at its concurrency limit is ready now, and no lease knows of it.
        node.wakeups.hint_deliveries_here();
    }
    if jobs {
        // The end of a job may free a place in a limited queue. The lease that found the queue full could not say when
        // that would be.
        node.wakeups.hint_jobs_here();
    }
}

fn count(node: &Node, ended: &FinishedAttempt, decision: Option<&Decision>, settled: Settled) {
    match (settled, &ended.end) {
        (Settled::Lost, _) => node.metrics.lost(),
        (Settled::Done, AttemptEnd::HandedBack) => {}
        (Settled::Done, AttemptEnd::Attempted(record)) => {
            node.metrics.attempted(ended.task.kind, record.class, record.duration);
            if let Some(change) = ended.limits.breaker.filter(|change| node.breakers.is_first(&ended.task, change)) {
                node.metrics.breaker(change.step());
            }
            if let Some(decision) = decision.filter(|_| ended.task.kind == TaskKind::Delivery) {
                let ended_at = record.started_at.plus(record.duration);
                let is_delivered = decision.end == EndState::Succeeded;
                let took = traffic::time_to_delivery(&ended.task, ended_at).filter(|_| is_delivered);
                node.metrics.delivered(decision.end, took);
            }
            if let Some(job) = &ended.job {
                node.counts.ended(ended.task.key.environment, &job.queue);
            }
        }
    }
}

/// Returns the end of an attempt for the counts of traffic, if a delivery was attempted and settled.
fn attempt_of_delivery<'e>(
    ((ended, decision), settled): ((&'e FinishedAttempt, &Option<Decision>), &Settled),
) -> Option<(&'e Task, traffic::AttemptEnd)> {
    let (AttemptEnd::Attempted(record), Some(decision)) = (&ended.end, decision) else { return None };
    let is_counted = *settled == Settled::Done && ended.task.kind == TaskKind::Delivery;
    let at = record.started_at.plus(record.duration);
    let end = traffic::AttemptEnd { class: record.class, status: record.status, end: decision.end, at };
    is_counted.then_some((&ended.task, end))
}

fn decide(node: &Node, ended: &FinishedAttempt) -> (Settlement, Option<Decision>) {
    let task = &ended.task;
    let settlement = Settlement { limits: ended.limits, ..Settlement::of(task, ended.by.session()) };
    let AttemptEnd::Attempted(record) = &ended.end else { return (settlement, None) };
    let own = ended.job.as_ref().map(|job| &job.retry).or(ended.retry.as_ref());
    let policy = own.unwrap_or(&node.config.retry);
    let decision = lifecycle::decide(task, record.outcome, policy, node.entropy.jitter());
    let attempt = NewAttempt {
        id: record.id.unwrap_or_else(|| AttemptId(node.new_id())),
        holder: record.holder,
        class: record.class,
        end: decision.end,
        trigger: task.trigger,
        url: record.url.clone(),
        status: record.status,
        reply: record.reply.clone(),
        started_at: record.started_at,
        duration: record.duration,
        exchange: record.exchange.clone(),
    };
    let settlement = Settlement {
        row: decision.row,
        tries: decision.tries,
        crashes: decision.crashes,
        attempt: Some(attempt),
        hold_lane: decision.hold_lane.max(record.rest),
        stop_lane: decision.stop_lane,
        result: record.result.clone(),
        ..settlement
    };
    (settlement, Some(decision))
}

/// Repeats the write until the store responds, or until all holders are gone and no result could be recorded. A
/// repeated settlement is safe because it is fenced by session and epoch: if the lost one was committed, the store
/// recognises the repetition.
async fn write_until_answered(
    node: &Node,
    settlements: &Arc<[Settlement]>,
    batch: &[FinishedAttempt],
) -> Option<Vec<Settled>> {
    loop {
        match node.store.settle(Arc::clone(settlements)).await {
            Ok(settled) => {
                node.metrics.made(settled.made);
                // An announcement of a batch or an operational event has pending deliveries, which any node may lease.
                node.wakeups.hint_made(settled.made);
                return Some(settled.answer);
            }
            // One bad settlement fails the whole transaction. Writing each one alone lets the good ones through.
            Err(error @ (StoreError::Refused { .. } | StoreError::Corrupt { .. })) if settlements.len() > 1 => {
                let count = settlements.len();
                warn!(
                    error = &error as &dyn std::error::Error,
                    "store refused to settle {count} tasks: settling them one by one"
                );
                return Some(write_singly(node, settlements, batch).await);
            }
            Err(error @ (StoreError::Refused { .. } | StoreError::Corrupt { .. })) => {
                error!(error = &error as &dyn std::error::Error, "could not settle task {}", settlements[0].key.id);
                give_up(&batch[0]);
                return None;
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "could not settle {} tasks: retrying", settlements.len());
            }
        }
        if batch.iter().all(|ended| ended.by.is_gone()) {
            warn!("gave up settling {} tasks: their sessions or requests were closed", settlements.len());
            return None;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Writes each settlement in its own transaction, and repeats each until the store responds.
async fn write_singly(node: &Node, settlements: &[Settlement], batch: &[FinishedAttempt]) -> Vec<Settled> {
    let mut settled = Vec::with_capacity(settlements.len());
    for (settlement, ended) in settlements.iter().zip(batch) {
        let (one, ended) = (Arc::from([settlement.clone()]), std::slice::from_ref(ended));
        let answers = Box::pin(write_until_answered(node, &one, ended)).await;
        settled.push(answers.and_then(|answers| answers.first().copied()).unwrap_or(Settled::Lost));
    }
    settled
}

/// Handles a task whose settlement the store refuses. The task stays leased while the session is open, so the session
/// is retired. After it is closed, the sweep reclaims the task, counts a crash, and ends the task as dead after enough
/// crashes. A refused settlement of the sweep itself is dropped, because retiring the session again would never end.
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
        // Another session holds or has ended the task. This settlement changed nothing.
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
            attempt = decision.tries, "completed {id} of {queue} in {duration_ms} ms"
        ),
        // It asked for a later time, which is no failure.
        verdict if record.class == Class::Snoozed => debug!(
            task.id = %task.key.id, job.id = %id, queue, job.kind = kind, duration_ms, "snoozed {id} of {queue}: {verdict}"
        ),
        verdict => warn!(
            task.id = %task.key.id, job.id = %id, queue, job.kind = kind, class = %record.class, duration_ms,
            attempt = decision.tries, verdict = %verdict, "attempt of {id} ended as {}: {verdict}", record.class
        ),
    }
}
