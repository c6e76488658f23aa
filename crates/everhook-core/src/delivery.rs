//! Where a delivery stands, for people: computed from its open task, or from its last attempt once the task is gone.

use crate::lifecycle::EndState;
use crate::task::TaskState;

/// Where one message stands with one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Waits for its first attempt, or for a retry.
    Pending,
    /// Held by a node.
    Sending,
    /// Waits because its endpoint is disabled.
    Held,
    /// Delivered.
    Succeeded,
    /// Given up; can be redriven.
    Dead,
    /// Ended because its endpoint was deleted, or on request.
    Cancelled,
}

/// What the store knows of one life of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryTrace {
    /// Its task is open.
    Open(TaskState),
    /// Its task is gone; the last attempt says how.
    Ended(EndState),
}

/// What the store knows of the endpoint, as far as a delivery's state depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointPresence {
    /// It takes deliveries.
    Enabled,
    /// It holds them.
    Disabled,
    /// It cancels them.
    Deleted,
}

/// Where a delivery stands.
pub fn state(trace: DeliveryTrace, endpoint: EndpointPresence) -> DeliveryState {
    match trace {
        DeliveryTrace::Open(TaskState::Dead) => DeliveryState::Dead,
        DeliveryTrace::Open(TaskState::Leased) => DeliveryState::Sending,
        DeliveryTrace::Open(TaskState::Pending) => match endpoint {
            // The row is still on its way out, however late it is due.
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
