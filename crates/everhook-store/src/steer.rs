//! Operator changes: dead deliveries redriven; jobs cancelled, retried, moved or deleted.

use everhook_core::id::JobId;
use everhook_core::job::{JobAction, OperatorCommand};

use crate::history::Redrive;

#[derive(Clone, Debug)]
pub enum Steer {
    /// Puts dead deliveries back to pending, due now, with fresh tries.
    Redrive(Redrive),
    /// Applies `JobState::on` to each job. For a job that is named twice, the second command sees the result of the
    /// first.
    Jobs {
        ids: Vec<JobId>,
        /// Applied to all of them.
        command: OperatorCommand,
    },
}

/// The result of a change of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// Deliveries that are pending again.
    pub redriven: usize,
    /// One entry for each named job, in order; none if the job does not exist.
    pub plans: Vec<Option<JobAction>>,
}
