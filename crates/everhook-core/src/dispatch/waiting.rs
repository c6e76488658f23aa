//! The line of leased tasks that wait for a slot: first come, first served within a lane.
//!
//! Every ticket waits for the same span, so the oldest ticket of the node is always the first one of its lane. Whether
//! a ticket may start is not decided here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::dispatch::Ticket;
use crate::id::LaneId;

/// The longest wait of a ticket for a slot. It is then handed back, because another node may have capacity.
pub(super) const KEPT_WAITING: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(super) struct Waiting<T> {
    lanes: BTreeMap<LaneId, VecDeque<(u64, Ticket<T>)>>,
    /// The tickets of all lanes by age: the time at which each must be handed back, and its lane.
    by_age: BTreeMap<u64, (Duration, LaneId)>,
    next: u64,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Waiting<T> {
        Waiting { lanes: BTreeMap::new(), by_age: BTreeMap::new(), next: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    pub(super) fn push(&mut self, ticket: Ticket<T>, now: Duration) {
        self.by_age.insert(self.next, (now + KEPT_WAITING, ticket.lane));
        self.lanes.entry(ticket.lane).or_default().push_back((self.next, ticket));
        self.next += 1;
    }

    /// Returns the next ticket of a lane.
    pub(super) fn first(&self, lane: LaneId) -> Option<&Ticket<T>> {
        self.lanes.get(&lane)?.front().map(|(_, ticket)| ticket)
    }

    pub(super) fn pop(&mut self, lane: LaneId) -> Option<Ticket<T>> {
        let queue = self.lanes.get_mut(&lane)?;
        let (number, ticket) = queue.pop_front()?;
        if queue.is_empty() {
            self.lanes.remove(&lane);
        }
        self.by_age.remove(&number);
        Some(ticket)
    }

    /// Returns the time at which the oldest ticket must be handed back, and its lane.
    pub(super) fn oldest(&self) -> Option<(Duration, LaneId)> {
        self.by_age.first_key_value().map(|(_, oldest)| *oldest)
    }
}
