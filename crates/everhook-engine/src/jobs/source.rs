//! Jobs for their dispatcher: from queues with a target, which are pushed, and from queues with handlers in this process.
//!
//! Environments share the node's slots by `core::share`. As long as the pool has some left, all queues are asked, and lanes that wait
//! longest come first. Then, from the queues of each environment, only what is promised to it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::{EnvironmentId, LaneId, SessionId};
use everhook_core::name::Name;
use everhook_core::queue::gate;
use everhook_core::share::{Shares, Tenant, share_out, split};
use everhook_store::error::StoreError;
use everhook_store::job::{JobAsk, LeasedJob, QueueAsk};
use everhook_store::lease::LeaseAsk;
use everhook_store::query;
use everhook_store::slots::Slot;
use everhook_store::store::{Reads, Store};
use everhook_store::worker::Takes;
use tracing::warn;

use crate::clock::Clock;
use crate::dispatcher::{Ask, Grant, Source};
use crate::jobs::handler::Handlers;
use crate::jobs::runner::{How, Runner, Work};
use crate::session::Tenure;

/// How often the queues with a target are looked up.
const TARGETS_INTERVAL: Duration = Duration::from_secs(2);

/// A queue with what its slots are counted under.
type Queues = BTreeMap<(EnvironmentId, Name), LaneId>;

/// Jobs, for their dispatcher.
pub(crate) struct JobSource {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) runner: Arc<Runner>,
    /// Whether requests leave this node.
    pub(crate) pushes: bool,
    pub(crate) handlers: Option<Arc<Handlers>>,
    pub(crate) handled: Queues,
    pub(crate) targets: Mutex<Targets>,
    /// Someone changed a queue.
    pub(crate) changed: Arc<AtomicBool>,
    /// The session that the store was last told of, what it takes.
    pub(crate) told: Mutex<Option<SessionId>>,
    /// Which queue of an environment is the first to get its share of what is promised; the next one each time.
    pub(crate) turn: AtomicUsize,
}

/// Queues with a target, as of the last look.
#[derive(Default)]
pub(crate) struct Targets {
    queues: Queues,
    looked_at: Option<Duration>,
}

/// The lanes of the queues that handlers take from.
pub(crate) fn handled(handlers: &Handlers) -> Queues {
    let environment = handlers.environment;
    handlers.queues.keys().map(|name| ((environment, name.clone()), LaneId(gate(environment, name)))).collect()
}

/// The environments of a lease, and what they have of the node's places.
struct Sharing {
    slots: usize,
    places: usize,
    tenants: BTreeMap<EnvironmentId, Tenant>,
}

impl Sharing {
    fn shares(&self) -> Shares {
        share_out(self.slots, self.places, &self.tenants)
    }

    /// Those of the queues that may give something out of what is promised to their environment, and how much. Where that is less than
    /// one for each, it is another queue's turn the next time.
    fn promised_of(&self, asks: Vec<QueueAsk>, turn: usize) -> Vec<QueueAsk> {
        let shares = self.shares();
        let mut by_environment: BTreeMap<EnvironmentId, Vec<QueueAsk>> = BTreeMap::new();
        for ask in asks {
            by_environment.entry(ask.environment).or_default().push(ask);
        }
        let mut promised = Vec::new();
        for (environment, mut asks) in by_environment {
            let first = turn % asks.len();
            asks.rotate_left(first);
            let mut rooms: Vec<usize> = asks.iter().map(|ask| ask.room).collect();
            split(shares.promised.get(&environment).copied().unwrap_or(0), &mut rooms);
            promised.extend(asks.into_iter().zip(rooms).map(|(ask, room)| QueueAsk { room, ..ask }));
        }
        promised.retain(|ask| ask.room > 0);
        promised
    }
}

#[async_trait]
impl Source for JobSource {
    type Work = Work;

    async fn lease(&self, tenure: &Tenure, ask: Ask) -> Grant<Work> {
        let mut grant = Grant { work: Vec::new(), next_ready: None, held_back: false, failed: None };
        if let Err(error) = self.lease_all(tenure, &ask, &mut grant).await {
            grant.failed = Some(error);
        }
        grant
    }

    fn begin(&self, work: Vec<(Slot, Work)>, tenure: &Arc<Tenure>) {
        self.runner.begin(work, tenure);
    }
}

impl JobSource {
    async fn lease_all(&self, tenure: &Tenure, ask: &Ask, grant: &mut Grant<Work>) -> Result<(), StoreError> {
        let targets = if self.pushes { self.targets().await? } else { Queues::new() };
        let mut sharing = self.sharing(&targets);
        if self.pushes {
            self.lease_shared(tenure, ask, &targets, None, &mut sharing, grant).await?;
        }
        if let Some(handlers) = &self.handlers {
            self.tell(tenure.id, handlers).await?;
            self.lease_shared(tenure, ask, &self.handled, Some(handlers), &mut sharing, grant).await?;
        }
        Ok(())
    }

    /// The environments whose queues this node looks at, and what they have of its places now.
    fn sharing(&self, targets: &Queues) -> Sharing {
        let queues = || targets.iter().chain(&self.handled).map(|((environment, _), lane)| (*environment, *lane));
        let mut most = BTreeMap::new();
        for (environment, lane) in queues() {
            *most.entry(environment).or_default() += self.runner.slots.of(lane);
        }
        self.runner.share_between(most.iter().map(|(environment, most)| (*environment, *most)));
        let (places, running) = self.runner.room.in_use(queues());
        let tenant = |(environment, running)| {
            let most = most.get(&environment).copied().unwrap_or_default();
            (environment, Tenant { running, most })
        };
        Sharing { slots: self.runner.slots.node, places, tenants: running.into_iter().map(tenant).collect() }
    }

    /// Leases from the pool, or what is promised if it is empty.
    async fn lease_shared(
        &self,
        tenure: &Tenure,
        ask: &Ask,
        queues: &Queues,
        handlers: Option<&Handlers>,
        sharing: &mut Sharing,
        grant: &mut Grant<Work>,
    ) -> Result<(), StoreError> {
        let room = |lane: &LaneId| ask.rooms.iter().find(|(it, _)| it == lane).map_or(ask.per_lane, |(_, room)| *room);
        let asks = queues.iter().map(|((environment, name), lane)| QueueAsk {
            environment: *environment,
            name: name.clone(),
            room: room(lane),
        });
        let asks: Vec<QueueAsk> = asks.filter(|queue| queue.room > 0).collect();
        let left = ask.limit.saturating_sub(grant.work.len());
        let pool = sharing.shares().pool.min(left);
        if left == 0 || asks.is_empty() {
            return Ok(());
        }
        let (limit, queues_asked) = match pool {
            0 => (left, sharing.promised_of(asks, self.turn.fetch_add(1, Ordering::Relaxed))),
            pool => (pool, asks),
        };
        let kinds = handlers.map(|handlers| handlers.kinds.keys().cloned().collect()).unwrap_or_default();
        let job_ask = JobAsk { session: tenure.id, limit, queues: queues_asked, kinds, watched: false };
        let taken = self.take(job_ask, queues, handlers, sharing, grant).await?;
        grant.held_back |= pool < left && taken >= pool;
        Ok(())
    }

    /// Leases jobs; answers how many.
    async fn take(
        &self,
        ask: JobAsk,
        queues: &Queues,
        handlers: Option<&Handlers>,
        sharing: &mut Sharing,
        grant: &mut Grant<Work>,
    ) -> Result<usize, StoreError> {
        if ask.limit == 0 || ask.queues.is_empty() {
            return Ok(0);
        }
        let jobs = self.store.lease(LeaseAsk::Jobs(ask)).await?;
        grant.next_ready = [grant.next_ready, jobs.next_ready].into_iter().flatten().min();
        let taken = jobs.jobs.len();
        for leased in &jobs.jobs {
            sharing.tenants.entry(leased.task.key.environment).or_default().running += 1;
        }
        grant.work.extend(jobs.jobs.into_iter().map(|leased| self.work(leased, queues, handlers)));
        Ok(taken)
    }

    fn work(&self, leased: LeasedJob, queues: &Queues, handlers: Option<&Handlers>) -> (LaneId, Work) {
        let LeasedJob { task, job, target } = leased;
        let queue = job.as_ref().map(|job| (task.key.environment, job.queue.clone()));
        // A job without a record has no queue that anyone could know; its own lane will do for the moment it takes to end it.
        let lane = queue.and_then(|queue| queues.get(&queue).copied()).unwrap_or(task.lane);
        let how = match (handlers, &job, target) {
            (Some(handlers), Some(job), _) => {
                handlers.kinds.get(&job.kind).map_or(How::Nobody, |handler| How::Handler(Arc::clone(handler)))
            }
            (None, _, Some(target)) => How::Push(target),
            _ => How::Nobody,
        };
        (lane, Work { lane, task, job, how })
    }

    /// The queues with a target; looked up now and then, and when one was changed here.
    async fn targets(&self) -> Result<Queues, StoreError> {
        let now = self.clock.elapsed();
        let is_fresh = |looked_at: Duration| now.saturating_sub(looked_at) < TARGETS_INTERVAL;
        if !self.changed.swap(false, Ordering::AcqRel) {
            let targets = self.targets.lock().expect("nothing panics while it holds this lock");
            if targets.looked_at.is_some_and(is_fresh) {
                return Ok(targets.queues.clone());
            }
        }
        let queues: Queues = match self.store.read(query::PushQueues {}).await {
            Ok(found) => found.into_iter().map(|(at, name)| ((at, name.clone()), LaneId(gate(at, &name)))).collect(),
            Err(error) => {
                self.changed.store(true, Ordering::Release);
                return Err(error);
            }
        };
        let mut targets = self.targets.lock().expect("nothing panics while it holds this lock");
        *targets = Targets { queues: queues.clone(), looked_at: Some(now) };
        Ok(queues)
    }

    /// Tells the store what a new session takes, for those who ask why a job waits.
    async fn tell(&self, session: SessionId, handlers: &Handlers) -> Result<(), StoreError> {
        if *self.told.lock().expect("nothing panics while it holds this lock") == Some(session) {
            return Ok(());
        }
        let takes = Takes {
            environment: handlers.environment,
            queues: handlers.queues.keys().cloned().collect(),
            kinds: handlers.kinds.keys().cloned().collect(),
        };
        if let Err(error) = self.store.set_takes(session, takes).await {
            warn!(error = &error as &dyn std::error::Error, "could not tell what this worker takes");
            return Ok(());
        }
        *self.told.lock().expect("nothing panics while it holds this lock") = Some(session);
        Ok(())
    }
}
