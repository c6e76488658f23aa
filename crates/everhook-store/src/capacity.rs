//! The node's capacity for leased tasks, as appends and leases see it inside their transactions. A slot in this module
//! is a *place* of `core::dispatch`: it is taken before the task is leased, and released when its end is written or,
//! after a success, queued.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use everhook_core::fair::GroupedLane;
use everhook_core::id::LaneId;

use crate::lease::Leased;

/// The source of slots: the dispatcher of the node.
pub trait Capacity: Send + Sync {
    fn reserve(&self, lane: GroupedLane) -> bool;
    /// Takes slots for the tasks of a lease in progress: at most `most`, from ready lanes in the order of their turns.
    /// Returns the slots of each lane.
    fn plan_lease(&self, lanes: &[GroupedLane], most: usize) -> Vec<usize>;
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
    pub fn reserve(slots: &Arc<dyn Capacity>, lane: GroupedLane) -> Option<Slot> {
        slots.reserve(lane).then(|| Slot::held(slots, lane.lane))
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

/// The capacity for the tasks of a lease. The node decides how many tasks each ready lane may give.
#[derive(Clone)]
pub struct LeaseCapacity(pub Arc<dyn Capacity>);

impl fmt::Debug for LeaseCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseCapacity")
    }
}

impl LeaseCapacity {
    /// Takes slots for ready lanes. Slots that no task uses are released when the result is dropped.
    pub fn plan(&self, lanes: Vec<GroupedLane>, most: usize) -> PlannedSlots {
        let rooms = self.0.plan_lease(&lanes, most);
        let slot = |lane: &GroupedLane| Slot::held(&self.0, lane.lane);
        let slots = |(lane, room): (&GroupedLane, &usize)| (lane.lane, (0..*room).map(|_| slot(lane)).collect());
        PlannedSlots {
            by_lane: lanes.iter().zip(&rooms).filter(|(_, room)| **room > 0).map(slots).collect(),
            is_spent: rooms.iter().sum::<usize>() >= most,
        }
    }
}

/// Slots by lane.
#[derive(Debug, Default)]
pub struct PlannedSlots {
    by_lane: HashMap<LaneId, Vec<Slot>>,
    /// Whether the lanes without slots may get some in the next lease.
    pub is_spent: bool,
}

impl PlannedSlots {
    /// The slots of a lane.
    pub fn room(&self, lane: LaneId) -> usize {
        self.by_lane.get(&lane).map_or(0, Vec::len)
    }

    /// Takes a slot for each task; a task without a planned slot gets none.
    pub fn take(&mut self, tasks: &[Leased]) -> Vec<Slot> {
        tasks.iter().filter_map(|leased| self.by_lane.get_mut(&leased.task.lane)?.pop()).collect()
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({})", self.lane)
    }
}
