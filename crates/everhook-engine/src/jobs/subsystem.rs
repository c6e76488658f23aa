//! The part of an engine that is about jobs: what it is made of, and which loops it has.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::dispatch::{Dispatch, DispatchConfig};
use everhook_core::id::LaneId;
use everhook_core::limits::PUSH_TIMEOUT_DEFAULT;
use everhook_core::queue::queue_id;
use everhook_store::ids::Ids;
use everhook_store::store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::dispatcher::{Dispatcher, NodeCapacity};
use crate::group::GroupQueue;
use crate::jobs::counts::EndedCounts;
use crate::jobs::enqueue::Enqueuer;
use crate::jobs::handler::Handlers;
use crate::jobs::maintenance::{self, Pruner};
use crate::jobs::push::Pusher;
use crate::jobs::remote::Remote;
use crate::jobs::runner::{Runner, Work};
use crate::jobs::schedules;
use crate::jobs::source::{self, JobSource};
use crate::metrics::Metrics;
use crate::node::abort_on_panic;
use crate::outbound::Outbound;
use crate::session::Sessions;
use crate::settle::Settler;
use crate::wakeup::Wakeups;

/// The settings of jobs.
#[derive(Clone, Debug)]
pub struct JobsConfig {
    /// Whether there are jobs at all.
    pub enabled: bool,
    /// Whether this node starts what schedules say.
    pub schedules: bool,
    /// Jobs that run at once on this node.
    pub slots: usize,
    /// Jobs of one queue that run at once on this node, where nothing else is said.
    pub slots_per_queue: usize,
    /// Jobs that may be leased ahead of what runs, where jobs are short.
    pub ahead: usize,
    /// How long the target of a queue may take to answer a pushed job.
    pub push_timeout: Duration,
    /// What runs in this process. None: what the server does for itself.
    pub handlers: Option<Arc<Handlers>>,
}

impl Default for JobsConfig {
    fn default() -> JobsConfig {
        let slots = 64;
        JobsConfig {
            enabled: true,
            schedules: true,
            slots,
            slots_per_queue: JobsConfig::slots_per_queue(slots),
            ahead: 1000,
            push_timeout: PUSH_TIMEOUT_DEFAULT,
            handlers: None,
        }
    }
}

impl JobsConfig {
    /// What one queue has of a node's slots, where nothing else is said: a queue whose target hangs leaves most of them to others.
    pub fn slots_per_queue(slots: usize) -> usize {
        (slots / 4).max(1)
    }

    fn own_slots(&self) -> impl Iterator<Item = (LaneId, usize)> {
        self.handlers.iter().flat_map(|handlers| {
            let lane = |name| LaneId(queue_id(handlers.environment, name));
            handlers.queues.iter().map(move |(name, slots)| (lane(name), *slots))
        })
    }

    /// A machine for jobs.
    pub(crate) fn dispatch(&self, poll_interval: Duration) -> Dispatch<Work> {
        let (slots, slots_per_lane) = (self.slots, self.slots_per_queue);
        let dispatch = Dispatch::new(DispatchConfig { slots, slots_per_lane, poll_interval });
        let dispatch = dispatch.leasing_ahead(self.ahead).with_shares();
        self.own_slots().fold(dispatch, |dispatch, (lane, slots)| dispatch.with_slots(lane, slots))
    }
}

/// What the jobs of an engine stand on.
pub(crate) struct JobSubsystemParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) counts: Arc<EndedCounts>,
    pub(crate) capacity: Arc<NodeCapacity<Work>>,
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) running: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) config: JobsConfig,
    pub(crate) pruner: Arc<Pruner>,
    pub(crate) lease_time: Duration,
    pub(crate) duties: NodeDuties,
}

/// What this node does about jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeDuties {
    /// It runs jobs.
    pub(crate) runs_jobs: bool,
    /// Requests leave it, and it looks after the store: a server, and no worker in somebody's process.
    pub(crate) is_server: bool,
}

/// The jobs of an engine.
pub(crate) struct JobSubsystem {
    pub(crate) enqueuer: Arc<Enqueuer>,
    pub(crate) remote: Remote,
    runner: Arc<Runner>,
    dispatcher: Arc<Dispatcher<JobSource>>,
    changed: Arc<AtomicBool>,
    parts: JobSubsystemParts,
}

impl JobSubsystem {
    pub(crate) fn new(parts: JobSubsystemParts) -> JobSubsystem {
        let (clock, store, config) = (&parts.clock, &parts.store, &parts.config);
        let runner = Arc::new(Runner {
            store: store.clone(),
            sessions: parts.sessions.clone(),
            settler: parts.settler.clone(),
            clock: clock.clone(),
            pusher: Pusher {
                outbound: parts.outbound.clone(),
                clock: clock.clone(),
                capacity: parts.capacity.clone(),
                timeout: config.push_timeout,
            },
            capacity: parts.capacity.clone(),
            interrupt: parts.outbound.interrupt.clone(),
            running: parts.running.clone(),
            handled: Mutex::default(),
        });
        let changed = Arc::new(AtomicBool::new(true));
        let source = JobSource {
            store: store.clone(),
            clock: clock.clone(),
            runner: runner.clone(),
            pushes: parts.duties.is_server,
            handled: config.handlers.as_deref().map(source::handled).unwrap_or_default(),
            handlers: config.handlers.clone(),
            targets: Mutex::default(),
            changed: changed.clone(),
            told: Mutex::default(),
            turn: AtomicUsize::new(0),
        };
        let dispatcher = Arc::new(Dispatcher {
            source: Arc::new(source),
            sessions: parts.sessions.clone(),
            clock: clock.clone(),
            metrics: parts.metrics.clone(),
        });
        let enqueuer = Arc::new(Enqueuer {
            store: store.clone(),
            wakeups: parts.wakeups.clone(),
            metrics: parts.metrics.clone(),
            queue: GroupQueue::default(),
        });
        let remote = Remote {
            store: store.clone(),
            settler: parts.settler.clone(),
            wakeups: parts.wakeups.clone(),
            clock: clock.clone(),
            ids: parts.ids.clone(),
            asking: Mutex::default(),
            stop: parts.stop.clone(),
        };
        JobSubsystem { enqueuer, remote, runner, dispatcher, changed, parts }
    }

    /// Starts the loops. Those of `intake` bring new work; a stop waits for them first.
    pub(crate) fn spawn(&self, intake: &TaskTracker, loops: &TaskTracker, halt: &CancellationToken) {
        let (stop, parts) = (&self.parts.stop, &self.parts);
        let until_stop = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
            let stop = stop.clone();
            loops.spawn(abort_on_panic(async move {
                stop.run_until_cancelled(work).await;
            }));
        };
        let config = &parts.config;
        if parts.duties.is_server && !(config.enabled && config.schedules) {
            let pruner = Arc::clone(&parts.pruner);
            until_stop(Box::pin(async move { pruner.run_by_timer().await }));
        }
        if !config.enabled {
            return;
        }
        let (enqueuer, stop, over) = (Arc::clone(&self.enqueuer), stop.clone(), halt.clone());
        intake.spawn(abort_on_panic(async move {
            over.run_until_cancelled(enqueuer.run(&stop)).await;
        }));
        let (counts, store, halt) = (Arc::clone(&parts.counts), Arc::clone(&parts.store), halt.clone());
        let over = halt.clone();
        loops.spawn(abort_on_panic(async move { counts.run(&*store, over).await }));
        if config.schedules {
            let (store, wakeups) = (Arc::clone(&parts.store), Arc::clone(&parts.wakeups));
            until_stop(Box::pin(schedules::run(store, wakeups, Arc::clone(&parts.metrics))));
        }
        if config.schedules && parts.duties.is_server {
            let (store, ids, clock) = (Arc::clone(&parts.store), Arc::clone(&parts.ids), Arc::clone(&parts.clock));
            until_stop(Box::pin(maintenance::create_schedules(store, ids, clock)));
        }
        if parts.duties.runs_jobs {
            let (dispatcher, stop, over) = (Arc::clone(&self.dispatcher), parts.stop.clone(), halt.clone());
            intake.spawn(abort_on_panic(async move {
                over.run_until_cancelled(dispatcher.run(stop)).await;
            }));
            // Also while the node stops: what runs then can still be cancelled.
            let (runner, interval) = (Arc::clone(&self.runner), parts.lease_time / 4);
            loops.spawn(abort_on_panic(async move {
                halt.run_until_cancelled(runner.watch(interval)).await;
            }));
        }
    }

    /// Whether there are jobs here.
    pub(crate) fn is_enabled(&self) -> bool {
        self.parts.config.enabled
    }

    /// Takes nothing any more, and gives back what was not begun.
    pub(crate) fn drain(&self) {
        self.dispatcher.drain();
    }

    /// Has the queues with a target looked up before the next lease.
    pub(crate) fn refresh_targets(&self) {
        self.changed.store(true, Ordering::Release);
    }
}
