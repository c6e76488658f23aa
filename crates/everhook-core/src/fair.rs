//! How tenants share the delivery places of a node: environments first, then lane groups.
//!
//! A hanging endpoint keeps its place until the timeout, and the node cannot take it away. Turns do not help once every
//! place is taken. A tenant may therefore take only a multiple of the free places: the limit tightens while the node
//! fills, and a newcomer always finds some. This needs no list of tenants, and one tenant alone gets half of the node.
//!
//! Many small tenants may hang together, which no share prevents. Lanes without a recent success therefore share a part
//! of the node only (see [`Trust`]).
//!
//! Pure. `dispatch::capacity` takes and gives back places.

use std::collections::BTreeMap;

use crate::id::{EnvironmentId, Id, LaneId};

/// The places that one turn of a lease gives to a lane.
const QUANTUM: usize = 8;

/// A lane group: an application of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    pub environment: EnvironmentId,
    pub id: Id,
}

/// A lane with the group that it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupedLane {
    pub group: GroupId,
    pub lane: LaneId,
}

/// The experience of this node with a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The lane had a success recently.
    Proven,
    #[default]
    Unproven,
    /// A request timed out or found no connection since the last success.
    Suspect,
}

impl Trust {
    /// The places that all lanes of this trust have together, out of `places`. Small nodes are not divided.
    fn places(self, places: usize) -> usize {
        match self {
            Trust::Proven => places,
            Trust::Unproven => (places / 2).max(places.min(16)),
            Trust::Suspect => (places / 4).max(places.min(8)),
        }
    }

    /// The multiple of the free places of this trust that one group may have. A group whose receivers hang may have as
    /// many as it leaves free. The first burst of a new application may take four fifths: with less, it and all that
    /// follows it would wait in the store.
    fn multiple(self) -> usize {
        match self {
            Trust::Proven | Trust::Unproven => 4,
            Trust::Suspect => 1,
        }
    }
}

/// The places that tenants have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fair {
    all: Taken,
    environments: BTreeMap<EnvironmentId, usize>,
    groups: BTreeMap<GroupId, Taken>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    sum: usize,
    by_trust: [usize; 3],
}

impl Taken {
    fn add(&mut self, trust: Trust, places: usize) {
        self.sum += places;
        self.by_trust[trust as usize] += places;
    }

    fn remove(&mut self, trust: Trust, places: usize) {
        self.sum -= places;
        self.by_trust[trust as usize] -= places;
    }
}

impl Fair {
    /// Returns how many of a node's `places` a lane of this group and trust may take now. Each place that is taken
    /// lowers the result for later calls.
    pub fn room(&self, places: usize, group: GroupId, trust: Trust) -> usize {
        let free = places.saturating_sub(self.all.sum);
        let taken = self.taken(group);
        let pool = trust.places(places).saturating_sub(self.all.by_trust[trust as usize]);
        let by_trust = match places {
            ..=16 => pool,
            _ => (trust.multiple() * pool).saturating_sub(taken.by_trust[trust as usize]).min(pool),
        };
        self.share(places, group).saturating_sub(taken.sum).min(by_trust).min(free)
    }

    /// The places that a group may have now.
    fn share(&self, places: usize, group: GroupId) -> usize {
        let free = places.saturating_sub(self.all.sum);
        // A few are granted while any place is free, so that a large environment does not lock out its small groups.
        let small = (places / 64).min(free / 8).max(1);
        // An eighth of the node is for such small groups only.
        let environment = 2 * free.saturating_sub(places / 8);
        let has = self.environments.get(&group.environment).copied().unwrap_or_default();
        small.max(2 * environment.saturating_sub(has))
    }

    /// Returns the groups that may take nothing, whatever the trust of their lanes.
    pub fn full_groups(&self, places: usize) -> impl Iterator<Item = GroupId> {
        let is_full = move |group: &GroupId| self.share(places, *group) <= self.taken(*group).sum;
        self.groups.keys().copied().filter(is_full)
    }

    /// The places that a group has.
    pub fn has(&self, group: GroupId) -> usize {
        self.taken(group).sum
    }

    pub fn take(&mut self, group: GroupId, trust: Trust, places: usize) {
        self.all.add(trust, places);
        *self.environments.entry(group.environment).or_default() += places;
        self.groups.entry(group).or_default().add(trust, places);
    }

    pub fn give_back(&mut self, group: GroupId, trust: Trust, places: usize) {
        self.all.remove(trust, places);
        let has = self.environments.get_mut(&group.environment).expect("an environment that has places is known");
        *has -= places;
        if *has == 0 {
            self.environments.remove(&group.environment);
        }
        let taken = self.groups.get_mut(&group).expect("a group that has places is known");
        taken.remove(trust, places);
        if taken.sum == 0 {
            self.groups.remove(&group);
        }
    }

    /// Takes places for ready lanes, in the order of their turns, at most `most` in total. Returns the places of each
    /// lane. `lane` returns the trust of a lane and its own bound. The environment, then the group, with the fewest
    /// places is next.
    pub fn pick(
        &mut self,
        places: usize,
        most: usize,
        lanes: &[GroupedLane],
        lane: impl Fn(&GroupedLane) -> (Trust, usize),
    ) -> Vec<usize> {
        let mut rooms = vec![0; lanes.len()];
        let mut ready: BTreeMap<GroupId, Vec<usize>> = BTreeMap::new();
        for (at, lane) in lanes.iter().enumerate().rev() {
            ready.entry(lane.group).or_default().push(at);
        }
        let mut left = most;
        while left > 0
            && let Some(group) = self.least_occupied(&ready)
        {
            let Some(waiting) = ready.get_mut(&group) else { break };
            let Some(at) = waiting.pop() else {
                ready.remove(&group);
                continue;
            };
            let (trust, bound) = lane(&lanes[at]);
            let by_lane = bound.saturating_sub(rooms[at]);
            let room = self.room(places, group, trust).min(by_lane).min(QUANTUM).min(left);
            if room > 0 {
                self.take(group, trust, room);
                rooms[at] += room;
                left -= room;
                // Behind the other lanes of its group.
                waiting.insert(0, at);
            }
        }
        rooms
    }

    fn least_occupied(&self, ready: &BTreeMap<GroupId, Vec<usize>>) -> Option<GroupId> {
        let has = |group: &GroupId| {
            let environment = self.environments.get(&group.environment).copied().unwrap_or_default();
            (environment, self.taken(*group).sum, ready[group].last().copied())
        };
        if ready.len() < 2 { ready.keys().next().copied() } else { ready.keys().copied().min_by_key(has) }
    }

    fn taken(&self, group: GroupId) -> Taken {
        self.groups.get(&group).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
