//! The dispatch machine: how many tasks may run, and when to lease more.
//!
//! Sans I/O: `handle` takes events, `poll_command` returns the next command, `next_wakeup` the time of the next call.
//! The machine counts the slots of the node and of each lane, for leased tasks and for tasks that were inserted already
//! leased. Where tasks are short, it leases ahead: as many tasks as end within `AHEAD`, so that free slots find work at
//! once.
//!
//! Time is a monotonic duration since the node started. The machine never talks to a store and never runs a task:
//! `engine::dispatcher` and the simulator do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::id::LaneId;
use crate::limits::LEASE_TASKS_MAX;

/// Pause after an empty lease, even if the store reports ready lanes.
const EMPTY_PAUSE: Duration = Duration::from_millis(5);
/// Pause of a node that has run out of files, ports or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a lease before the next one for tasks that become due. It batches retries that become due together; a
/// retry need not be exact to the millisecond.
const DUE_PAUSE: Duration = Duration::from_millis(10);
/// Pause after a lease, per leased task. Fewer, larger leases cost less than many small ones.
const TASK_PAUSE: Duration = Duration::from_micros(50);
/// Upper bound of the pause that `TASK_PAUSE` adds up to.
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(5);
/// Longest pause after a lease that returned every ready task.
const AGAIN_PAUSE: Duration = Duration::from_millis(20);
/// The machine leases ahead the tasks that end within this time.
const AHEAD: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchConfig {
    /// Limit of running tasks on this node.
    pub slots: usize,
    /// Limit of running tasks of one lane on this node.
    pub slots_per_lane: usize,
    /// Pause between leases if no task is due and no hint arrives.
    pub poll_interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Tick,
    /// New work may exist. A lost hint costs latency only.
    Hint,
    /// Work becomes due after this time. Also a hint.
    DueIn(Duration),
    Leased {
        count: usize,
        /// Time until the next lane is ready, if the store knows one.
        next_ready: Option<Duration>,
    },
    /// The lease skipped lanes because other environments are entitled to the free slots. The next released slot may
    /// serve the skipped lanes.
    HeldBack,
    /// A task could not start because the node has run out of files, ports or memory.
    Exhausted,
    LeaseFailed,
    /// The node stops: no further lease.
    Drain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Lease {
        limit: usize,
        /// Free capacity of lanes with running tasks. A lane that is not listed has `per_lane`.
        rooms: Vec<(LaneId, usize)>,
        /// Capacity of a lane without running tasks on this node.
        per_lane: usize,
    },
}

#[derive(Clone, Debug)]
pub struct Dispatch {
    config: DispatchConfig,
    /// Lanes whose number of slots differs from `slots_per_lane`.
    own: BTreeMap<LaneId, usize>,
    /// Upper bound of leased-ahead tasks.
    ahead_max: usize,
    /// Leased-ahead tasks that one lease may add.
    ahead_step: usize,
    /// Recent throughput by lane, kept only if the machine leases ahead.
    paces: BTreeMap<LaneId, Pace>,
    /// Leased-ahead tasks that the recent throughput allows now.
    ahead: usize,
    running: BTreeMap<LaneId, usize>,
    total: usize,
    leasing: bool,
    draining: bool,
    /// The last lease left ready tasks behind: lease again as soon as a slot is free.
    backlog: bool,
    /// Lanes without capacity when the last lease was requested. The lease skipped them, so a freed slot is a reason to
    /// lease.
    full: BTreeSet<LaneId>,
    /// A hint arrived while a lease was running.
    hinted: bool,
    /// Time of the earliest task that is known to become due.
    due_at: Duration,
    poll_at: Duration,
    /// No lease before this time.
    busy_until: Duration,
    /// No lease for tasks that become due before this time.
    due_from: Duration,
    /// No task starts before `paused_until`.
    paused: bool,
    paused_until: Duration,
}

impl Dispatch {
    /// Returns an idle machine that leases at once.
    pub fn new(config: DispatchConfig) -> Dispatch {
        assert!(config.slots > 0 && config.slots_per_lane > 0, "slots and slots_per_lane must be positive");
        Dispatch {
            config,
            own: BTreeMap::new(),
            ahead_max: 0,
            ahead_step: usize::MAX,
            paces: BTreeMap::new(),
            ahead: 0,
            running: BTreeMap::new(),
            total: 0,
            leasing: false,
            draining: false,
            backlog: false,
            full: BTreeSet::new(),
            hinted: false,
            due_at: Duration::MAX,
            poll_at: Duration::ZERO,
            busy_until: Duration::ZERO,
            due_from: Duration::ZERO,
            paused: false,
            paused_until: Duration::ZERO,
        }
    }

    /// Lets the machine lease up to `tasks` tasks beyond its slots, if tasks end fast enough.
    #[must_use]
    pub fn leasing_ahead(self, tasks: usize) -> Dispatch {
        Dispatch { ahead_max: tasks, ..self }
    }

    /// Bounds the leased-ahead tasks of one lease. Newly inserted tasks, which arrive leased, may use all places.
    #[must_use]
    pub fn in_steps(self, tasks: usize) -> Dispatch {
        Dispatch { ahead_step: tasks, ..self }
    }

    /// Overrides the number of slots of one lane.
    #[must_use]
    pub fn with_slots(mut self, lane: LaneId, slots: usize) -> Dispatch {
        assert!(slots > 0, "a lane needs at least one slot");
        self.own.insert(lane, slots);
        self
    }

    /// Reserves a slot, or a place ahead, for one task of `lane`. Fails if node or lane is full, and while the node
    /// drains or pauses.
    pub fn reserve(&mut self, lane: LaneId) -> bool {
        let free = self.config.slots + self.ahead > self.total;
        let room = self.slots_of(lane) + self.ahead_of(lane) > self.running_of(lane);
        if self.draining || self.paused || !free || !room {
            return false;
        }
        self.occupy(lane);
        true
    }

    /// Counts a leased task. The lease request already respected the capacity.
    pub fn occupy(&mut self, lane: LaneId) {
        self.total += 1;
        *self.running.entry(lane).or_insert(0) += 1;
    }

    /// Frees a slot. Returns whether a lease makes sense now.
    pub fn release(&mut self, lane: LaneId) -> bool {
        let running = self.running.get_mut(&lane).expect("a slot is reserved before it is released");
        *running -= 1;
        if *running == 0 {
            self.running.remove(&lane);
        }
        // `full` matters beside the node's own capacity: the last lease skipped a full lane, and no hint will come for
        // its tasks.
        let was_full = self.is_full() || self.full.contains(&lane);
        self.total -= 1;
        let worth_it = (self.backlog || was_full) && !self.leasing && !self.draining && !self.is_full();
        if worth_it {
            self.poll_at = Duration::ZERO;
        }
        worth_it
    }

    /// Counts a finished task towards the lane's throughput.
    pub fn ended(&mut self, lane: LaneId) {
        if self.ahead_max > 0 {
            self.paces.entry(lane).or_default().ended += 1;
        }
    }

    /// Applies an event. Besides the slot counts, nothing else changes the machine.
    pub fn handle(&mut self, event: Event, now: Duration) {
        match event {
            Event::Tick => {}
            Event::Hint => {
                self.hinted = true;
                self.poll_at = Duration::ZERO;
            }
            Event::DueIn(span) => self.due_at = self.due_at.min(now.saturating_add(span)),
            Event::HeldBack => self.backlog = true,
            Event::Exhausted => {
                self.paused = true;
                self.paused_until = now + EXHAUSTED_PAUSE;
                self.poll_at = self.poll_at.min(self.paused_until);
            }
            Event::Drain => self.draining = true,
            Event::LeaseFailed => {
                self.leasing = false;
                self.poll_at = now + self.config.poll_interval;
            }
            Event::Leased { count, next_ready } => {
                self.leasing = false;
                self.backlog = count > 0 && next_ready == Some(Duration::ZERO);
                // The lease skipped full lanes. A lane with capacity now may have gained it after the lease had looked.
                let missed = self.full.iter().any(|lane| self.has_room(*lane));
                let next_ready = next_ready.unwrap_or(Duration::MAX);
                let wait = match count {
                    _ if self.hinted || missed => Duration::ZERO,
                    // Ready tasks that the lease did not get are locked by another node, or need another worker. An
                    // immediate retry would spin.
                    0 => next_ready.max(EMPTY_PAUSE),
                    _ if next_ready.is_zero() => Duration::ZERO,
                    _ => next_ready.clamp(EMPTY_PAUSE, AGAIN_PAUSE),
                };
                self.poll_at = now + wait.min(self.config.poll_interval);
                self.due_from = now + DUE_PAUSE;
                let is_small = count < LEASE_TASKS_MAX / 2;
                let pause = TASK_PAUSE.saturating_mul(count as u32).min(BUSY_PAUSE_MAX);
                self.busy_until = now + if is_small { pause } else { Duration::ZERO };
            }
        }
    }

    /// Returns the next command, if one is due.
    pub fn poll_command(&mut self, now: Duration) -> Option<Command> {
        if now < self.next_wakeup() {
            return None;
        }
        self.paused = false;
        self.look_ahead(now);
        if now >= self.due_at {
            self.due_at = Duration::MAX;
        }
        self.leasing = true;
        // A hint that arrives during the lease stays set: the lease may have looked before the task was committed.
        self.hinted = false;
        let rooms = self.running.keys().chain(self.own.keys()).map(|lane| (*lane, self.room(*lane)));
        let rooms = rooms.collect::<BTreeMap<_, _>>().into_iter().collect::<Vec<_>>();
        self.full = rooms.iter().filter(|(_, room)| *room == 0).map(|(lane, _)| *lane).collect();
        Some(Command::Lease { limit: self.free().min(self.lease_max()), rooms, per_lane: self.config.slots_per_lane })
    }

    /// Updates the places ahead, lane by lane: a lane of long tasks gets none, however short the tasks of other lanes
    /// are.
    fn look_ahead(&mut self, now: Duration) {
        self.paces.retain(|_, pace| {
            pace.turn(now);
            pace.ahead() > 0
        });
        self.ahead = self.paces.values().map(Pace::ahead).sum::<usize>().min(self.ahead_max);
    }

    /// Tasks of `lane` that a lease may return.
    fn room(&self, lane: LaneId) -> usize {
        self.left(self.slots_of(lane), self.ahead_of(lane), self.running_of(lane))
    }

    /// Free slots, or free places ahead up to one step, whichever is larger.
    fn left(&self, slots: usize, ahead: usize, running: usize) -> usize {
        slots.saturating_sub(running).max((slots + ahead).saturating_sub(running).min(self.ahead_step))
    }

    fn slots_of(&self, lane: LaneId) -> usize {
        self.own.get(&lane).copied().unwrap_or(self.config.slots_per_lane)
    }

    fn ahead_of(&self, lane: LaneId) -> usize {
        self.paces.get(&lane).map_or(0, Pace::ahead).min(self.ahead_max)
    }

    fn running_of(&self, lane: LaneId) -> usize {
        self.running.get(&lane).copied().unwrap_or(0)
    }

    fn has_room(&self, lane: LaneId) -> bool {
        self.room(lane) > 0
    }

    fn free(&self) -> usize {
        self.left(self.config.slots, self.ahead, self.total)
    }

    /// Whether the free capacity is too small for a lease. With leasing ahead, at least half a step must be free: one
    /// lease per finished task would cost more than the task.
    fn is_full(&self) -> bool {
        self.free() < (self.ahead.min(self.ahead_step) / 2).clamp(1, self.lease_max())
    }

    /// Largest lease. With leasing ahead, half of the places: one half is leased while the other runs.
    fn lease_max(&self) -> usize {
        LEASE_TASKS_MAX.max(self.ahead_max / 2)
    }

    /// Time of the next `poll_command` call; `Duration::MAX` if only an event can change anything.
    pub fn next_wakeup(&self) -> Duration {
        if self.leasing || self.draining || self.is_full() {
            return Duration::MAX;
        }
        self.poll_at.min(self.due_at.max(self.due_from)).max(self.busy_until).max(self.paused_until)
    }

    /// Whether `tasks` more tasks fit. More tasks than slots count as all slots.
    pub fn has_room_for(&self, tasks: usize) -> bool {
        self.total + tasks.min(self.config.slots) <= self.config.slots + self.ahead
    }

    /// Tasks that the node may hold at once: slots and places ahead.
    pub fn places(&self) -> usize {
        self.config.slots + self.ahead
    }

    pub fn running_in(&self, lane: LaneId) -> usize {
        self.running_of(lane)
    }

    /// Whether the node is short of resources and starts no tasks for now.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Tasks that the node holds now.
    pub fn running(&self) -> usize {
        self.total
    }
}

/// Finished tasks of a lane in the current and the previous window of `AHEAD`.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    since: Duration,
    ended: usize,
    before: usize,
}

impl Pace {
    fn turn(&mut self, now: Duration) {
        let span = now.saturating_sub(self.since);
        // A lane may be polled long after its window ended; the count is scaled down to one window.
        if span >= AHEAD {
            let share = AHEAD.as_secs_f64() / span.as_secs_f64();
            *self = Pace { since: now, ended: 0, before: (self.ended as f64 * share) as usize };
        }
    }

    fn ahead(&self) -> usize {
        self.before.max(self.ended)
    }
}

#[cfg(test)]
mod tests;
