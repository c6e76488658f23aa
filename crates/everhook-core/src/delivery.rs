//! Where a delivery stands, for people: computed from its open task, or from its last attempt once the task is gone.

use crate::lifecycle::EndState;
use crate::task::TaskState;

/// Where one message stands with one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Not tried yet.
    Pending,
    /// Held by a node, or waiting for a retry.
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
    Open {
        /// Where the task stands.
        state: TaskState,
        /// Whether any attempt was counted.
        tried: bool,
    },
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
        DeliveryTrace::Open { state: TaskState::Dead, .. } => DeliveryState::Dead,
        DeliveryTrace::Open { state: TaskState::Leased, .. } => DeliveryState::Sending,
        DeliveryTrace::Open { state: TaskState::Pending, tried } => match endpoint {
            // The row is still on its way out, however late it is due.
            EndpointPresence::Deleted => DeliveryState::Cancelled,
            EndpointPresence::Disabled => DeliveryState::Held,
            EndpointPresence::Enabled if tried => DeliveryState::Sending,
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
        let waiting = |tried| DeliveryTrace::Open { state: TaskState::Pending, tried };
        assert_eq!(state(waiting(false), EndpointPresence::Enabled), DeliveryState::Pending);
        assert_eq!(state(waiting(true), EndpointPresence::Enabled), DeliveryState::Sending);
        assert_eq!(state(waiting(true), EndpointPresence::Disabled), DeliveryState::Held);
        assert_eq!(state(waiting(false), EndpointPresence::Deleted), DeliveryState::Cancelled);
    }

    #[test]
    fn an_ended_delivery_stays_what_it_is() {
        for endpoint in [EndpointPresence::Enabled, EndpointPresence::Disabled, EndpointPresence::Deleted] {
            assert_eq!(state(DeliveryTrace::Ended(EndState::Succeeded), endpoint), DeliveryState::Succeeded);
            let dead = DeliveryTrace::Open { state: TaskState::Dead, tried: true };
            assert_eq!(state(dead, endpoint), DeliveryState::Dead);
        }
    }
}
