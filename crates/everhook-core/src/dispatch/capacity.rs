//! Counts of leased and running tasks, for the node, for each lane, lane group and environment.
//!
//! A task has a *place* from its lease to its settlement, and a *slot* while it runs. There are as many slots as
//! configured, and more places than slots where tasks are short. No other part of a node counts either of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::dispatch::DispatchConfig;
use crate::dispatch::health::{Health, Sign};
use crate::fair::{Fair, GroupId, GroupedLane, Trust};
use crate::id::{EnvironmentId, LaneId};
use crate::limits::LEASE_TASKS_MAX;
use crate::share::Tenants;

/// A lane may lease ahead as many tasks as ended in it within this span.
const AHEAD: Duration = Duration::from_millis(100);

/// The most groups that a lease is asked to skip. A store compares each ready lane with all of them. The node refuses
/// lanes of further groups one by one.
const FULL_GROUPS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Capacity {
    config: DispatchConfig,
    /// Lanes with another number of slots than `config` says.
    own: BTreeMap<LaneId, usize>,
    /// Places beyond the slots, at most.
    ahead_max: usize,
    /// Places beyond the slots that one lease may fill.
    ahead_step: usize,
    /// Places beyond the slots now.
    ahead: usize,
    lanes: BTreeMap<LaneId, LaneUse>,
    leased: usize,
    running: usize,
    shares: Option<Shares>,
    fairness: Option<Fairness>,
}

/// Shares of lane groups, and the experience with lanes.
#[derive(Clone, Debug, Default)]
struct Fairness {
    fair: Fair,
    health: Health,
}

#[derive(Clone, Copy, Debug, Default)]
struct LaneUse {
    leased: usize,
    running: usize,
    /// A task of `StartOrder::AsLeased` has a slot and has not begun. Later tasks of the lane wait for it.
    is_starting: bool,
    pace: LanePace,
    /// Known where environments share the node.
    environment: Option<EnvironmentId>,
    /// Known where lane groups share the node.
    group: Option<GroupId>,
    /// The trust under which its places are counted.
    trust: Trust,
}

impl LaneUse {
    fn is_over(&self) -> bool {
        self.leased == 0 && self.running == 0 && self.pace.ahead() == 0
    }

    /// Places that are taken keep their trust until the node learns more about the lane.
    fn trust_by(&self, health: &Health, lane: LaneId) -> Trust {
        if self.leased > 0 { self.trust } else { health.of(lane).0 }
    }
}

/// The effect of an attempt on the health of its lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    /// How long the lane must rest, if it must.
    pub(super) rest: Option<Duration>,
    /// The trust under which the places of the lane counted before, if it has changed.
    pub(super) left: Option<Trust>,
}

/// The environments that share the node.
#[derive(Clone, Debug)]
struct Shares {
    places: Tenants,
    slots: Tenants,
}

impl Capacity {
    pub(super) fn new(config: DispatchConfig) -> Capacity {
        assert!(config.slots > 0 && config.slots_per_lane > 0, "a node without slots does nothing for ever");
        Capacity {
            config,
            own: BTreeMap::new(),
            ahead_max: 0,
            ahead_step: usize::MAX,
            ahead: 0,
            lanes: BTreeMap::new(),
            leased: 0,
            running: 0,
            shares: None,
            fairness: None,
        }
    }

    pub(super) fn be_fair(&mut self) {
        self.fairness = Some(Fairness::default());
    }

    /// Whether places are taken while a lease finds lanes, instead of when it returns tasks.
    pub(super) fn is_fair(&self) -> bool {
        self.fairness.is_some()
    }

    /// The group that a lane counts for. Where groups do not share the node, every lane is one.
    pub(super) fn grouped(&self, lane: LaneId) -> GroupedLane {
        let group = self.lanes.get(&lane).and_then(|used| used.group);
        GroupedLane { group: group.unwrap_or(GroupId { environment: EnvironmentId(0), id: lane.0 }), lane }
    }

    /// The places that a group has.
    pub(super) fn places_of(&self, group: GroupId) -> usize {
        self.fairness.as_ref().map_or(0, |it| it.fair.has(group))
    }

    /// The largest groups that may take nothing.
    pub(super) fn full_groups(&self) -> Vec<GroupId> {
        let Some(Fairness { fair, .. }) = &self.fairness else { return Vec::new() };
        let mut full: Vec<GroupId> = fair.full_groups(self.places()).collect();
        if full.len() > FULL_GROUPS_MAX {
            full.sort_by_key(|group| Reverse(fair.has(*group)));
            full.truncate(FULL_GROUPS_MAX);
        }
        full
    }

    /// Whether a group may take enough places to justify a lease for its tasks alone. For a large group, one free place
    /// is not enough.
    pub(super) fn group_has_room(&self, group: GroupId) -> bool {
        let has_room = |it: &Fairness| {
            let room = it.fair.room(self.places(), group, Trust::Proven);
            room > 0 && room >= it.fair.has(group) / 32
        };
        self.fairness.as_ref().is_some_and(has_room)
    }

    pub(super) fn lease_ahead(&mut self, tasks: usize) {
        self.ahead_max = tasks;
    }

    pub(super) fn lease_in_steps(&mut self, tasks: usize) {
        self.ahead_step = tasks;
    }

    pub(super) fn set_slots(&mut self, lane: LaneId, slots: usize) {
        assert!(slots > 0, "a lane without slots does nothing for ever");
        self.own.insert(lane, slots);
    }

    pub(super) fn share(&mut self) {
        let tenants = Tenants::new(self.config.slots);
        self.shares = Some(Shares { places: tenants.clone(), slots: tenants });
    }

    /// Replaces the environments that share the node by those of `lanes`. Returns how they share its places now.
    pub(super) fn share_between(&mut self, lanes: impl Iterator<Item = (EnvironmentId, LaneId)>) -> Tenants {
        let mut most: BTreeMap<EnvironmentId, usize> = BTreeMap::new();
        for (environment, lane) in lanes {
            *most.entry(environment).or_default() += self.slots_of(lane);
        }
        let places = self.places();
        let shares = self.shares.as_mut().expect("only a machine whose environments share is asked");
        shares.places.replace(&most);
        shares.slots.replace(&most);
        shares.places.clone().with_places(places)
    }

    /// Takes a place for a task that is not committed yet, if the node, the group and the lane have one.
    pub(super) fn reserve(&mut self, lane: GroupedLane) -> bool {
        let GroupedLane { group, lane } = self.counted(lane);
        let used = self.lane(lane);
        let has_place = self.places() > self.leased && self.line_of(lane) + self.ahead_of(&used) > used.leased;
        let places = self.places();
        let Some(Fairness { fair, health }) = &mut self.fairness else {
            if has_place {
                self.take_place(lane, None);
            }
            return has_place;
        };
        let trust = used.trust_by(health, lane);
        let may_reserve = has_place && fair.room(places, group, trust) > 0;
        if may_reserve {
            fair.take(group, trust, 1);
            self.occupy(GroupedLane { group, lane }, trust, 1);
        }
        may_reserve
    }

    /// Takes places for the tasks of a lease in progress, from lanes in the order of their turns.
    pub(super) fn pick(&mut self, lanes: &[GroupedLane], most: usize) -> Vec<usize> {
        let lanes: Vec<GroupedLane> = lanes.iter().map(|lane| self.counted(*lane)).collect();
        let mut bounds: BTreeMap<LaneId, (GroupId, Trust, usize)> = BTreeMap::new();
        for GroupedLane { group, lane } in &lanes {
            bounds.entry(*lane).or_insert((*group, self.trust(*lane), self.capacity(*lane)));
        }
        let (places, most) = (self.places(), most.min(self.free()));
        let Some(fairness) = &mut self.fairness else { return vec![0; lanes.len()] };
        let rooms = fairness.fair.pick(places, most, &lanes, |lane| {
            let (group, trust, bound) = bounds[&lane.lane];
            (trust, if group == lane.group { bound } else { 0 })
        });
        for (lane, room) in lanes.iter().zip(&rooms).filter(|(_, room)| **room > 0) {
            self.occupy(*lane, bounds[&lane.lane].1, *room);
        }
        rooms
    }

    /// The trust under which the places of a lane count.
    pub(super) fn trust(&self, lane: LaneId) -> Trust {
        self.fairness.as_ref().map_or(Trust::default(), |it| self.lane(lane).trust_by(&it.health, lane))
    }

    /// Returns the group that a lane counts for. Lanes of two environments may have the same id. They count as one lane
    /// while it is in use.
    fn counted(&self, lane: GroupedLane) -> GroupedLane {
        let in_use = self.lanes.get(&lane.lane).filter(|used| used.leased > 0);
        GroupedLane { group: in_use.and_then(|used| used.group).unwrap_or(lane.group), ..lane }
    }

    fn occupy(&mut self, GroupedLane { group, lane }: GroupedLane, trust: Trust, places: usize) {
        let used = self.lanes.entry(lane).or_default();
        (used.group, used.trust) = (Some(group), trust);
        used.leased += places;
        self.leased += places;
    }

    /// Updates the health of a lane after an attempt.
    pub(super) fn learn(&mut self, lane: LaneId, sign: Sign, now: Duration) -> Learned {
        let (used, slots) = (self.lane(lane), self.most_of(lane));
        let Some(Fairness { fair, health }) = &mut self.fairness else { return Learned::default() };
        let mut learned = Learned { rest: health.ended(lane, sign, used.running, slots, now), left: None };
        let (trust, _) = health.of(lane);
        if let Some(group) = used.group.filter(|_| trust != used.trust)
            && let Some(entry) = self.lanes.get_mut(&lane)
        {
            fair.give_back(group, used.trust, used.leased);
            fair.take(group, trust, used.leased);
            entry.trust = trust;
            learned.left = Some(used.trust);
        }
        learned
    }

    pub(super) fn take_place(&mut self, lane: LaneId, environment: Option<EnvironmentId>) {
        assert!(self.shares.is_none() || environment.is_some(), "a place that is shared belongs to an environment");
        let used = self.lanes.entry(lane).or_default();
        used.leased += 1;
        self.leased += 1;
        if let (Some(shares), Some(environment)) = (&mut self.shares, environment) {
            used.environment = Some(environment);
            shares.places.take(environment);
        }
    }

    /// Frees a place. Returns the group and the trust under which it was counted.
    pub(super) fn free_place(&mut self, lane: LaneId) -> (GroupId, Trust) {
        let group = self.grouped(lane).group;
        let used = self.lanes.get_mut(&lane).expect("only a place that was taken is freed");
        used.leased -= 1;
        self.leased -= 1;
        if let (Some(shares), Some(environment)) = (&mut self.shares, used.environment) {
            shares.places.give_back(environment);
        }
        if let (Some(fairness), Some(group)) = (&mut self.fairness, used.group) {
            fairness.fair.give_back(group, used.trust, 1);
        }
        let trust = used.trust;
        if used.is_over() {
            self.lanes.remove(&lane);
        }
        (group, trust)
    }

    pub(super) fn node_has_slot(&self) -> bool {
        self.running < self.config.slots
    }

    /// Whether the environment of a lane may have a free slot of the node.
    pub(super) fn environment_has_slot(&self, lane: LaneId) -> bool {
        let has_capacity = |shares: &Shares| self.lane(lane).environment.is_none_or(|it| shares.slots.has_capacity(it));
        self.shares.as_ref().is_none_or(has_capacity)
    }

    pub(super) fn lane_has_slot(&self, lane: LaneId) -> bool {
        self.lane(lane).running < self.slots_of(lane)
    }

    /// Takes a slot for a task that has a place.
    pub(super) fn take_slot(&mut self, lane: LaneId) {
        let used = self.lanes.get_mut(&lane).expect("a task that runs has a place");
        used.running += 1;
        self.running += 1;
        if let (Some(shares), Some(environment)) = (&mut self.shares, used.environment) {
            shares.slots.take(environment);
        }
    }

    /// Frees the slot of an ended task. Its place may have been freed earlier.
    pub(super) fn free_slot(&mut self, lane: LaneId) {
        let used = self.lanes.get_mut(&lane).expect("only a slot that was taken is freed");
        used.running -= 1;
        self.running -= 1;
        if self.ahead_max > 0 {
            used.pace.ended += 1;
        }
        if let (Some(shares), Some(environment)) = (&mut self.shares, used.environment) {
            shares.slots.give_back(environment);
        }
        if used.is_over() {
            self.lanes.remove(&lane);
        }
    }

    pub(super) fn is_starting(&self, lane: LaneId) -> bool {
        self.lane(lane).is_starting
    }

    pub(super) fn set_starting(&mut self, lane: LaneId, is_starting: bool) {
        if let Some(used) = self.lanes.get_mut(&lane) {
            used.is_starting = is_starting;
        }
    }

    /// Gives each lane as many places ahead as tasks of the lane ended within `AHEAD`. A lane of long tasks therefore
    /// gets none, however short the tasks of other lanes are.
    pub(super) fn look_ahead(&mut self, now: Duration) {
        let mut ahead = 0;
        self.lanes.retain(|_, used| {
            used.pace.turn(now);
            if used.pace.ahead() == 0 {
                used.pace = LanePace::default();
            }
            ahead += used.pace.ahead();
            !used.is_over()
        });
        self.ahead = ahead.min(self.ahead_max);
    }

    /// Returns the lanes with leased tasks, or with their own number of slots, and the number of tasks of each that may
    /// be leased.
    pub(super) fn free_by_lane(&self) -> Vec<(LaneId, usize)> {
        let leased = self.lanes.iter().filter(|(_, used)| used.leased > 0).map(|(lane, _)| lane);
        let free_by_lane = leased.chain(self.own.keys()).map(|lane| (*lane, self.capacity(*lane)));
        free_by_lane.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// Returns the number of tasks of a lane that may be leased.
    pub(super) fn capacity(&self, lane: LaneId) -> usize {
        let used = self.lane(lane);
        self.left(self.line_of(lane), self.ahead_of(&used), used.leased)
    }

    /// Returns the number of tasks that may be leased.
    pub(super) fn free(&self) -> usize {
        self.left(self.config.slots, self.ahead, self.leased)
    }

    /// Free slots, or free places in steps.
    fn left(&self, slots: usize, ahead: usize, leased: usize) -> usize {
        slots.saturating_sub(leased).max((slots + ahead).saturating_sub(leased).min(self.ahead_step))
    }

    /// Whether there are too few free places to lease more. Places ahead are not filled one by one.
    pub(super) fn is_full(&self) -> bool {
        self.free() < (self.ahead.min(self.ahead_step) / 2).clamp(1, self.lease_max())
    }

    /// Returns the most tasks of one lease. With places ahead, half of them run while the next half is leased.
    pub(super) fn lease_max(&self) -> usize {
        LEASE_TASKS_MAX.max(self.ahead_max / 2)
    }

    /// Whether `tasks` more tasks find places. More tasks than slots need only as many places as there are slots.
    pub(super) fn has_places_for(&self, tasks: usize) -> bool {
        self.leased + tasks.min(self.config.slots) <= self.places()
    }

    pub(super) fn leased(&self) -> usize {
        self.leased
    }

    fn places(&self) -> usize {
        self.config.slots + self.ahead
    }

    /// The slots of a lane, within its window.
    fn slots_of(&self, lane: LaneId) -> usize {
        let window = self.fairness.as_ref().map_or(usize::MAX, |it| it.health.of(lane).1);
        self.most_of(lane).min(window)
    }

    /// The places of a lane, without those ahead. The tasks of a new lane may wait in line while its window grows:
    /// otherwise the first burst would go through the store, and all that comes after it. Once an attempt shows that
    /// the receiver is overloaded, its tasks wait in the store, where other nodes find them.
    fn line_of(&self, lane: LaneId) -> usize {
        match &self.fairness {
            Some(it) if it.health.is_cut(lane) => self.slots_of(lane),
            _ => self.most_of(lane),
        }
    }

    fn most_of(&self, lane: LaneId) -> usize {
        self.own.get(&lane).copied().unwrap_or(self.config.slots_per_lane)
    }

    fn ahead_of(&self, used: &LaneUse) -> usize {
        used.pace.ahead().min(self.ahead_max)
    }

    fn lane(&self, lane: LaneId) -> LaneUse {
        self.lanes.get(&lane).copied().unwrap_or_default()
    }
}

/// Counts the ended tasks of a lane, per span of `AHEAD`.
#[derive(Clone, Copy, Debug, Default)]
struct LanePace {
    since: Duration,
    ended: usize,
    before: usize,
}

impl LanePace {
    fn turn(&mut self, now: Duration) {
        let span = now.saturating_sub(self.since);
        if span >= AHEAD {
            let share = AHEAD.as_secs_f64() / span.as_secs_f64();
            *self = LanePace { since: now, ended: 0, before: (self.ended as f64 * share) as usize };
        }
    }

    fn ahead(&self) -> usize {
        self.before.max(self.ended)
    }
}
