//! Capacity: the node's slots for running tasks, as the append transaction sees it.

use std::fmt;
use std::sync::Arc;

use everhook_core::id::LaneId;

/// Where slots come from: the dispatcher of the node.
pub trait Capacity: Send + Sync {
    /// Takes a slot for one task of `lane`, if there is room.
    fn reserve(&self, lane: LaneId) -> bool;
    /// Gives it back.
    fn release(&self, lane: LaneId);
}

/// A slot that is held; dropping it frees it, so that a failed transaction leaks none.
pub struct Slot {
    /// None if someone else gives it back.
    slots: Option<Arc<dyn Capacity>>,
    lane: LaneId,
}

impl Slot {
    /// Takes a slot, if there is room.
    pub fn reserve(slots: &Arc<dyn Capacity>, lane: LaneId) -> Option<Slot> {
        slots.reserve(lane).then(|| Slot::held(slots, lane))
    }

    /// A slot that is counted already.
    pub fn held(slots: &Arc<dyn Capacity>, lane: LaneId) -> Slot {
        Slot { slots: Some(Arc::clone(slots)), lane }
    }

    /// Leaves the slot taken: whoever knows of its task gives it back.
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
