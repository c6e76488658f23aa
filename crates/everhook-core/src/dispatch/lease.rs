//! The time of the next lease: at once with a backlog or after a hint, when a task becomes due, and at the poll
//! interval.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::dispatch::capacity::Capacity;
use crate::fair::{GroupId, GroupedLane, Trust};
use crate::id::LaneId;
use crate::lane::LanePosition;
use crate::limits::LEASE_TASKS_MAX;

/// The shortest pause after a lease without tasks, even if a lane is ready. Without it, a lane that another node has
/// locked would cause a busy loop.
pub(super) const EMPTY_PAUSE: Duration = Duration::from_millis(5);
/// The pause of a node that has no files, ports or memory left.
pub(super) const EXHAUSTED_PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause between two leases for tasks that become due. One lease then takes several of them, and a retry
/// may be some milliseconds late.
pub(super) const DUE_PAUSE: Duration = Duration::from_millis(10);
/// The pause after a lease, for each leased task: one large lease costs less than many small ones.
pub(super) const TASK_PAUSE: Duration = Duration::from_micros(50);
/// The longest such pause.
pub(super) const BUSY_PAUSE_MAX: Duration = Duration::from_millis(5);
/// The longest pause after a lease that took all due tasks.
pub(super) const AGAIN_PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(super) struct LeaseTimer {
    poll_interval: Duration,
    is_leasing: bool,
    /// The last lease left due tasks. They can be leased as soon as there is capacity.
    has_backlog: bool,
    /// Lanes that were full when the last lease began. It skipped them, so they may have due tasks.
    full: BTreeSet<LaneId>,
    /// Groups that had used their share when the last lease began or was planned. It skipped their lanes.
    full_groups: BTreeSet<GroupId>,
    /// Trusts of which the last lease refused lanes although their groups had room.
    full_trusts: BTreeSet<Trust>,
    /// Places that the last lease took for lanes of these trusts. It frees those that no task uses.
    taken: usize,
    /// Places of these trusts that became free during the lease.
    freed: usize,
    /// The position at which the next lease starts; none means the lanes that have been ready longest.
    resume: Option<LanePosition>,
    /// A hint arrived after the last lease began.
    is_hinted: bool,
    /// The earliest known due time.
    due_at: Duration,
    poll_at: Duration,
    /// No lease before this.
    busy_until: Duration,
    /// No lease for tasks that become due before this.
    due_from: Duration,
    /// The node has no files, ports or memory until `paused_until`.
    is_paused: bool,
    paused_until: Duration,
}

impl LeaseTimer {
    pub(super) fn new(poll_interval: Duration) -> LeaseTimer {
        LeaseTimer {
            poll_interval,
            is_leasing: false,
            has_backlog: false,
            full: BTreeSet::new(),
            full_groups: BTreeSet::new(),
            full_trusts: BTreeSet::new(),
            taken: 0,
            freed: 0,
            resume: None,
            is_hinted: false,
            due_at: Duration::MAX,
            poll_at: Duration::ZERO,
            busy_until: Duration::ZERO,
            due_from: Duration::ZERO,
            is_paused: false,
            paused_until: Duration::ZERO,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn hint(&mut self) {
        self.is_hinted = true;
        self.poll_at = Duration::ZERO;
    }

    pub(super) fn due_at(&mut self, at: Duration) {
        self.due_at = self.due_at.min(at);
    }

    pub(super) fn held_back(&mut self) {
        self.has_backlog = true;
    }

    pub(super) fn exhausted(&mut self, now: Duration) {
        self.is_paused = true;
        self.paused_until = now + EXHAUSTED_PAUSE;
        self.poll_at = self.poll_at.min(self.paused_until);
    }

    /// Returns the time of the next lease.
    pub(super) fn at(&self, capacity: &Capacity) -> Duration {
        if self.is_leasing || capacity.is_full() {
            return Duration::MAX;
        }
        self.poll_at.min(self.due_at.max(self.due_from)).max(self.busy_until).max(self.paused_until)
    }

    /// Returns the position at which the next lease starts.
    pub(super) fn resume(&self) -> Option<LanePosition> {
        self.resume
    }

    pub(super) fn set_resume(&mut self, resume: Option<LanePosition>) {
        self.resume = resume;
    }

    /// Remembers which ready lanes of a lease got no place, because their group or their trust had none left. `lanes`
    /// has the group, the trust and the number of places of each lane.
    pub(super) fn planned(&mut self, lanes: &[(GroupId, Trust, usize)], capacity: &Capacity) {
        for (group, trust, _) in lanes.iter().filter(|(_, _, places)| *places == 0) {
            if capacity.group_has_room(*group) {
                self.full_trusts.insert(*trust);
            } else {
                self.full_groups.insert(*group);
            }
        }
        let is_refused = |trust: &Trust| self.full_trusts.contains(trust);
        self.taken +=
            lanes.iter().filter(|(_, trust, _)| is_refused(trust)).map(|(_, _, places)| places).sum::<usize>();
    }

    pub(super) fn begin(&mut self, free_by_lane: &[(LaneId, usize)], full_groups: &[GroupId], now: Duration) {
        self.is_paused = false;
        if now >= self.due_at {
            self.due_at = Duration::MAX;
        }
        self.is_leasing = true;
        // A hint that arrives while the lease runs is kept: the lease may have searched before the task was committed.
        self.is_hinted = false;
        self.full_groups = full_groups.iter().copied().collect();
        self.full_trusts.clear();
        self.taken = 0;
        self.freed = 0;
        self.full = free_by_lane.iter().filter(|(_, capacity)| *capacity == 0).map(|(lane, _)| *lane).collect();
    }

    pub(super) fn failed(&mut self, now: Duration) {
        self.is_leasing = false;
        self.poll_at = now + self.poll_interval;
    }

    /// Applies the end of a lease with `count` tasks, which `capacity` already counts.
    pub(super) fn ended(&mut self, count: usize, next_ready: Option<Duration>, capacity: &Capacity, now: Duration) {
        self.is_leasing = false;
        self.has_backlog = count > 0 && next_ready == Some(Duration::ZERO);
        // The lease skipped lanes and groups that were full when it began. Those with capacity now may have due tasks.
        let missed = self.full.iter().any(|lane| capacity.capacity(*lane) > 0)
            || self.full_groups.iter().any(|group| capacity.group_has_room(*group));
        // Places that the lease itself took and did not use are no reason to search again: it would take them again.
        let is_freed = self.freed > self.taken.saturating_sub(count);
        let next_ready = next_ready.unwrap_or(Duration::MAX);
        let wait = match count {
            _ if self.is_hinted || is_freed || missed => Duration::ZERO,
            // Another node has locked the ready lanes, or their tasks are for other workers.
            0 => next_ready.max(EMPTY_PAUSE),
            _ if next_ready.is_zero() => Duration::ZERO,
            _ => next_ready.clamp(EMPTY_PAUSE, AGAIN_PAUSE),
        };
        self.poll_at = now + wait.min(self.poll_interval);
        self.due_from = now + DUE_PAUSE;
        let is_small = count < LEASE_TASKS_MAX / 2;
        let pause = TASK_PAUSE.saturating_mul(count as u32).min(BUSY_PAUSE_MAX);
        self.busy_until = now + if is_small { pause } else { Duration::ZERO };
    }

    /// Applies a freed place of a lane of this trust. `was_full` says whether the node was full before.
    pub(super) fn freed(&mut self, lane: GroupedLane, trust: Trust, was_full: bool, capacity: &Capacity) {
        let GroupedLane { group, lane } = lane;
        let group_is_wanted = || self.full_groups.contains(&group) && capacity.group_has_room(group);
        if self.has_backlog || was_full || self.full.contains(&lane) || group_is_wanted() {
            self.lease_soon(capacity);
        }
        self.freed_for(trust, capacity);
    }

    /// Applies a place that lanes of this trust may now take. A lease that runs may have refused such a lane before.
    pub(super) fn freed_for(&mut self, trust: Trust, capacity: &Capacity) {
        if self.full_trusts.contains(&trust) {
            self.freed += usize::from(self.is_leasing);
            self.lease_soon(capacity);
        }
    }

    fn lease_soon(&mut self, capacity: &Capacity) {
        if !self.is_leasing && !capacity.is_full() {
            self.poll_at = Duration::ZERO;
        }
    }
}
