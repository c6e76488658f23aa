//! The node's slots for running tasks, as an append transaction sees them.

use std::fmt;
use std::sync::Arc;

use everhook_core::id::LaneId;

/// The source of slots: the dispatcher of the node.
pub trait Capacity: Send + Sync {
    fn reserve(&self, lane: LaneId) -> bool;
    /// Returns a slot of `lane`.
    fn release(&self, lane: LaneId);
}

/// A slot in use. Dropping it releases it, so that a failed transaction leaks no slot.
pub struct Slot {
    /// None once another owner is responsible for the release.
    slots: Option<Arc<dyn Capacity>>,
    lane: LaneId,
}

impl Slot {
    pub fn reserve(slots: &Arc<dyn Capacity>, lane: LaneId) -> Option<Slot> {
        slots.reserve(lane).then(|| Slot::held(slots, lane))
    }

    /// Wraps a slot that is already counted as taken.
    pub fn held(slots: &Arc<dyn Capacity>, lane: LaneId) -> Slot {
        Slot { slots: Some(Arc::clone(slots)), lane }
    }

    /// Leaves the slot taken: the component that runs its task releases it.
    pub fn keep(mut self) {
        self.slots = None;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = &self.slots {
            slots.release(self.lane);
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({})", self.lane)
    }
}
