//! The state of a delivery as users see it, computed from its open task, or from its last attempt once the task is
//! gone.

use crate::lifecycle::EndState;
use crate::task::TaskState;

/// The state of one message at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Waiting for the first attempt or a retry.
    Pending,
    Sending,
    /// Waiting because the endpoint is disabled.
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
    Disabled,
    Deleted,
}

pub fn state(trace: DeliveryTrace, endpoint: EndpointPresence) -> DeliveryState {
    match trace {
        DeliveryTrace::Open(TaskState::Dead) => DeliveryState::Dead,
        DeliveryTrace::Open(TaskState::Leased) => DeliveryState::Sending,
        DeliveryTrace::Open(TaskState::Pending) => match endpoint {
            // The task row stays until it becomes due and is cancelled, but the delivery will never be sent.
            EndpointPresence::Deleted => DeliveryState::Cancelled,
            EndpointPresence::Disabled => DeliveryState::Held,
            EndpointPresence::Enabled => DeliveryState::Pending,
        },
        DeliveryTrace::Ended(EndState::Succeeded) => DeliveryState::Succeeded,
        DeliveryTrace::Ended(EndState::Cancelled) => DeliveryState::Cancelled,
        DeliveryTrace::Ended(EndState::Dead) => DeliveryState::Dead,
        DeliveryTrace::Ended(EndState::Open) => DeliveryState::Sending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_delivery_depends_on_its_endpoint() {
        let waiting = DeliveryTrace::Open(TaskState::Pending);
        assert_eq!(state(waiting, EndpointPresence::Enabled), DeliveryState::Pending);
        assert_eq!(state(waiting, EndpointPresence::Disabled), DeliveryState::Held);
        assert_eq!(state(waiting, EndpointPresence::Deleted), DeliveryState::Cancelled);
        let leased = DeliveryTrace::Open(TaskState::Leased);
        assert_eq!(state(leased, EndpointPresence::Enabled), DeliveryState::Sending);
    }

    #[test]
    fn an_ended_delivery_stays_what_it_is() {
        for endpoint in [EndpointPresence::Enabled, EndpointPresence::Disabled, EndpointPresence::Deleted] {
            assert_eq!(state(DeliveryTrace::Ended(EndState::Succeeded), endpoint), DeliveryState::Succeeded);
            let dead = DeliveryTrace::Open(TaskState::Dead);
            assert_eq!(state(dead, endpoint), DeliveryState::Dead);
        }
    }
}
