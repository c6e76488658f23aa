//! The settings of a node.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::dispatch::{Dispatch, DispatchConfig};
use everhook_core::id::LaneId;
use everhook_core::limits::PUSH_TIMEOUT_DEFAULT;
use everhook_core::queue::queue_id;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;

use crate::retention::Ages;
use crate::run::handler::Handlers;
use crate::run::job::Work;
use crate::session::NodeName;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Slots and polling of deliveries; jobs are polled for as often.
    pub dispatch: DispatchConfig,
    /// How long a node may be silent before others take over.
    pub lease: Duration,
    /// When failed deliveries are tried again.
    pub retry: RetryPolicy,
    /// The node's name in the session table.
    pub name: NodeName,
    /// The node's part in the whole.
    pub role: Role,
    /// Whether nodes wake each other; without, work is found by polling.
    pub wakeups: bool,
    /// Jobs. None: this node neither runs jobs nor prunes.
    pub jobs: Option<JobsConfig>,
    /// How long things are kept.
    pub retention: Ages,
}

/// The settings of jobs.
#[derive(Clone, Debug)]
pub struct JobsConfig {
    /// Whether there are jobs at all.
    pub enabled: bool,
    /// Whether this node fires schedules.
    pub schedules: bool,
    /// Jobs that run at once on this node.
    pub slots: usize,
    /// Jobs of one queue that run at once on this node, where nothing else is said.
    pub slots_per_queue: usize,
    /// Jobs that may be leased ahead of those that run, where jobs are short.
    pub ahead: usize,
    /// How long the target of a queue may take to answer a pushed job.
    pub push_timeout: Duration,
    /// The jobs that run in this process. None: those of the server itself.
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
    /// The share of one queue in a node's slots, where nothing else is said: a queue whose target hangs leaves most of
    /// them to others.
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
