//! Handlers that run jobs in this process, and the context that each call gets.
//!
//! A handler makes no decision about its task: it reports how the attempt ended, and `settle` records the report.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::{EnvironmentId, Id, JobId, SessionId, TaskId};
use everhook_core::job::report::{Note, Progress, Report};
use everhook_core::job::{Job, LeaseProof};
use everhook_core::limits::LOG_LINES_MAX;
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_core::task::Task;
use everhook_store::job::ProgressReport;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::node::Node;
use crate::session::Session;

/// The shortest time between two writes of progress. Only the latest progress is stored.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[async_trait]
pub trait Handler: Send + Sync {
    /// Runs one attempt. The future is dropped after the job's timeout, when the node stops, or when the lease is lost.
    /// A panic counts as a failure.
    async fn run(&self, context: Context) -> Finish;
}

/// The result of a handler.
#[derive(Clone, Debug)]
pub struct Finish {
    pub report: Report,
    /// The error text; empty if there is none.
    pub error: String,
    /// The result as JSON.
    pub result: Option<Bytes>,
}

impl Finish {
    pub fn completed(result: Option<Bytes>) -> Finish {
        Finish { report: Report::Completed, error: String::new(), result }
    }

    /// Creates the result of an attempt that did not complete the job.
    pub fn other(report: Report, error: impl Into<String>) -> Finish {
        Finish { report, error: error.into(), result: None }
    }
}

#[derive(Clone)]
pub struct Handlers {
    pub environment: EnvironmentId,
    /// The queues to lease from, with the number of jobs of each that may run at the same time.
    pub queues: BTreeMap<Name, usize>,
    /// The handlers by the kind of job.
    pub kinds: BTreeMap<Name, Arc<dyn Handler>>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.keys().collect::<Vec<_>>();
        f.debug_struct("Handlers").field("queues", &self.queues).field("kinds", &kinds).finish_non_exhaustive()
    }
}

/// The job of one handler call, with the functions to report on it while it runs.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    task: Task,
    job: Arc<Job>,
    session: Arc<Session>,
    node: Arc<Node>,
    cancelled: CancellationToken,
    log: Mutex<VecDeque<String>>,
    /// The latest progress that is not yet written.
    progress: Mutex<Option<Progress>>,
    said: Notify,
    /// Whether the job has advanced in this attempt, so that earlier crashes no longer count.
    advanced: AtomicBool,
}

impl Context {
    pub(crate) fn new(task: Task, job: Arc<Job>, session: Arc<Session>, node: Arc<Node>) -> Context {
        let (cancelled, log, progress, said) =
            (CancellationToken::new(), Mutex::default(), Mutex::default(), Notify::new());
        let advanced = AtomicBool::new(false);
        Context(Arc::new(Inner { task, job, session, node, cancelled, log, progress, said, advanced }))
    }

    pub fn job(&self) -> &Job {
        &self.0.job
    }

    pub fn environment(&self) -> EnvironmentId {
        self.0.task.key.environment
    }

    /// Returns the number of this attempt, starting with 1.
    pub fn attempt(&self) -> u32 {
        self.0.task.tries + 1
    }

    /// Reports the progress in percent, with a text for operators. Values above 100 count as 100.
    pub fn progress(&self, percent: u8, text: &str) {
        let Ok(progress) = Progress::new(i64::from(percent.min(100)), text) else { return };
        *self.0.progress.lock().expect("nothing panics while it holds this lock") = Some(progress);
        self.0.said.notify_one();
    }

    /// Stores a log line with the attempt. Beyond the limit, the oldest lines are dropped.
    pub fn log(&self, line: impl Into<String>) {
        let mut log = self.0.log.lock().expect("nothing panics while it holds this lock");
        if log.len() == LOG_LINES_MAX {
            log.pop_front();
        }
        log.push_back(line.into());
    }

    /// Waits until the job is cancelled. A handler that then returns without completing the job ends it as cancelled,
    /// whatever it reports.
    pub async fn cancelled(&self) {
        self.0.cancelled.cancelled().await;
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// Whether the node takes no more work. Own jobs that continue later without loss then return as interrupted.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.node.stop.is_cancelled()
    }

    /// Waits for this time, or until the job is cancelled or the node takes no more work.
    pub(crate) async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.cancelled() => {}
            () = self.0.node.stop.cancelled() => {}
        }
    }

    /// Returns whether this worker still holds the job, as far as it knows. Ask before an action that must not happen
    /// twice.
    pub fn still_mine(&self) -> bool {
        self.0.node.sessions.may_send(&self.0.session)
    }

    /// The proof that this attempt holds the job.
    pub(crate) fn lease(&self) -> LeaseProof {
        LeaseProof { session: self.0.session.id, epoch: self.0.task.epoch }
    }

    pub(crate) fn new_id(&self) -> Id {
        self.0.node.new_id()
    }

    /// Notes that the store has recorded an advance of the job, and has forgotten the crashes of earlier holders.
    pub(crate) fn note_advance(&self) {
        self.0.advanced.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_advanced(&self) -> bool {
        self.0.advanced.load(Ordering::Relaxed)
    }

    /// Wakes the dispatchers of deliveries, after the handler added some.
    pub(crate) fn wake_deliveries(&self) {
        self.0.node.wakeups.hint_deliveries();
    }

    /// The note to store with the attempt; empty if nothing was logged.
    pub(crate) fn note(&self, error: &str) -> Bytes {
        let log = self.0.log.lock().expect("nothing panics while it holds this lock");
        if error.is_empty() && log.is_empty() {
            return Bytes::new();
        }
        Note::new(error, log.iter().map(String::as_str)).to_bytes()
    }

    /// Writes reported progress for as long as the handler runs.
    pub(crate) async fn tell_progress(&self) -> Infallible {
        loop {
            self.0.said.notified().await;
            self.tell_last_progress().await;
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    /// Writes the latest progress, unless it is already written.
    pub(crate) async fn tell_last_progress(&self) {
        let progress = self.0.progress.lock().expect("nothing panics while it holds this lock").take();
        let Some(progress) = progress else { return };
        let (key, by) = (self.0.task.key, self.lease());
        let report = ProgressReport { job: JobId(key.subject), by, progress };
        let told = self.0.node.store.report_progress(Scope::of(key.environment), report).await;
        match told {
            Ok(Ok(())) => {}
            Ok(Err(why)) => debug!(job.id = %JobId(key.subject), error = %why, "progress was not stored"),
            Err(error) => debug!(error = &error as &dyn std::error::Error, "could not store progress"),
        }
    }
}

/// Running jobs of handlers, so that cancellations reach them.
#[derive(Default)]
pub(crate) struct Handled(Mutex<HashMap<TaskId, Context>>);

impl Handled {
    pub(crate) fn insert(&self, context: Context) {
        self.lock().insert(context.0.task.key.id, context);
    }

    pub(crate) fn remove(&self, task: TaskId) {
        self.lock().remove(&task);
    }

    /// The sessions that hold these jobs.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<SessionId> = self.lock().values().map(|context| context.0.session.id).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    /// Notifies the handlers of cancelled tasks.
    pub(crate) fn cancel(&self, held: &[Task]) {
        let handled = self.lock();
        for task in held.iter().filter(|task| task.cancel) {
            // A job may have been leased again since `held` was read. The epoch ensures that only the cancelled attempt
            // stops.
            if let Some(context) = handled.get(&task.key.id).filter(|context| context.0.task.epoch == task.epoch) {
                context.0.cancelled.cancel();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Context>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
