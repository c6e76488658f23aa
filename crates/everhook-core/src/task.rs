//! Tasks: one life of a delivery or job, and the unit of leasing.
//!
//! A task row exists only while work is open. Attempts hold the history; messages and jobs hold the content.

use crate::id::{BatchId, EnvironmentId, Id, LaneId, TaskId};
use crate::policy::order::OrderKey;
use crate::time::Timestamp;

/// Primary key of a task row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    pub environment: EnvironmentId,
    /// The message of a delivery, or the record of a job.
    pub subject: Id,
    pub id: TaskId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// One message for one endpoint.
    Delivery,
    /// One unit of work of a queue.
    Job,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Created with its message or job; retried by the policy.
    Scheduled,
    /// Requested by a user as one more attempt; never retried.
    Manual,
}

/// State of an open task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Waiting until it is due and its lane is open.
    Pending,
    Leased,
    /// Out of attempts or given up. Waits for a redrive.
    Dead,
}

/// A task row, as its holder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub key: TaskKey,
    pub lane: LaneId,
    pub kind: TaskKind,
    pub trigger: Trigger,
    /// Lower numbers go first within a lane.
    pub priority: i16,
    /// No lease before this time; never while the task waits for an earlier one with the same key.
    pub due_at: Timestamp,
    /// Attempts that count against the retry policy.
    pub tries: u32,
    /// Holders that crashed while running it.
    pub crashes: u32,
    /// Fencing number, raised whenever the holder changes.
    pub epoch: u32,
    /// The next settle or reclaim ends the task as cancelled.
    pub cancel: bool,
    /// The batch whose counts change when the task ends.
    pub batch: Option<BatchId>,
    /// The key that orders a delivery.
    pub order_key: Option<OrderKey>,
}

impl Task {
    /// Returns a scheduled task before its first lease.
    pub const fn new(key: TaskKey, lane: LaneId, kind: TaskKind, due_at: Timestamp) -> Task {
        Task {
            key,
            lane,
            kind,
            trigger: Trigger::Scheduled,
            priority: PRIORITY_DEFAULT,
            due_at,
            tries: 0,
            crashes: 0,
            epoch: 0,
            cancel: false,
            batch: None,
            order_key: None,
        }
    }

    /// Whether the task waits for an earlier one with the same key.
    pub fn is_behind(&self) -> bool {
        self.order_key.is_some() && self.due_at == Timestamp::NEVER
    }
}

/// Priority of deliveries, and of jobs that name none.
pub const PRIORITY_DEFAULT: i16 = 5;

macro_rules! stored_as {
    ($name:ident { $($variant:ident = $number:literal),* $(,)? }) => {
        impl $name {
            pub const fn to_db(self) -> i16 {
                match self { $($name::$variant => $number),* }
            }

            pub const fn from_db(number: i16) -> Option<$name> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }
        }
    };
}
pub(crate) use stored_as;

stored_as!(TaskKind { Delivery = 0, Job = 1 });
stored_as!(Trigger { Scheduled = 0, Manual = 1 });
stored_as!(TaskState { Pending = 0, Leased = 1, Dead = 2 });
