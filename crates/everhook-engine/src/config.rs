//! The configuration of a node.

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

#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Slots and poll interval of deliveries. Jobs use the same poll interval.
    pub dispatch: DispatchConfig,
    /// The time without a heartbeat after which other nodes take over.
    pub lease: Duration,
    /// The retry policy of deliveries.
    pub retry: RetryPolicy,
    pub name: NodeName,
    pub role: Role,
    /// Whether nodes wake each other. Without wake-ups, nodes find work by polling.
    pub wakeups: bool,
    /// The configuration of jobs. Without it, the node neither runs jobs nor prunes.
    pub jobs: Option<JobsConfig>,
    pub retention: Ages,
    /// The beginning of links in chat messages.
    pub public_url: Option<String>,
    /// The interval at which alert rules are evaluated. Without it, this node evaluates none.
    pub alert_interval: Option<Duration>,
    /// The interval at which changed quotas are read. Without it, this node knows none.
    pub quota_interval: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct JobsConfig {
    /// Whether jobs exist on this node at all.
    pub enabled: bool,
    /// Whether this node starts due schedules.
    pub schedules: bool,
    /// Jobs that run at the same time on this node.
    pub slots: usize,
    /// Jobs of one queue that run at the same time on this node, unless the handlers set another number.
    pub slots_per_queue: usize,
    /// Jobs that may be leased beyond the running ones, if jobs are short.
    pub ahead: usize,
    /// The time limit for the target of a queue to respond to a pushed job.
    pub push_timeout: Duration,
    /// The handlers of this process. Without any, a server runs its own jobs.
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
    /// The default slots of one queue. A queue whose target hangs leaves most slots to other queues.
    pub fn slots_per_queue(slots: usize) -> usize {
        (slots / 4).max(1)
    }

    fn own_slots(&self) -> impl Iterator<Item = (LaneId, usize)> {
        self.handlers.iter().flat_map(|handlers| {
            let lane = |name| LaneId(queue_id(handlers.environment, name));
            handlers.queues.iter().map(move |(name, slots)| (lane(name), *slots))
        })
    }

    /// Creates the dispatch machine for jobs.
    pub(crate) fn dispatch(&self, poll_interval: Duration) -> Dispatch<Work> {
        let (slots, slots_per_lane) = (self.slots, self.slots_per_queue);
        let dispatch = Dispatch::new(DispatchConfig { slots, slots_per_lane, poll_interval });
        let dispatch = dispatch.leasing_ahead(self.ahead).with_shares();
        self.own_slots().fold(dispatch, |dispatch, (lane, slots)| dispatch.with_slots(lane, slots))
    }
}
