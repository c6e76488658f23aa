//! Turns of lanes: chooses the waiting ticket that gets the next slot of the node.
//!
//! The set contains the lanes that could start a ticket if the node and their environment have a slot. The group with
//! the fewest places is next; groups with equally many take turns, and so do the lanes of a group. The cost of a choice
//! grows with the number of waiting groups. That number stays small, because no ticket waits long.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::fair::{GroupId, GroupedLane};
use crate::id::{EnvironmentId, Id, LaneId};

#[derive(Clone, Debug)]
pub(super) struct Turns {
    ready: BTreeMap<GroupId, BTreeSet<LaneId>>,
    /// The lane that had its turn last.
    last: GroupedLane,
}

impl Turns {
    pub(super) fn new() -> Turns {
        let group = GroupId { environment: EnvironmentId(i32::MAX), id: Id::MAX };
        Turns { ready: BTreeMap::new(), last: GroupedLane { group, lane: LaneId(Id::MAX) } }
    }

    pub(super) fn set_ready(&mut self, lane: GroupedLane, is_ready: bool) {
        if is_ready {
            self.ready.entry(lane.group).or_default().insert(lane.lane);
        } else if let Some(lanes) = self.ready.get_mut(&lane.group) {
            lanes.remove(&lane.lane);
            if lanes.is_empty() {
                self.ready.remove(&lane.group);
            }
        }
    }

    /// Records that a task of `lane` starts. The next turn is that of the lanes after it.
    pub(super) fn pass(&mut self, lane: GroupedLane) {
        self.last = lane;
    }

    /// Returns the next lane for which `may_start` is true. `places` returns the number of places of a group.
    pub(super) fn next(&self, places: impl Fn(GroupId) -> usize, may_start: impl Fn(LaneId) -> bool) -> Option<LaneId> {
        let after = self.ready.range((Bound::Excluded(self.last.group), Bound::Unbounded));
        let groups = after.chain(self.ready.range(..=self.last.group));
        let next = groups.filter_map(|(group, lanes)| Some((*group, self.next_of(lanes, &may_start)?)));
        // `min_by_key` returns the first of several minimums, so groups with equally many places take turns.
        next.min_by_key(|(group, _)| places(*group)).map(|(_, lane)| lane)
    }

    fn next_of(&self, lanes: &BTreeSet<LaneId>, may_start: impl Fn(LaneId) -> bool) -> Option<LaneId> {
        let after = lanes.range((Bound::Excluded(self.last.lane), Bound::Unbounded));
        after.chain(lanes.range(..=self.last.lane)).copied().find(|lane| may_start(*lane))
    }
}
