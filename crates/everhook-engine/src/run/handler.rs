//! Handlers that run jobs in this process, and what they are given.
//!
//! A handler decides nothing about its task: it says how the attempt ended, and `settle` does the rest.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::{EnvironmentId, JobId, SessionId, TaskId};
use everhook_core::job::report::{Note, Progress, Report};
use everhook_core::job::{Job, LeaseProof};
use everhook_core::limits::LOG_LINES_MAX;
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_core::task::Task;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::node::Node;
use crate::session::Session;

/// Progress is written at most once in this time; what was said last is what is kept.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Runs jobs of a kind.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Runs one attempt. It is dropped when its time is over, when the node is stopped, or when the job is not its own any more. A
    /// panic is a failure.
    async fn run(&self, context: Context) -> Finish;
}

/// How a handler ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// How it ended.
    pub report: Report,
    /// The error; empty if there is none.
    pub error: String,
    /// The result, as JSON.
    pub result: Option<Bytes>,
}

impl Finish {
    /// It is done.
    pub fn completed(result: Option<Bytes>) -> Finish {
        Finish { report: Report::Completed, error: String::new(), result }
    }

    /// It ended in another way.
    pub fn other(report: Report, error: impl Into<String>) -> Finish {
        Finish { report, error: error.into(), result: None }
    }
}

/// The jobs that a node runs in its own process.
#[derive(Clone)]
pub struct Handlers {
    /// The tenant.
    pub environment: EnvironmentId,
    /// From these queues, and so many of each at once.
    pub queues: BTreeMap<Name, usize>,
    /// By kind.
    pub kinds: BTreeMap<Name, Arc<dyn Handler>>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.keys().collect::<Vec<_>>();
        f.debug_struct("Handlers").field("queues", &self.queues).field("kinds", &kinds).finish_non_exhaustive()
    }
}

/// The job of a handler, and the way to report on it while it runs.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    task: Task,
    job: Arc<Job>,
    session: Arc<Session>,
    node: Arc<Node>,
    cancelled: CancellationToken,
    log: Mutex<VecDeque<String>>,
    /// The last report that is not written.
    progress: Mutex<Option<Progress>>,
    said: Notify,
}

impl Context {
    pub(crate) fn new(task: Task, job: Arc<Job>, session: Arc<Session>, node: Arc<Node>) -> Context {
        let (cancelled, log, progress, said) =
            (CancellationToken::new(), Mutex::default(), Mutex::default(), Notify::new());
        Context(Arc::new(Inner { task, job, session, node, cancelled, log, progress, said }))
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.0.job
    }

    /// The tenant.
    pub fn environment(&self) -> EnvironmentId {
        self.0.task.key.environment
    }

    /// The number of this attempt: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.0.task.tries + 1
    }

    /// Says how far the job is, 0 to 100, with a text for people. More than 100 is all of it.
    pub fn progress(&self, percent: u8, text: &str) {
        let Ok(progress) = Progress::new(i64::from(percent.min(100)), text) else { return };
        *self.0.progress.lock().expect("nothing panics while it holds this lock") = Some(progress);
        self.0.said.notify_one();
    }

    /// Keeps a line with the attempt; of many, the last ones.
    pub fn log(&self, line: impl Into<String>) {
        let mut log = self.0.log.lock().expect("nothing panics while it holds this lock");
        if log.len() == LOG_LINES_MAX {
            log.pop_front();
        }
        log.push_back(line.into());
    }

    /// Waits until someone cancels the job. A handler that gives up then ends it as cancelled, whatever it says.
    pub async fn cancelled(&self) {
        self.0.cancelled.cancelled().await;
    }

    /// Whether someone cancelled the job.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// Whether the job is still this worker's, as far as it can know: to be asked before something that must not happen twice.
    pub fn still_mine(&self) -> bool {
        self.0.node.sessions.may_send(&self.0.session)
    }

    /// The note that the attempt keeps; empty, if nothing was logged.
    pub(crate) fn note(&self, error: &str) -> Bytes {
        let log = self.0.log.lock().expect("nothing panics while it holds this lock");
        if error.is_empty() && log.is_empty() {
            return Bytes::new();
        }
        Note::new(error, log.iter().map(String::as_str)).to_bytes()
    }

    /// Writes what is said, for as long as the handler runs.
    pub(crate) async fn tell_progress(&self) -> Infallible {
        loop {
            self.0.said.notified().await;
            self.tell_last_progress().await;
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    /// Writes what was said last, unless it is written.
    pub(crate) async fn tell_last_progress(&self) {
        let progress = self.0.progress.lock().expect("nothing panics while it holds this lock").take();
        let Some(progress) = progress else { return };
        let (key, by) = (self.0.task.key, LeaseProof { session: self.0.session.id, epoch: self.0.task.epoch });
        let told =
            self.0.node.store.report_progress(Scope::of(key.environment), JobId(key.subject), by, progress).await;
        match told {
            Ok(Ok(())) => {}
            Ok(Err(why)) => debug!(job.id = %JobId(key.subject), error = %why, "progress does not count"),
            Err(error) => debug!(error = &error as &dyn std::error::Error, "could not keep progress"),
        }
    }
}

/// Jobs that handlers run now, to tell them of cancellations.
#[derive(Default)]
pub(crate) struct Handled(Mutex<HashMap<TaskId, Context>>);

impl Handled {
    pub(crate) fn insert(&self, context: Context) {
        self.lock().insert(context.0.task.key.id, context);
    }

    pub(crate) fn remove(&self, task: TaskId) {
        self.lock().remove(&task);
    }

    /// The sessions that hold them.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<SessionId> = self.lock().values().map(|context| context.0.session.id).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    /// Tells the handlers of those tasks that were cancelled.
    pub(crate) fn cancel(&self, held: &[Task]) {
        let handled = self.lock();
        for task in held.iter().filter(|task| task.cancel) {
            if let Some(context) = handled.get(&task.key.id).filter(|context| context.0.task.epoch == task.epoch) {
                context.0.cancelled.cancel();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Context>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
