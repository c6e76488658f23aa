//! The state of a delivery as users see it, the reason for that state, and the commands of operators.
//!
//! Pure. The state is computed from the open task, or from the last attempt once the task is gone.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::endpoint::{Endpoint, EndpointState};
use crate::id::{ApplicationId, BadId, EndpointId, MessageId};
use crate::lane::HoldKind;
use crate::lifecycle::EndState;
use crate::name::named_as;
use crate::outcome::Class;
use crate::policy::breaker::Breaker;
use crate::policy::rate::STRIDE;
use crate::task::{Task, TaskState};
use crate::time::Timestamp;

/// The key of a delivery. Lists are sorted by it, so that newer messages have larger keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryKey {
    pub message: MessageId,
    pub endpoint: EndpointId,
}

/// The state of one message at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Waiting for the first attempt or a retry.
    Pending,
    Sending,
    /// Waiting because the endpoint is disabled, or it, its application or the environment is paused.
    Held,
    Succeeded,
    /// Out of attempts. A redrive is possible.
    Dead,
    /// Ended by request, or because the endpoint was deleted.
    Cancelled,
}

/// The stored evidence of one life of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryTrace {
    Open(TaskState),
    /// The task row is gone; the last attempt recorded its end.
    Ended(EndState),
}

/// The endpoint, as far as it affects the state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointPresence {
    Enabled,
    /// Enabled, and paused by a user.
    Paused,
    /// Enabled, in an application that is paused.
    ApplicationPaused,
    /// Enabled, in an environment that is paused.
    EnvironmentPaused,
    Disabled,
    Deleted,
}

impl EndpointPresence {
    pub fn of(endpoint: &Endpoint, is_deleted: bool) -> EndpointPresence {
        match endpoint.state {
            _ if is_deleted => EndpointPresence::Deleted,
            EndpointState::Enabled if endpoint.is_paused() => EndpointPresence::Paused,
            EndpointState::Enabled => EndpointPresence::Enabled,
            EndpointState::Disabled | EndpointState::Gone => EndpointPresence::Disabled,
        }
    }

    /// Returns the presence of an endpoint of this application, under pauses that are not its own.
    pub fn under(self, application: ApplicationId, pauses: &OuterPauses) -> EndpointPresence {
        match self {
            EndpointPresence::Enabled if pauses.applications.contains(&application) => {
                EndpointPresence::ApplicationPaused
            }
            EndpointPresence::Enabled if pauses.environment => EndpointPresence::EnvironmentPaused,
            _ => self,
        }
    }
}

/// The pauses of an environment and its applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OuterPauses {
    pub environment: bool,
    pub applications: BTreeSet<ApplicationId>,
}

pub fn state(trace: DeliveryTrace, endpoint: EndpointPresence) -> DeliveryState {
    match trace {
        DeliveryTrace::Open(TaskState::Dead) => DeliveryState::Dead,
        DeliveryTrace::Open(TaskState::Leased) => DeliveryState::Sending,
        DeliveryTrace::Open(TaskState::Pending) => match endpoint {
            // The task row stays until it becomes due and is cancelled, but the delivery will never be sent.
            EndpointPresence::Deleted => DeliveryState::Cancelled,
            EndpointPresence::Disabled
            | EndpointPresence::Paused
            | EndpointPresence::ApplicationPaused
            | EndpointPresence::EnvironmentPaused => DeliveryState::Held,
            EndpointPresence::Enabled => DeliveryState::Pending,
        },
        DeliveryTrace::Ended(EndState::Succeeded) => DeliveryState::Succeeded,
        DeliveryTrace::Ended(EndState::Cancelled) => DeliveryState::Cancelled,
        DeliveryTrace::Ended(EndState::Dead) => DeliveryState::Dead,
        DeliveryTrace::Ended(EndState::Open) => DeliveryState::Sending,
    }
}

impl DeliveryState {
    /// Whether the delivery has a task: it waits, is being sent, or is dead and can be redriven.
    pub const fn is_open(self) -> bool {
        match self {
            DeliveryState::Pending | DeliveryState::Sending | DeliveryState::Held | DeliveryState::Dead => true,
            DeliveryState::Succeeded | DeliveryState::Cancelled => false,
        }
    }
}

/// The deliveries of a message, by state. A pending delivery that failed before counts as retrying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryTally {
    pub pending: u64,
    pub retrying: u64,
    pub sending: u64,
    pub held: u64,
    pub succeeded: u64,
    pub dead: u64,
    pub cancelled: u64,
}

impl DeliveryTally {
    /// Counts a delivery with this number of tries.
    pub fn add(&mut self, state: DeliveryState, tries: u32) {
        *match state {
            DeliveryState::Pending if tries > 0 => &mut self.retrying,
            DeliveryState::Pending => &mut self.pending,
            DeliveryState::Sending => &mut self.sending,
            DeliveryState::Held => &mut self.held,
            DeliveryState::Succeeded => &mut self.succeeded,
            DeliveryState::Dead => &mut self.dead,
            DeliveryState::Cancelled => &mut self.cancelled,
        } += 1;
    }
}

/// Why a delivery is in its state. Later versions may add reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Waits for the delivery time of its message.
    Scheduled {
        until: Timestamp,
    },
    /// Waits for the next retry.
    Retry {
        until: Timestamp,
    },
    /// Due, but the endpoint backs off after a timeout or an answer such as 429.
    BackOff {
        until: Timestamp,
    },
    /// Due, but the rate limit of the endpoint is used up.
    RateLimit {
        until: Timestamp,
    },
    /// Due, but as many deliveries of the endpoint run as may run at the same time.
    ConcurrencyLimit,
    /// Due, but the circuit breaker of the endpoint is open.
    BreakerOpen {
        until: Timestamp,
    },
    /// Due, and waits for the deliveries that test the endpoint after its circuit breaker was open.
    BreakerProbing,
    /// Due, and waits for the end of an earlier delivery of its ordered endpoint.
    Behind {
        message: Option<MessageId>,
    },
    /// Due, but an earlier delivery of its ordered endpoint is dead.
    Blocked {
        message: Option<MessageId>,
    },
    /// Due, and waits for its turn.
    Queued,
    EndpointDisabled,
    EndpointPaused,
    ApplicationPaused,
    EnvironmentPaused,
    /// A user cancelled it while a node held it. It ends when the node lets it go.
    CancelRequested,
    Sending {
        since: Timestamp,
    },
    Delivered,
    /// The last attempt failed and no further one was allowed.
    Exhausted,
    /// The receiver answered 410.
    Gone,
    /// Its holders crashed too often.
    Crashed,
    EndpointDeleted,
    /// Ended without a request; the last attempt holds the details.
    Cancelled,
}

/// The text of the attempt that ends a delivery whose endpoint was deleted.
pub const ENDPOINT_DELETED: &str = "the endpoint was deleted";

/// The facts from which [`reason`] decides.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryFacts {
    pub state: DeliveryState,
    pub endpoint: EndpointPresence,
    /// The due time of the open task.
    pub due_at: Option<Timestamp>,
    /// The start of the lease.
    pub leased_at: Option<Timestamp>,
    /// The lane starts no task before this time.
    pub hold_until: Option<Timestamp>,
    /// Why the lane starts no task before that time.
    pub hold_kind: HoldKind,
    pub breaker: Breaker,
    /// The message that comes first in an ordered lane that holds.
    pub head: Option<MessageId>,
    pub message: MessageId,
    /// The cancel flag of the open task.
    pub cancel: bool,
    /// The class of the last attempt.
    pub last: Option<Class>,
    /// Whether the last attempt ended the delivery because its endpoint was deleted.
    pub ended_by_deletion: bool,
}

pub fn reason(facts: &DeliveryFacts, now: Timestamp) -> Reason {
    match facts.state {
        DeliveryState::Pending | DeliveryState::Sending if facts.cancel => Reason::CancelRequested,
        DeliveryState::Pending => waiting(facts, now),
        DeliveryState::Held => match facts.endpoint {
            EndpointPresence::Paused => Reason::EndpointPaused,
            EndpointPresence::ApplicationPaused => Reason::ApplicationPaused,
            EndpointPresence::EnvironmentPaused => Reason::EnvironmentPaused,
            EndpointPresence::Enabled | EndpointPresence::Disabled | EndpointPresence::Deleted => {
                Reason::EndpointDisabled
            }
        },
        DeliveryState::Sending => {
            facts.leased_at.or(facts.due_at).map_or(Reason::Queued, |since| Reason::Sending { since })
        }
        DeliveryState::Succeeded => Reason::Delivered,
        DeliveryState::Dead => match facts.last {
            Some(Class::Gone) => Reason::Gone,
            Some(Class::Abandoned) => Reason::Crashed,
            _ => Reason::Exhausted,
        },
        // A pending task of a deleted endpoint has a due time; it is cancelled when it comes up.
        DeliveryState::Cancelled if facts.due_at.is_some() || facts.ended_by_deletion => Reason::EndpointDeleted,
        DeliveryState::Cancelled => Reason::Cancelled,
    }
}

fn waiting(facts: &DeliveryFacts, now: Timestamp) -> Reason {
    let due_at = facts.due_at.unwrap_or(now);
    // Only a delivery that waits for an earlier one with its key is never due.
    if due_at == Timestamp::NEVER {
        let message = facts.head;
        return if facts.hold_kind == HoldKind::Blocked {
            Reason::Blocked { message }
        } else {
            Reason::Behind { message }
        };
    }
    match facts.hold_until {
        Some(until) if until > due_at.max(now) => match facts.hold_kind {
            HoldKind::BackOff => Reason::BackOff { until },
            HoldKind::RateLimit => Reason::RateLimit { until },
            HoldKind::Concurrency if !facts.breaker.is_closed() => Reason::BreakerProbing,
            HoldKind::Concurrency => Reason::ConcurrencyLimit,
            HoldKind::Breaker => Reason::BreakerOpen { until },
            HoldKind::Retry if facts.head == Some(facts.message) => Reason::Retry { until },
            HoldKind::Order | HoldKind::Retry => Reason::Behind { message: facts.head },
            HoldKind::Blocked => Reason::Blocked { message: facts.head },
        },
        // A fast rate holds its lane again and again, for a stride each. A reader may come just in between.
        Some(until) if facts.hold_kind == HoldKind::RateLimit && until.plus(STRIDE) > due_at.max(now) => {
            Reason::RateLimit { until: due_at.max(now) }
        }
        _ if due_at <= now => Reason::Queued,
        _ if facts.last.is_some() => Reason::Retry { until: due_at },
        _ => Reason::Scheduled { until: due_at },
    }
}

impl Reason {
    /// The name in the API.
    pub const fn kind(self) -> &'static str {
        match self {
            Reason::Scheduled { .. } => "scheduled",
            Reason::Retry { .. } => "retry",
            Reason::BackOff { .. } => "backOff",
            Reason::RateLimit { .. } => "rateLimit",
            Reason::ConcurrencyLimit => "concurrencyLimit",
            Reason::BreakerOpen { .. } => "breakerOpen",
            Reason::BreakerProbing => "breakerProbing",
            Reason::Behind { .. } => "behind",
            Reason::Blocked { .. } => "blocked",
            Reason::Queued => "queued",
            Reason::EndpointDisabled => "endpointDisabled",
            Reason::EndpointPaused => "endpointPaused",
            Reason::ApplicationPaused => "applicationPaused",
            Reason::EnvironmentPaused => "environmentPaused",
            Reason::CancelRequested => "cancelRequested",
            Reason::Sending { .. } => "sending",
            Reason::Delivered => "delivered",
            Reason::Exhausted => "exhausted",
            Reason::Gone => "gone",
            Reason::Crashed => "crashed",
            Reason::EndpointDeleted => "endpointDeleted",
            Reason::Cancelled => "cancelled",
        }
    }

    /// The message that the delivery waits for, as far as it is known.
    pub const fn message(self) -> Option<MessageId> {
        match self {
            Reason::Behind { message } | Reason::Blocked { message } => message,
            _ => None,
        }
    }

    /// The time until which the reason holds, as far as it is known.
    pub const fn until(self) -> Option<Timestamp> {
        match self {
            Reason::Scheduled { until }
            | Reason::Retry { until }
            | Reason::BackOff { until }
            | Reason::RateLimit { until }
            | Reason::BreakerOpen { until } => Some(until),
            _ => None,
        }
    }
}

/// A command of an operator for the open tasks of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryCommand {
    /// End a delivery that waits or is being sent.
    Cancel,
    /// Make a waiting delivery due now, or redrive a dead one.
    RetryNow,
    /// End a dead delivery as cancelled.
    Dismiss,
}

/// The action that carries out a command on one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryAction {
    /// Delete the task, and log that the delivery was cancelled.
    End,
    /// Flag the task. Its next lease ends the delivery as cancelled, unless the current attempt succeeds.
    RequestCancel,
    /// Make the task due now.
    RunNow,
    /// Return the task to pending with fresh tries.
    Redrive,
    /// The task is already in the requested state.
    Nothing,
    /// The state does not allow the command.
    Refuse,
}

impl DeliveryAction {
    /// Whether the action changes the delivery.
    pub const fn is_change(self) -> bool {
        match self {
            DeliveryAction::End | DeliveryAction::RequestCancel | DeliveryAction::RunNow | DeliveryAction::Redrive => {
                true
            }
            DeliveryAction::Nothing | DeliveryAction::Refuse => false,
        }
    }
}

impl DeliveryCommand {
    /// Decides the action for a task in this state.
    pub fn on(self, task: &Task, state: TaskState) -> DeliveryAction {
        match (self, state) {
            // It stays behind the delivery that it waits for.
            (DeliveryCommand::RetryNow, TaskState::Pending) if task.is_behind() => DeliveryAction::Nothing,
            (DeliveryCommand::Cancel, TaskState::Pending) => DeliveryAction::End,
            (DeliveryCommand::Cancel, TaskState::Leased) => DeliveryAction::RequestCancel,
            (DeliveryCommand::Cancel, TaskState::Dead) => DeliveryAction::Refuse,
            (DeliveryCommand::RetryNow, TaskState::Pending) => DeliveryAction::RunNow,
            (DeliveryCommand::RetryNow, TaskState::Leased) => DeliveryAction::Nothing,
            (DeliveryCommand::RetryNow, TaskState::Dead) => DeliveryAction::Redrive,
            (DeliveryCommand::Dismiss, TaskState::Dead) => DeliveryAction::End,
            (DeliveryCommand::Dismiss, TaskState::Pending | TaskState::Leased) => DeliveryAction::Refuse,
        }
    }

    /// The hold of an ordered lane that ends with the action. Only the first delivery of an ordered lane has tries.
    pub fn ends_hold(self, task: &Task, state: TaskState) -> Option<HoldKind> {
        match (self.on(task, state), state) {
            (DeliveryAction::RunNow, _) => Some(HoldKind::Retry),
            (DeliveryAction::End, TaskState::Pending) if task.tries > 0 => Some(HoldKind::Retry),
            (DeliveryAction::End | DeliveryAction::Redrive, TaskState::Dead) => Some(HoldKind::Blocked),
            _ => None,
        }
    }

    /// The text of the attempt that logs an ended delivery.
    pub const fn note(self) -> &'static str {
        match self {
            DeliveryCommand::Cancel | DeliveryCommand::RetryNow => "the delivery was cancelled on request",
            DeliveryCommand::Dismiss => "the dead delivery was dismissed on request",
        }
    }
}

named_as!(DeliveryState, BadDeliveryState {
    Pending = "pending", Sending = "sending", Held = "held",
    Succeeded = "succeeded", Dead = "dead", Cancelled = "cancelled",
});

/// Error of a text that names no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be pending, sending, held, succeeded, dead or cancelled")]
pub struct BadDeliveryState;

impl fmt::Display for DeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.message, self.endpoint)
    }
}

impl FromStr for DeliveryKey {
    type Err = BadId;

    fn from_str(text: &str) -> Result<DeliveryKey, BadId> {
        let (message, endpoint) = text.split_once('.').ok_or(BadId)?;
        Ok(DeliveryKey { message: message.parse()?, endpoint: endpoint.parse()? })
    }
}

#[cfg(test)]
mod tests;
