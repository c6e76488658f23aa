//! Leases jobs: from queues with a target, which are pushed, and from queues with handlers in this process.
//!
//! Environments share the node's slots according to `core::share`. While the shared pool has slots, one lease covers
//! all queues and prefers the lanes that have waited longest. When the pool is empty, a lease takes only as many jobs
//! per environment as are promised to it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::{LeaseCommand, StartOrder, Ticket};
use everhook_core::id::{EnvironmentId, LaneId, SessionId};
use everhook_core::name::Name;
use everhook_core::queue::queue_id;
use everhook_core::share::{Tenants, split};
use everhook_store::error::StoreError;
use everhook_store::lease::{FeedAsk, LeaseAsk, Leased};
use everhook_store::query;
use everhook_store::store::Reads;
use everhook_store::worker::Takes;
use tracing::warn;

use crate::dispatcher::{Source, WorkGrant};
use crate::node::Node;
use crate::run::handler::Handlers;
use crate::run::job::{How, Runner, Work};
use crate::session::Session;

/// The interval at which the list of queues with a target is read.
const TARGETS_INTERVAL: Duration = Duration::from_secs(2);

/// The queues, each with the lane that its slots are counted under.
type Queues = BTreeMap<(EnvironmentId, Name), LaneId>;

pub(crate) struct JobSource {
    node: Arc<Node>,
    runner: Runner,
    handlers: Option<Arc<Handlers>>,
    handled: Queues,
    /// The last session whose queues and kinds were written to the store.
    told: Mutex<Option<SessionId>>,
    /// Rotates over the queues of an environment, so that each is first in turn to get the promised slots.
    turn: AtomicUsize,
}

/// A cached list of the queues with a target.
#[derive(Default)]
pub(crate) struct PushQueues {
    seen: Mutex<Seen>,
    /// True if a queue was changed on this node since the last read.
    changed: AtomicBool,
}

#[derive(Default)]
struct Seen {
    queues: Queues,
    looked_at: Option<Duration>,
}

impl PushQueues {
    /// Makes the next lease read the list again.
    pub(crate) fn refresh(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Returns the queues with a target. Reads them at an interval, and after a change on this node.
    async fn find(&self, node: &Node) -> Result<Queues, StoreError> {
        let now = node.clock.elapsed();
        let is_fresh = |looked_at: Duration| now.saturating_sub(looked_at) < TARGETS_INTERVAL;
        if !self.changed.swap(false, Ordering::AcqRel) {
            let seen = self.lock();
            if seen.looked_at.is_some_and(is_fresh) {
                return Ok(seen.queues.clone());
            }
        }
        let found = node.store.read(query::PushQueues {}).await.inspect_err(|_| self.refresh())?;
        let lane = |at, name: &Name| LaneId(queue_id(at, name));
        let queues: Queues = found.into_iter().map(|(at, name)| ((at, name.clone()), lane(at, &name))).collect();
        *self.lock() = Seen { queues: queues.clone(), looked_at: Some(now) };
        Ok(queues)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("nothing panics while it holds this lock")
    }
}

/// The lanes of the queues that have handlers.
fn handled(handlers: &Handlers) -> Queues {
    let environment = handlers.environment;
    handlers.queues.keys().map(|name| ((environment, name.clone()), LaneId(queue_id(environment, name)))).collect()
}

/// Returns the queues that may use the slots promised to their environment, with the number for each. If there are
/// fewer slots than queues, the rotation lets other queues go first the next time.
fn promised_of(tenants: &Tenants, asks: Vec<(EnvironmentId, FeedAsk)>, turn: usize) -> Vec<FeedAsk> {
    let mut by_environment: BTreeMap<EnvironmentId, Vec<FeedAsk>> = BTreeMap::new();
    for (environment, ask) in asks {
        by_environment.entry(environment).or_default().push(ask);
    }
    let mut promised = Vec::new();
    for (environment, mut asks) in by_environment {
        let first = turn % asks.len();
        asks.rotate_left(first);
        let mut free_by_lane: Vec<usize> = asks.iter().map(|ask| ask.capacity).collect();
        split(tenants.promised(environment), &mut free_by_lane);
        promised.extend(asks.into_iter().zip(free_by_lane).map(|(ask, capacity)| FeedAsk { capacity, ..ask }));
    }
    promised.retain(|ask| ask.capacity > 0);
    promised
}

#[async_trait]
impl Source for JobSource {
    type Runner = Runner;

    fn runner(&self) -> &Runner {
        &self.runner
    }

    async fn lease(&self, session: &Arc<Session>, ask: LeaseCommand) -> WorkGrant<Work> {
        let mut grant = WorkGrant::default();
        if let Err(error) = self.lease_all(session, &ask, &mut grant).await {
            grant.failed = Some(error);
        }
        grant
    }
}

impl JobSource {
    pub(crate) fn new(node: &Arc<Node>) -> JobSource {
        let handlers = node.config.jobs.as_ref().and_then(|jobs| jobs.handlers.clone());
        JobSource {
            node: Arc::clone(node),
            runner: Runner::new(node),
            handled: handlers.as_deref().map(handled).unwrap_or_default(),
            handlers,
            told: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    async fn lease_all(
        &self,
        session: &Arc<Session>,
        ask: &LeaseCommand,
        grant: &mut WorkGrant<Work>,
    ) -> Result<(), StoreError> {
        let may_push = self.node.is_server && !self.node.egress.is_closed();
        let targets = if may_push { self.node.push_queues.find(&self.node).await? } else { Queues::new() };
        let lanes = targets.iter().chain(&self.handled).map(|((environment, _), lane)| (*environment, *lane));
        let mut tenants = self.node.jobs.share_between(lanes);
        if self.node.is_server {
            self.lease_shared(session, ask, &targets, None, &mut tenants, grant).await?;
        }
        if let Some(handlers) = &self.handlers {
            self.tell(session.id, handlers).await?;
            self.lease_shared(session, ask, &self.handled, Some(handlers), &mut tenants, grant).await?;
        }
        Ok(())
    }

    /// Leases within the shared pool, or within the promised slots if the pool is empty.
    async fn lease_shared(
        &self,
        session: &Arc<Session>,
        ask: &LeaseCommand,
        queues: &Queues,
        handlers: Option<&Handlers>,
        tenants: &mut Tenants,
        grant: &mut WorkGrant<Work>,
    ) -> Result<(), StoreError> {
        let capacity = |lane: &LaneId| {
            ask.free_by_lane.iter().find(|(it, _)| it == lane).map_or(ask.per_lane, |(_, capacity)| *capacity)
        };
        let asks = queues.iter().map(|((environment, name), lane)| {
            (*environment, FeedAsk::queue(*environment, name.clone(), capacity(lane)))
        });
        let asks: Vec<_> = asks.filter(|(_, queue)| queue.capacity > 0).collect();
        let left = ask.limit.saturating_sub(grant.tickets.len());
        let pool = tenants.pool().min(left);
        if left == 0 || asks.is_empty() {
            return Ok(());
        }
        let (limit, feeds) = match pool {
            0 => (left, promised_of(tenants, asks, self.turn.fetch_add(1, Ordering::Relaxed))),
            pool => (pool, asks.into_iter().map(|(_, queue)| queue).collect()),
        };
        let kinds = handlers.map(|handlers| handlers.kinds.keys().cloned().collect()).unwrap_or_default();
        let jobs = self.take(LeaseAsk { kinds, ..LeaseAsk::new(session.id, limit, feeds) }, grant).await?;
        grant.held_back |= pool < left && jobs.len() >= pool;
        for leased in jobs {
            tenants.take(leased.task.key.environment);
            grant.tickets.push(ticket(leased, queues, handlers, session));
        }
        Ok(())
    }

    async fn take(&self, ask: LeaseAsk, grant: &mut WorkGrant<Work>) -> Result<Vec<Leased>, StoreError> {
        if ask.limit == 0 || ask.feeds.is_empty() {
            return Ok(Vec::new());
        }
        let leased = self.node.store.lease(ask).await?;
        grant.next_ready = [grant.next_ready, leased.next_ready].into_iter().flatten().min();
        Ok(leased.tasks)
    }

    /// Writes the queues and kinds of a new session to the store. The API uses them to explain why a job waits.
    async fn tell(&self, session: SessionId, handlers: &Handlers) -> Result<(), StoreError> {
        if *self.told.lock().expect("nothing panics while it holds this lock") == Some(session) {
            return Ok(());
        }
        let takes = Takes {
            environment: handlers.environment,
            queues: handlers.queues.keys().cloned().collect(),
            kinds: handlers.kinds.keys().cloned().collect(),
        };
        if let Err(error) = self.node.store.set_takes(session, takes).await {
            warn!(error = &error as &dyn std::error::Error, "could not store the queues and kinds of this worker");
            return Ok(());
        }
        *self.told.lock().expect("nothing panics while it holds this lock") = Some(session);
        Ok(())
    }
}

fn ticket(leased: Leased, queues: &Queues, handlers: Option<&Handlers>, session: &Arc<Session>) -> Ticket<Work> {
    let (task, job, target) = (leased.task, leased.job().cloned(), leased.target().cloned());
    let environment = task.key.environment;
    let queue = job.as_ref().map(|job| (environment, job.queue.clone()));
    // The queue of a deleted job is unknown. Its own lane serves for the short time until the task is ended.
    let lane = queue.and_then(|queue| queues.get(&queue).copied()).unwrap_or(task.lane);
    let how = match (handlers, &job, target) {
        (Some(handlers), Some(job), _) => {
            handlers.kinds.get(&job.kind).map_or(How::Nobody, |handler| How::Handler(Arc::clone(handler)))
        }
        (None, _, Some(target)) => How::Push(target),
        _ => How::Nobody,
    };
    Ticket { environment, lane, order: StartOrder::Free, task: Work { task, job, how, session: Arc::clone(session) } }
}
