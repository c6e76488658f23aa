//! A task: what is leased. One life of one delivery or job.
//!
//! The row that a store keeps while work is open, and no more: history is in attempts, content in messages.

use crate::id::{BatchId, EnvironmentId, Id, LaneId, TaskId};
use crate::time::Timestamp;

/// Where a task is found: the primary key of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    /// The tenant.
    pub environment: EnvironmentId,
    /// What the task is about: the message of a delivery, the record of a job.
    pub subject: Id,
    /// This life of it.
    pub id: TaskId,
}

/// What kind of work a task is. Nothing in the lease engine looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// One message for one endpoint.
    Delivery,
    /// One unit of work of a queue.
    Job,
}

/// Why a task exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The message was accepted; retried by the policy.
    Scheduled,
    /// Someone asked for one more attempt; never retried.
    Manual,
}

/// Where an open task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Waits until it is due and its lane lets it go.
    Pending,
    /// Held by a session.
    Leased,
    /// Out of attempts or given up; waits for a redrive.
    Dead,
}

/// The row of an open task, as its holder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Where it is found.
    pub key: TaskKey,
    /// Its fairness key.
    pub lane: LaneId,
    /// What kind of work it is.
    pub kind: TaskKind,
    /// Why it exists.
    pub trigger: Trigger,
    /// Lower goes first within a lane.
    pub priority: i16,
    /// When it may be leased.
    pub due_at: Timestamp,
    /// Attempts the retry policy has counted.
    pub tries: u32,
    /// Holders that died with it.
    pub crashes: u32,
    /// The fencing number: one more whenever the holder changes.
    pub epoch: u32,
    /// It is to end as cancelled at the next opportunity.
    pub cancel: bool,
    /// The set of jobs it belongs to, which is told how it ended.
    pub batch: Option<BatchId>,
}

/// The priority of everything that names none.
pub const PRIORITY_DEFAULT: i16 = 5;

macro_rules! stored_as {
    ($name:ident { $($variant:ident = $number:literal),* $(,)? }) => {
        impl $name {
            /// The number the stores keep.
            pub const fn to_db(self) -> i16 {
                match self { $($name::$variant => $number),* }
            }

            /// Reads the number the stores keep.
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
