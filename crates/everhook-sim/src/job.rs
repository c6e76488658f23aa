//! Jobs of a world: what each is to do, and the handler that does it.
//!
//! A handler says in the log of its attempt which run it was: so the checker knows of every attempt who made it, and what that one said.

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

/// A queue without limits, one with limits, one that is pushed, and one that remote workers take.
pub(crate) const QUEUES: [&str; 4] = ["work", "narrow", "pushed", "remote"];
const NARROW: usize = 1;
const PUSHED: usize = 2;
const REMOTE: usize = 3;
/// Jobs of the narrow queue that may be leased at once, in all and of one concurrency key.
pub(crate) const NARROW_LIMITS: (u32, u32) = (2, 1);
const KIND: &str = "sim.work";
/// What the handlers of each queue do at once on one node.
const SLOTS: usize = 4;
/// How long a unique key counts: longer than any world lasts.
const UNIQUE_WINDOW: Duration = Duration::from_secs(3600);
/// Far longer than the lease: a living node keeps what it holds.
const LONG: Duration = Duration::from_secs(12);

/// What a job is to do.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    queue: usize,
    concurrency_key: Option<usize>,
    pub(crate) unique: Option<usize>,
    pub(crate) batch: Option<usize>,
    pub(crate) delay: Duration,
    /// So many attempts fail.
    pub(crate) fails: u32,
    /// So often it asks to be called again later.
    snoozes: usize,
    /// It kills the node that runs it, every time.
    poison: bool,
}

impl Fate {
    /// What the jobs of a world are to do.
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

    /// The job with this number, under an id of this try.
    pub(crate) fn job(&self, number: usize, id: JobId, batch: Option<BatchId>) -> Job {
        let unique = |key: usize| Unique { key: key.to_string(), window: UNIQUE_WINDOW };
        Job {
            retry: job_retry(),
            // What is pushed has the time that a send has; a handler has less, so that one that hangs is noticed.
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

    /// Whether it ends well when it is left alone.
    pub(crate) fn ends_well(&self) -> bool {
        self.fails < job_retry().attempts_max()
    }
}

/// Batches of a world.
pub(crate) const BATCHES: usize = 3;

/// When every job is tried again.
pub(crate) fn job_retry() -> RetryPolicy {
    RetryPolicy::new([1, 2, 4].map(Duration::from_secs).to_vec()).expect("a valid schedule")
}

/// What a job carries.
pub(crate) fn body(number: usize) -> Bytes {
    Bytes::from(format!("{{\"job\":{number}}}"))
}

fn number_of(body: &[u8]) -> Option<usize> {
    std::str::from_utf8(body).ok()?.strip_prefix("{\"job\":")?.strip_suffix('}')?.parse().ok()
}

/// A name that is one.
pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// The queues that someone configured.
pub(crate) fn configured() -> [Queue; 2] {
    let (limit, key_limit) = NARROW_LIMITS;
    let narrow = Queue { limit: Some(limit), key_limit: Some(key_limit), ..Queue::new(name(QUEUES[NARROW])) };
    let target = Target { url: "http://receiver/job".to_owned(), keys: SigningKeys::default() };
    [narrow, Queue { target: Some(target), ..Queue::new(name(QUEUES[PUSHED])) }]
}

/// The queue with limits.
pub(crate) fn narrow() -> &'static str {
    QUEUES[NARROW]
}

/// The queue of the remote workers.
pub(crate) fn remote() -> &'static str {
    QUEUES[REMOTE]
}

/// One call of a handler, or one job that a remote worker ran.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) job: JobId,
    pub(crate) body: Option<Bytes>,
    /// When it began and ended, in virtual time.
    pub(crate) at: Duration,
    pub(crate) ended: Option<Duration>,
    /// What the handler said, if it came to that.
    pub(crate) said: Option<Class>,
}

/// The handler of a node.
pub(crate) struct NodeHandler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) node: usize,
}

/// How a handler ends.
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
    /// What a node runs in its own process.
    pub(crate) fn into_handlers(self) -> Handlers {
        let queues = QUEUES.iter().enumerate().filter(|(queue, _)| ![PUSHED, REMOTE].contains(queue));
        Handlers {
            environment: ENVIRONMENT,
            queues: queues.map(|(_, queue)| (name(queue), SLOTS)).collect(),
            kinds: [(name(KIND), Arc::new(self) as Arc<dyn Handler>)].into(),
        }
    }
}

/// A run of a job, wherever it is.
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

    /// Whether it kills whoever runs it.
    pub(crate) fn is_poison(&self) -> bool {
        self.fate().is_some_and(|fate| fate.poison)
    }

    /// What it takes: now and then far longer than the lease.
    pub(crate) fn pause(&self) -> tokio::time::Sleep {
        let longest = if self.shared.rng.once_in(15) { LONG } else { Duration::from_millis(200) };
        tokio::time::sleep(self.shared.rng.between(Duration::ZERO, longest))
    }

    /// Longer than it may.
    pub(crate) fn hang(&self) -> tokio::time::Sleep {
        tokio::time::sleep(UNIQUE_WINDOW)
    }

    /// How this run ends: as the job's fate says, whatever went wrong around it.
    pub(crate) fn choose(&self, is_cancelled: bool) -> Ending {
        let id = self.job.id;
        if is_cancelled {
            return Ending::GiveUp;
        }
        let Some(fate) = self.fate() else { return Ending::Fail };
        if self.shared.snoozed(id) < fate.snoozes {
            return Ending::Snooze;
        }
        // What an operator looked after is in order from then on.
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
            // Without the words that a panic usually has for the log.
            std::panic::resume_unwind(Box::new("simulated"));
        }
        finish
    }
}
