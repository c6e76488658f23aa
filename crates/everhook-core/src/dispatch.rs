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
/// How long nothing begins on a node that has no files, ports or memory left.
const EXHAUSTED_PAUSE: Duration = Duration::from_secs(1);
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
    /// The lease left some lanes alone, because others have a claim to what is free: there may be more of them as soon as a slot is given
    /// back.
    HeldBack,
    /// A task could not begin, because the node has no files, ports or memory left.
    Exhausted,
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
    /// Nothing begins before `paused_until`.
    paused: bool,
    paused_until: Duration,
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
            paused: false,
            paused_until: Duration::ZERO,
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
        if self.draining || self.paused || !free || !room {
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
        self.paused = false;
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
        self.poll_at.min(self.due_at.max(self.due_from)).max(self.busy_until).max(self.paused_until)
    }

    /// Whether there is room for so many tasks more, or for all that there ever is.
    pub fn has_room_for(&self, tasks: usize) -> bool {
        self.total + tasks.min(self.config.slots) <= self.config.slots + self.ahead
    }

    /// How many tasks may be leased at once now: as many as there are slots, and those ahead.
    pub fn places(&self) -> usize {
        self.config.slots + self.ahead
    }

    /// How many tasks of a lane run now.
    pub fn running_in(&self, lane: LaneId) -> usize {
        self.running_of(lane)
    }

    /// Whether nothing begins for a moment.
    pub fn is_paused(&self) -> bool {
        self.paused
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
mod tests;
