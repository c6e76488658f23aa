//! The simulated jobs: their planned behaviour and the handler that follows the plan.
//!
//! A handler writes the number of its run into the log of its attempt. The checker can therefore match every attempt
//! with its run and report.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::{BatchId, JobId};
use everhook_core::job::report::Report;
use everhook_core::job::{Job, RunAt, Unique};
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::queue::{Queue, Target};
use everhook_core::retry::RetryPolicy;
use everhook_core::signing::SigningKeys;
use everhook_engine::run::handler::{Context, Finish, Handler, Handlers};
use everhook_testkit::rng::Rng;

use crate::client::ENVIRONMENT;
use crate::gate::{Gate, Health};
use crate::world::Shared;

/// A queue without limits, one with limits, one that is pushed, and one for remote workers.
pub(crate) const QUEUES: [&str; 4] = ["work", "narrow", "pushed", "remote"];
const NARROW: usize = 1;
const PUSHED: usize = 2;
const REMOTE: usize = 3;
/// The limits of the narrow queue: leased jobs in total and per concurrency key.
pub(crate) const NARROW_LIMITS: (u32, u32) = (2, 1);
const KIND: &str = "sim.work";
/// Jobs of one queue that the handlers of one node run at the same time.
const SLOTS: usize = 4;
/// The validity of a unique key; longer than any world lasts.
const UNIQUE_WINDOW: Duration = Duration::from_secs(3600);
/// A duration far longer than the lease. A node that is alive must keep its jobs for that time.
const LONG: Duration = Duration::from_secs(12);

/// The planned behaviour of a job.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    queue: usize,
    concurrency_key: Option<usize>,
    pub(crate) unique: Option<usize>,
    pub(crate) batch: Option<usize>,
    pub(crate) delay: Duration,
    /// The number of attempts that fail.
    pub(crate) fails: u32,
    /// The number of attempts that snooze.
    snoozes: usize,
    /// Whether it crashes every process that runs it.
    poison: bool,
}

impl Fate {
    /// Draws the behaviour of all jobs of a world.
    pub(crate) fn draw(rng: &Rng, jobs: usize, poisoned: bool) -> Vec<Fate> {
        let draw = |number| {
            let queue = rng.below(QUEUES.len());
            Fate {
                queue,
                concurrency_key: (queue == NARROW && rng.once_in(2)).then(|| rng.below(2)),
                unique: rng.once_in(6).then(|| rng.below(2)),
                batch: rng.once_in(2).then(|| rng.below(BATCHES)),
                delay: if rng.once_in(5) { rng.between(Duration::ZERO, LONG) } else { Duration::ZERO },
                fails: if rng.once_in(3) { u32::try_from(rng.below(6)).unwrap_or(0) } else { 0 },
                snoozes: if rng.once_in(5) { 1 + rng.below(2) } else { 0 },
                poison: number == 0 && poisoned,
            }
        };
        (0..jobs).map(draw).collect()
    }

    /// Builds the job with this number, under a new id for each try.
    pub(crate) fn job(&self, number: usize, id: JobId, batch: Option<BatchId>) -> Job {
        let unique = |key: usize| Unique { key: key.to_string(), window: UNIQUE_WINDOW };
        Job {
            retry: job_retry(),
            // A pushed job may take as long as a request. A handler has less time, so that a hanging one times out.
            timeout: if self.queue == PUSHED { 3 * LONG } else { LONG + LONG / 4 },
            unique: self.unique.map(unique),
            concurrency_key: self.concurrency_key.map(|key| key.to_string()),
            batch,
            ..Job::new(id, name(QUEUES[self.queue]), name(KIND), body(number))
        }
    }

    pub(crate) fn run_at(&self) -> RunAt {
        if self.delay.is_zero() { RunAt::Now } else { RunAt::In(self.delay) }
    }

    pub(crate) fn is_pushed(&self) -> bool {
        self.queue == PUSHED
    }

    /// Returns whether the job succeeds if no operator changes it.
    pub(crate) fn ends_well(&self) -> bool {
        self.fails < job_retry().attempts_max()
    }
}

pub(crate) const BATCHES: usize = 3;

/// The retry policy of all jobs.
pub(crate) fn job_retry() -> RetryPolicy {
    RetryPolicy::new([1, 2, 4].map(Duration::from_secs).to_vec()).expect("a valid schedule")
}

/// The payload of a job.
pub(crate) fn body(number: usize) -> Bytes {
    Bytes::from(format!("{{\"job\":{number}}}"))
}

fn number_of(body: &[u8]) -> Option<usize> {
    std::str::from_utf8(body).ok()?.strip_prefix("{\"job\":")?.strip_suffix('}')?.parse().ok()
}

/// Parses a name that is known to be valid.
pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// The queues with a configuration.
pub(crate) fn configured() -> [Queue; 2] {
    let (limit, key_limit) = NARROW_LIMITS;
    let narrow = Queue { limit: Some(limit), key_limit: Some(key_limit), ..Queue::new(name(QUEUES[NARROW])) };
    let target = Target { url: "http://receiver/job".to_owned(), keys: SigningKeys::default() };
    [narrow, Queue { target: Some(target), ..Queue::new(name(QUEUES[PUSHED])) }]
}

pub(crate) fn narrow() -> &'static str {
    QUEUES[NARROW]
}

pub(crate) fn remote() -> &'static str {
    QUEUES[REMOTE]
}

/// One call of a handler, or one run by a remote worker.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) job: JobId,
    pub(crate) body: Option<Bytes>,
    /// The virtual times of the start and the end.
    pub(crate) at: Duration,
    pub(crate) ended: Option<Duration>,
    /// The handler's report; none if the run ended without one.
    pub(crate) said: Option<Class>,
}

pub(crate) struct NodeHandler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) node: usize,
}

/// The ways in which a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    Fail,
    Panic,
    Hang,
    Snooze,
    GiveUp,
}

impl NodeHandler {
    /// The handlers of a node.
    pub(crate) fn into_handlers(self) -> Handlers {
        let queues = QUEUES.iter().enumerate().filter(|(queue, _)| ![PUSHED, REMOTE].contains(queue));
        Handlers {
            environment: ENVIRONMENT,
            queues: queues.map(|(_, queue)| (name(queue), SLOTS)).collect(),
            kinds: [(name(KIND), Arc::new(self) as Arc<dyn Handler>)].into(),
        }
    }
}

/// A run of a job, by a handler or a remote worker.
pub(crate) struct Working<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) job: &'a Job,
    pub(crate) attempt: u32,
    pub(crate) run: usize,
}

impl Working<'_> {
    fn fate(&self) -> Option<&Fate> {
        self.shared.fates.get(self.job.payload.as_deref().and_then(number_of)?)
    }

    /// Returns whether the job crashes every process that runs it.
    pub(crate) fn is_poison(&self) -> bool {
        self.fate().is_some_and(|fate| fate.poison)
    }

    /// The duration of the run; sometimes far longer than the lease.
    pub(crate) fn pause(&self) -> tokio::time::Sleep {
        let longest = if self.shared.rng.once_in(15) { LONG } else { Duration::from_millis(200) };
        tokio::time::sleep(self.shared.rng.between(Duration::ZERO, longest))
    }

    /// A duration longer than the job's timeout.
    pub(crate) fn hang(&self) -> tokio::time::Sleep {
        tokio::time::sleep(UNIQUE_WINDOW)
    }

    /// Chooses the end of this run according to the plan of the job, independent of faults.
    pub(crate) fn choose(&self, is_cancelled: bool) -> Ending {
        let id = self.job.id;
        if is_cancelled {
            return Ending::GiveUp;
        }
        let Some(fate) = self.fate() else { return Ending::Fail };
        if self.shared.snoozed(id) < fate.snoozes {
            return Ending::Snooze;
        }
        // After an operator has changed a job, all its attempts succeed.
        if self.attempt > fate.fails || self.shared.is_steered(id) {
            return Ending::Complete;
        }
        [Ending::Fail, Ending::Panic, Ending::Hang][self.run % 3]
    }
}

#[async_trait]
impl Handler for NodeHandler {
    async fn run(&self, context: Context) -> Finish {
        self.gate.pass().await;
        let (id, body) = (context.job().id, context.job().payload.clone());
        let at = self.shared.trace.elapsed();
        let run = self.shared.begin_run(Run { job: id, body, at, ended: None, said: None });
        context.log(format!("run {run}"));
        self.shared.trace.event(format_args!("node {} runs {id}, attempt {}: {run}", self.node, context.attempt()));
        let working = Working { shared: &self.shared, job: context.job(), attempt: context.attempt(), run };
        if working.is_poison() {
            self.gate.set(Health::Dead);
        }
        context.progress(50, &format!("run {run}"));
        working.pause().await;
        self.gate.pass().await;
        let ending = working.choose(context.is_cancelled());
        self.shared.trace.event(format_args!("node {} run {run}: {ending:?}", self.node));
        let (said, finish) = match ending {
            Ending::Complete => (Class::Success, Finish::completed(Some(Bytes::from(format!("{{\"run\":{run}}}"))))),
            Ending::Fail => (Class::Failed, Finish::other(Report::Failed { retry_after: None }, "it failed")),
            Ending::Snooze => (Class::Snoozed, Finish::other(Report::Snoozed { wait: Duration::from_secs(2) }, "")),
            Ending::GiveUp => (Class::Cancelled, Finish::other(Report::Cancelled, "it was cancelled")),
            Ending::Panic => (Class::Panicked, Finish::other(Report::Panicked, "")),
            Ending::Hang => std::future::pending().await,
        };
        self.shared.end_run(run, said);
        if ending == Ending::Panic {
            // This skips the panic hook, which would print a message.
            std::panic::resume_unwind(Box::new("simulated"));
        }
        finish
    }
}
