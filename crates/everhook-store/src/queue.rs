//! Queues: the lane group of their configuration, and their statistics.

use std::time::Duration;

use everhook_core::application::Application;
use everhook_core::id::EnvironmentId;
use everhook_core::lane::Limits;
use everhook_core::name::Name;
use everhook_core::queue::{Queue, QueueState, Rate};
use everhook_core::time::Timestamp;

/// The number of due jobs whose kinds are read.
pub const QUEUE_KINDS_LOOKED_AT: usize = 100;

/// The number of jobs in a queue. Counts stop at `QUEUE_COUNTED_MAX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Waiting jobs, due or not.
    pub pending: u64,
    /// Waiting jobs that are due.
    pub due: u64,
    /// Leased jobs.
    pub running: u64,
    pub dead: u64,
    /// The waiting time of the job that has been due longest.
    pub oldest_due: Option<Duration>,
    /// Attempts that ended within the last whole minute.
    pub ended_last_minute: u64,
    /// The kinds of the jobs that have been due longest.
    pub due_kinds: Vec<Name>,
}

/// The part of a queue's configuration that a lease reads. A queue without configuration has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneGroup {
    /// Raised by every change. The version of an application's group also counts changes of its endpoints.
    pub version: i64,
    pub state: QueueState,
    /// Limit of leased jobs.
    pub limit: Option<u32>,
    /// Limit of leased jobs with the same concurrency key.
    pub lane_limit: Option<u32>,
    pub rate: Option<Rate>,
    /// The time until which the rate limit is used up.
    pub booked_until: Timestamp,
    /// Whether the queue has a target.
    pub pushes: bool,
}

impl LaneGroup {
    /// The group of a queue without configuration.
    pub const OPEN: LaneGroup = LaneGroup {
        version: 0,
        state: QueueState::Open,
        limit: None,
        lane_limit: None,
        rate: None,
        booked_until: Timestamp::from_micros(0),
        pushes: false,
    };

    /// The group of a queue with this configuration.
    pub fn of(queue: &Queue) -> LaneGroup {
        let Queue { state, limit, key_limit: lane_limit, rate, .. } = *queue;
        LaneGroup { state, limit, lane_limit, rate, pushes: queue.target.is_some(), ..LaneGroup::OPEN }
    }

    /// The group of an application.
    pub fn of_application(application: &Application) -> LaneGroup {
        let state = if application.is_paused() { QueueState::Paused } else { QueueState::Open };
        LaneGroup { state, ..LaneGroup::OPEN }
    }

    /// The limits of its lanes.
    pub const fn limits(&self) -> Limits {
        Limits { tasks: self.limit, tasks_per_lane: self.lane_limit, rate: self.rate }
    }

    /// Whether a lease must lock the group and count its leased jobs.
    pub const fn is_limited(&self) -> bool {
        self.limits().is_any()
    }
}

/// The number of attempts that ended on a queue since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCount {
    pub environment: EnvironmentId,
    pub name: Name,
    pub ended: u64,
}
