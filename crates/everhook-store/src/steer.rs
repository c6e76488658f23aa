//! Operator changes: deliveries cancelled, retried, dismissed, redriven or corrected; jobs cancelled, retried, moved or
//! deleted.

use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryKey};
use everhook_core::id::{EndpointId, JobId, MessageId};
use everhook_core::job::{JobAction, OperatorCommand};
use everhook_core::message::Message;

use crate::history::Redrive;

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, for an operator's call")]
pub enum Steer {
    /// Puts dead deliveries back to pending, due now, with fresh tries.
    Redrive(Redrive),
    /// Applies `DeliveryCommand::on` to each open task of a message, at one endpoint or at all of them.
    Deliveries {
        message: MessageId,
        /// None for all endpoints.
        endpoint: Option<EndpointId>,
        command: DeliveryCommand,
    },
    /// Ends a dead delivery, and accepts `message` for its endpoint alone, whatever the endpoint filters. The store
    /// sets the time of the message. The caller has checked that the endpoint exists. Repeatable: after the first call
    /// the delivery is no longer dead.
    Correct { dead: DeliveryKey, message: Message },
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
    /// One entry for each open task of the named deliveries, in no particular order.
    pub deliveries: Vec<DeliveryAction>,
    /// The accepted message of a correction; none if no task of the delivery is dead.
    pub corrected: Option<Message>,
    /// One entry for each named job, in order; none if the job does not exist.
    pub plans: Vec<Option<JobAction>>,
}
