//! Turns of lanes: lanes with a waiting ticket and a free slot take turns.
//!
//! Knows the lanes that could start a ticket if the node and their environment have a slot. Finding the next one takes
//! logarithmic time, unless environments at their share have to be passed over.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::id::{Id, LaneId};

#[derive(Clone, Debug)]
pub(super) struct Turns {
    ready: BTreeSet<LaneId>,
    /// The lane that had its turn last.
    last: LaneId,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns { ready: BTreeSet::new(), last: LaneId(Id::MAX) }
    }

    pub(super) fn set_ready(&mut self, lane: LaneId, is_ready: bool) {
        if is_ready {
            self.ready.insert(lane);
        } else {
            self.ready.remove(&lane);
        }
    }

    /// A task of `lane` starts: the lanes behind it are next.
    pub(super) fn pass(&mut self, lane: LaneId) {
        self.last = lane;
    }

    /// The next lane for which `may_start` is true.
    pub(super) fn next(&self, may_start: impl Fn(LaneId) -> bool) -> Option<LaneId> {
        let after = self.ready.range((Bound::Excluded(self.last), Bound::Unbounded));
        after.chain(self.ready.range(..=self.last)).copied().find(|lane| may_start(*lane))
    }
}
