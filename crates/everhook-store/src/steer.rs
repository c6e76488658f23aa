//! Changes that an operator asks for: dead deliveries put back, jobs cancelled, retried, moved or deleted.

use everhook_core::id::JobId;
use everhook_core::job::{JobAction, OperatorCommand};

use crate::history::Redrive;

/// A change of tasks.
#[derive(Clone, Debug)]
pub enum Steer {
    /// Puts dead deliveries back to pending, due now, with fresh tries.
    Redrive(Redrive),
    /// Applies `JobState::on` to each job. A job that is named again is found as the first time left it.
    Jobs {
        /// The jobs.
        ids: Vec<JobId>,
        /// The same for all of them.
        command: OperatorCommand,
    },
}

/// The result of a change of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// Deliveries that are pending again.
    pub redriven: usize,
    /// One for each job that was named, in order; none where the job does not exist.
    pub plans: Vec<Option<JobAction>>,
}
