//! The dispatch machine: how many tasks may run, and when to lease more.
//!
//! Sans I/O: `handle` takes events, `poll_command` says what to do, `next_wakeup` says when to call again. It counts
//! slots, for the whole node and per lane, for tasks that were leased and for those that were inserted already leased. Where tasks
//! are short it leases ahead: as many as end in a moment, so that the next ones are there when they are wanted. Time
//! is a monotonic span since the node started. It never talks to a store and never runs a task: `engine::dispatcher` and
//! the simulator do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::id::LaneId;
use crate::limits::LEASE_TASKS_MAX;

/// How soon to look again after a look that brought nothing, whatever is said to be ready.
const EMPTY_PAUSE: Duration = Duration::from_millis(5);
/// How soon to look for what becomes due after a lease: what is due together comes together, and nobody needs a retry to the millisecond.
const DUE_PAUSE: Duration = Duration::from_millis(10);
/// How soon to look again after a lease, for each task it brought: many at once cost less than one by one.
const TASK_PAUSE: Duration = Duration::from_micros(50);
/// At most that long.
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(5);
/// How soon to look again after a lease that brought all there was, at the latest.
const AGAIN_PAUSE: Duration = Duration::from_millis(20);
/// Tasks that are leased ahead are those that would end within this.
const AHEAD: Duration = Duration::from_millis(100);

/// How much a node does at once, and how often it looks for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchConfig {
    /// Tasks that may run at once on this node.
    pub slots: usize,
    /// Tasks of one lane that may run at once on this node.
    pub slots_per_lane: usize,
    /// How long to wait before looking again when nothing was due and no hint came.
    pub poll_interval: Duration,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passed.
    Tick,
    /// There may be new work. A hint: losing one costs latency only.
    Hint,
    /// There will be work after this span. A hint, too.
    DueIn(Duration),
    /// A lease came back.
    Leased {
        /// How many tasks it brought.
        count: usize,
        /// When the next lane becomes ready, if the store knows of one.
        next_ready: Option<Duration>,
    },
    /// A lease could not be made.
    LeaseFailed,
    /// Take nothing any more.
    Drain,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Lease up to `limit` tasks.
    Lease {
        /// How many slots are free.
        limit: usize,
        /// What lanes with running tasks have room for; lanes that are not listed have room for `per_lane`.
        rooms: Vec<(LaneId, usize)>,
        /// Room of a lane that runs nothing here.
        per_lane: usize,
    },
}

/// The machine's state.
#[derive(Clone, Debug)]
pub struct Dispatch {
    config: DispatchConfig,
    /// Lanes with slots of their own.
    own: BTreeMap<LaneId, usize>,
    /// Tasks that may be leased beyond the slots.
    ahead_max: usize,
    /// How many of them one lease may bring.
    ahead_step: usize,
    /// How fast tasks end, where they may be leased ahead.
    paces: BTreeMap<LaneId, Pace>,
    /// How many tasks are leased beyond the slots now.
    ahead: usize,
    running: BTreeMap<LaneId, usize>,
    total: usize,
    leasing: bool,
    draining: bool,
    /// The last lease left something, so there is more as soon as there is room.
    backlog: bool,
    /// Lanes that were full when the last lease was asked for: there may be more of them as soon as one has room.
    full: BTreeSet<LaneId>,
    /// A hint came while a lease was under way.
    hinted: bool,
    /// The earliest work that is known to come.
    due_at: Duration,
    poll_at: Duration,
    /// No lease before this.
    busy_until: Duration,
    /// No lease for what becomes due before this.
    due_from: Duration,
}

impl Dispatch {
    /// A machine that runs nothing and looks for work at once.
    pub fn new(config: DispatchConfig) -> Dispatch {
        assert!(config.slots > 0 && config.slots_per_lane > 0, "a node without slots does nothing for ever");
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
        }
    }

    /// The same machine, which leases up to so many tasks beyond its slots, if they end fast enough.
    #[must_use]
    pub fn leasing_ahead(self, tasks: usize) -> Dispatch {
        Dispatch { ahead_max: tasks, ..self }
    }

    /// The same machine, which leases so many of them at a time. New tasks, which are leased already, may take all places.
    #[must_use]
    pub fn in_steps(self, tasks: usize) -> Dispatch {
        Dispatch { ahead_step: tasks, ..self }
    }

    /// The same machine, with another number of slots for one lane.
    #[must_use]
    pub fn with_slots(mut self, lane: LaneId, slots: usize) -> Dispatch {
        assert!(slots > 0, "a lane without slots does nothing for ever");
        self.own.insert(lane, slots);
        self
    }

    /// Takes a slot for one task of `lane`, or a place ahead, if the node and the lane have room and the node is not stopping.
    pub fn reserve(&mut self, lane: LaneId) -> bool {
        let free = self.config.slots + self.ahead > self.total;
        let room = self.slots_of(lane) + self.ahead_of(lane) > self.running_of(lane);
        if self.draining || !free || !room {
            return false;
        }
        self.occupy(lane);
        true
    }

    /// Counts a task that a lease brought; the lease was asked for with this room in mind.
    pub fn occupy(&mut self, lane: LaneId) {
        self.total += 1;
        *self.running.entry(lane).or_insert(0) += 1;
    }

    /// Frees a slot. Says whether it is worth looking for work now.
    pub fn release(&mut self, lane: LaneId) -> bool {
        let running = self.running.get_mut(&lane).expect("only what was reserved is released");
        *running -= 1;
        if *running == 0 {
            self.running.remove(&lane);
        }
        let was_full = self.is_full() || self.full.contains(&lane);
        self.total -= 1;
        let worth_it = (self.backlog || was_full) && !self.leasing && !self.draining && !self.is_full();
        if worth_it {
            self.poll_at = Duration::ZERO;
        }
        worth_it
    }

    /// Counts a task that was run to its end, for leasing ahead.
    pub fn ended(&mut self, lane: LaneId) {
        if self.ahead_max > 0 {
            self.paces.entry(lane).or_default().ended += 1;
        }
    }

    /// Applies what happened; the only place where the machine changes besides its slots.
    pub fn handle(&mut self, event: Event, now: Duration) {
        match event {
            Event::Tick => {}
            Event::Hint => {
                self.hinted = true;
                self.poll_at = Duration::ZERO;
            }
            Event::DueIn(span) => self.due_at = self.due_at.min(now.saturating_add(span)),
            Event::Drain => self.draining = true,
            Event::LeaseFailed => {
                self.leasing = false;
                self.poll_at = now + self.config.poll_interval;
            }
            Event::Leased { count, next_ready } => {
                self.leasing = false;
                self.backlog = count > 0 && next_ready == Some(Duration::ZERO);
                // A full lane was not looked at; one that has room again may have had it only after the look.
                let missed = self.full.iter().any(|lane| self.has_room(*lane));
                let next_ready = next_ready.unwrap_or(Duration::MAX);
                let wait = match count {
                    _ if self.hinted || missed => Duration::ZERO,
                    // What is said to be ready and could not be had is someone else's for the moment, or for another worker.
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

    /// The next thing to do, if any.
    pub fn poll_command(&mut self, now: Duration) -> Option<Command> {
        if now < self.next_wakeup() {
            return None;
        }
        self.look_ahead(now);
        if now >= self.due_at {
            self.due_at = Duration::MAX;
        }
        self.leasing = true;
        // A hint that arrives while the lease runs is kept: the lease may have looked before the work was there.
        self.hinted = false;
        let rooms = self.running.keys().chain(self.own.keys()).map(|lane| (*lane, self.room(*lane)));
        let rooms = rooms.collect::<BTreeMap<_, _>>().into_iter().collect::<Vec<_>>();
        self.full = rooms.iter().filter(|(_, room)| *room == 0).map(|(lane, _)| *lane).collect();
        Some(Command::Lease { limit: self.free().min(self.lease_max()), rooms, per_lane: self.config.slots_per_lane })
    }

    /// Leases ahead what ended within a moment, lane by lane: a lane of long tasks takes none from others, however short those of its
    /// neighbour are.
    fn look_ahead(&mut self, now: Duration) {
        self.paces.retain(|_, pace| {
            pace.turn(now);
            pace.ahead() > 0
        });
        self.ahead = self.paces.values().map(Pace::ahead).sum::<usize>().min(self.ahead_max);
    }

    /// How many tasks of a lane a lease may bring.
    fn room(&self, lane: LaneId) -> usize {
        self.left(self.slots_of(lane), self.ahead_of(lane), self.running_of(lane))
    }

    /// What slots have room for, or what places ahead have, in steps.
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

    /// Whether there is too little room to ask for more. Where tasks are leased ahead, it is not filled one by one.
    fn is_full(&self) -> bool {
        self.free() < (self.ahead.min(self.ahead_step) / 2).clamp(1, self.lease_max())
    }

    /// How many tasks are asked for at most. Where they are leased ahead, one half comes while the other is run.
    fn lease_max(&self) -> usize {
        LEASE_TASKS_MAX.max(self.ahead_max / 2)
    }

    /// When to call again with a tick.
    pub fn next_wakeup(&self) -> Duration {
        if self.leasing || self.draining || self.is_full() {
            return Duration::MAX;
        }
        self.poll_at.min(self.due_at.max(self.due_from)).max(self.busy_until)
    }

    /// Whether there is room for so many tasks more, or for all that there ever is.
    pub fn has_room_for(&self, tasks: usize) -> bool {
        self.total + tasks.min(self.config.slots) <= self.config.slots + self.ahead
    }

    /// Whether the node is stopping.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// How many tasks run now.
    pub fn running(&self) -> usize {
        self.total
    }
}

/// How many tasks of a lane end in a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    since: Duration,
    ended: usize,
    before: usize,
}

impl Pace {
    fn turn(&mut self, now: Duration) {
        let span = now.saturating_sub(self.since);
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
mod tests {
    use super::*;
    use crate::id::Id;

    const LANE: LaneId = LaneId(Id::MIN);
    const OTHER: LaneId = LaneId(Id::MAX);
    const SECOND: Duration = Duration::from_secs(1);

    fn dispatch() -> Dispatch {
        Dispatch::new(DispatchConfig { slots: 3, slots_per_lane: 2, poll_interval: SECOND })
    }

    fn lease(limit: usize, rooms: &[(LaneId, usize)]) -> Option<Command> {
        Some(Command::Lease { limit, rooms: rooms.to_vec(), per_lane: 2 })
    }

    #[test]
    fn a_fresh_node_looks_for_work_once_and_then_waits() {
        let mut dispatch = dispatch();
        assert_eq!(dispatch.poll_command(Duration::ZERO), lease(3, &[]));
        assert_eq!(dispatch.poll_command(Duration::ZERO), None);
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        assert_eq!(dispatch.poll_command(Duration::ZERO), None);
        assert_eq!(dispatch.next_wakeup(), SECOND);
        assert_eq!(dispatch.poll_command(SECOND), lease(3, &[]));
    }

    #[test]
    fn it_wakes_when_the_next_lane_is_ready() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.handle(Event::Leased { count: 0, next_ready: Some(Duration::from_millis(40)) }, Duration::ZERO);
        assert_eq!(dispatch.next_wakeup(), Duration::from_millis(40));
    }

    #[test]
    fn a_look_that_brings_nothing_is_not_repeated_at_once() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.handle(Event::Leased { count: 0, next_ready: Some(Duration::ZERO) }, Duration::ZERO);
        assert_eq!(dispatch.poll_command(Duration::ZERO), None);
        assert_eq!(dispatch.poll_command(EMPTY_PAUSE), lease(3, &[]));
    }

    #[test]
    fn neither_the_node_nor_a_lane_runs_more_than_its_slots() {
        let mut dispatch = dispatch();
        assert!(dispatch.reserve(LANE) && dispatch.reserve(LANE));
        assert!(!dispatch.reserve(LANE), "the lane is full");
        assert_eq!(dispatch.poll_command(Duration::ZERO), lease(1, &[(LANE, 0)]));
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        assert!(dispatch.reserve(OTHER));
        assert!(!dispatch.reserve(OTHER), "the node is full");
        dispatch.handle(Event::Hint, Duration::ZERO);
        assert_eq!(dispatch.poll_command(SECOND), None);
    }

    #[test]
    fn room_in_a_backlog_is_filled_at_once() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.occupy(LANE);
        dispatch.occupy(LANE);
        dispatch.handle(Event::Leased { count: 2, next_ready: Some(Duration::ZERO) }, Duration::ZERO);
        assert!(dispatch.release(LANE));
        assert_eq!(dispatch.poll_command(2 * TASK_PAUSE), lease(2, &[(LANE, 1)]));
    }

    #[test]
    fn room_is_not_filled_where_nothing_waits() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.occupy(LANE);
        dispatch.handle(Event::Leased { count: 1, next_ready: Some(SECOND / 2) }, Duration::ZERO);
        assert!(!dispatch.release(LANE));
        assert_eq!(dispatch.next_wakeup(), AGAIN_PAUSE);
    }

    #[test]
    fn a_lease_that_brought_many_is_followed_by_a_pause() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.handle(Event::Hint, Duration::ZERO);
        dispatch.handle(Event::Leased { count: 10, next_ready: Some(Duration::ZERO) }, Duration::ZERO);
        assert_eq!(dispatch.next_wakeup(), 10 * TASK_PAUSE);
        assert_eq!(dispatch.poll_command(9 * TASK_PAUSE), None);
        assert!(dispatch.poll_command(10 * TASK_PAUSE).is_some());
        dispatch.handle(Event::Leased { count: LEASE_TASKS_MAX / 2 - 1, next_ready: Some(Duration::ZERO) }, SECOND);
        assert_eq!(dispatch.next_wakeup(), SECOND + BUSY_PAUSE_MAX);
        dispatch.poll_command(SECOND * 2);
        dispatch.handle(Event::Leased { count: LEASE_TASKS_MAX / 2, next_ready: Some(Duration::ZERO) }, SECOND * 2);
        assert_eq!(dispatch.next_wakeup(), SECOND * 2, "there is nothing to gain");
    }

    #[test]
    fn what_becomes_due_one_by_one_is_leased_together() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        dispatch.handle(Event::DueIn(DUE_PAUSE / 10), Duration::ZERO);
        dispatch.handle(Event::DueIn(DUE_PAUSE / 2), Duration::ZERO);
        assert_eq!(dispatch.next_wakeup(), DUE_PAUSE);
    }

    #[test]
    fn a_full_lane_is_looked_at_as_soon_as_it_has_room() {
        let mut dispatch = dispatch();
        assert!(dispatch.reserve(LANE) && dispatch.reserve(LANE));
        assert_eq!(dispatch.poll_command(Duration::ZERO), lease(1, &[(LANE, 0)]));
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        assert_eq!(dispatch.poll_command(Duration::ZERO), None);
        assert!(dispatch.release(LANE), "its backlog was not looked at");
        assert_eq!(dispatch.poll_command(Duration::ZERO), lease(2, &[(LANE, 1)]));
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        assert!(!dispatch.release(LANE), "it has no backlog");
    }

    #[test]
    fn a_full_lane_that_gets_room_during_a_lease_is_looked_at_again() {
        let mut dispatch = dispatch();
        assert!(dispatch.reserve(LANE) && dispatch.reserve(LANE));
        dispatch.poll_command(Duration::ZERO);
        dispatch.release(LANE);
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        assert!(dispatch.poll_command(Duration::ZERO).is_some());
    }

    #[test]
    fn a_full_node_looks_for_work_as_soon_as_it_has_room() {
        let mut dispatch = dispatch();
        assert!(dispatch.reserve(LANE) && dispatch.reserve(LANE) && dispatch.reserve(OTHER));
        dispatch.handle(Event::Hint, Duration::ZERO);
        assert_eq!(dispatch.poll_command(Duration::ZERO), None);
        assert!(dispatch.release(OTHER));
        assert!(dispatch.poll_command(Duration::ZERO).is_some());
    }

    #[test]
    fn a_hint_during_a_lease_is_not_lost() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.handle(Event::Hint, Duration::ZERO);
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        assert_eq!(dispatch.poll_command(Duration::ZERO), lease(3, &[]));
    }

    #[test]
    fn a_retry_is_looked_for_when_it_is_due() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.handle(Event::DueIn(SECOND / 4), Duration::ZERO);
        dispatch.handle(Event::DueIn(SECOND / 2), Duration::ZERO);
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, Duration::ZERO);
        assert_eq!(dispatch.next_wakeup(), SECOND / 4);
        assert!(dispatch.poll_command(SECOND / 4).is_some());
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, SECOND / 4);
        assert_eq!(dispatch.next_wakeup(), SECOND / 4 + SECOND, "the store knows of the other one");
    }

    #[test]
    fn a_failed_lease_backs_off() {
        let mut dispatch = dispatch();
        dispatch.poll_command(Duration::ZERO);
        dispatch.handle(Event::LeaseFailed, Duration::ZERO);
        assert_eq!(dispatch.poll_command(SECOND / 2), None);
        assert!(dispatch.poll_command(SECOND).is_some());
    }

    #[test]
    fn a_stopping_node_takes_nothing() {
        let mut dispatch = dispatch();
        dispatch.handle(Event::Drain, Duration::ZERO);
        assert!(!dispatch.reserve(LANE));
        assert_eq!(dispatch.poll_command(SECOND), None);
    }

    #[test]
    fn short_tasks_are_leased_ahead_and_in_batches() {
        let mut dispatch = dispatch().leasing_ahead(8);
        assert_eq!(dispatch.poll_command(Duration::ZERO), lease(3, &[]));
        for _ in 0..4 {
            dispatch.occupy(LANE);
            dispatch.ended(LANE);
            dispatch.release(LANE);
        }
        dispatch.handle(Event::Leased { count: 4, next_ready: Some(Duration::ZERO) }, Duration::ZERO);
        assert_eq!(dispatch.poll_command(4 * TASK_PAUSE), lease(7, &[]), "3 slots and 4 ahead");
        for _ in 0..6 {
            dispatch.occupy(LANE);
        }
        dispatch.handle(Event::Leased { count: 6, next_ready: Some(Duration::ZERO) }, Duration::ZERO);
        assert_eq!(dispatch.poll_command(6 * TASK_PAUSE), None, "room for one is not worth it");
        assert!(dispatch.release(LANE));
        assert_eq!(dispatch.poll_command(6 * TASK_PAUSE), lease(2, &[(LANE, 1)]));
    }

    #[test]
    fn new_tasks_of_a_fast_lane_find_places_ahead() {
        let mut dispatch = dispatch().leasing_ahead(1);
        assert!(dispatch.reserve(LANE) && dispatch.reserve(LANE) && !dispatch.reserve(LANE), "two slots");
        for _ in 0..2 {
            dispatch.ended(LANE);
            dispatch.release(LANE);
        }
        dispatch.poll_command(SECOND / 100);
        assert!(dispatch.reserve(LANE) && dispatch.reserve(LANE), "two slots");
        assert!(dispatch.reserve(LANE), "a place ahead");
        assert!(!dispatch.reserve(LANE), "there is but one");
        assert!(dispatch.reserve(OTHER), "it takes no slot from others");
        assert!(!dispatch.reserve(OTHER), "the node is full");
    }

    #[test]
    fn leases_take_places_ahead_in_steps() {
        let mut dispatch = dispatch().leasing_ahead(100).in_steps(4);
        (0..100).for_each(|_| dispatch.ended(LANE));
        assert_eq!(dispatch.poll_command(SECOND / 100), lease(4, &[]), "not 103 at once");
        assert!(dispatch.reserve(LANE) && dispatch.reserve(LANE));
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, SECOND / 100);
        assert_eq!(dispatch.poll_command(SECOND * 2), lease(4, &[(LANE, 4)]));
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, SECOND * 2);
        assert_eq!(dispatch.poll_command(SECOND * 4), lease(1, &[(LANE, 0)]), "it has become slow");
    }

    #[test]
    fn long_tasks_are_not_leased_ahead() {
        let mut dispatch = dispatch().leasing_ahead(8);
        dispatch.ended(LANE);
        dispatch.poll_command(SECOND * 60);
        dispatch.handle(Event::Leased { count: 0, next_ready: None }, SECOND * 60);
        assert_eq!(dispatch.poll_command(SECOND * 61), lease(3, &[]));
    }

    #[test]
    fn a_lane_may_have_slots_of_its_own() {
        let mut dispatch = dispatch().with_slots(LANE, 1);
        assert_eq!(dispatch.poll_command(Duration::ZERO), lease(3, &[(LANE, 1)]));
        dispatch.occupy(LANE);
        dispatch.handle(Event::Leased { count: 1, next_ready: Some(Duration::ZERO) }, Duration::ZERO);
        assert_eq!(dispatch.poll_command(TASK_PAUSE), lease(2, &[(LANE, 0)]));
    }
}
