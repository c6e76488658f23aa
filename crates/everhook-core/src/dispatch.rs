//! The dispatch machine: which leased tasks run, which wait, and when to lease more.
//!
//! Sans I/O: `handle` takes events, `poll` and `poll_lease` say what to do, `next_wakeup` says when to call again. One
//! type, two instances on a node: deliveries and jobs. The machine is the only counter of capacity and the only line that
//! leased tasks wait in. Where tasks are short it leases ahead: as many as end in a moment, so that the next ones are at
//! hand when a slot is free. Time is a monotonic span since the node started. The machine never talks to a store and
//! never runs a task: `engine::dispatcher` does, also in the simulator.

use std::collections::VecDeque;
use std::time::Duration;

use crate::dispatch::capacity::Capacity;
use crate::dispatch::health::Sign;
use crate::dispatch::lease::LeaseTimer;
use crate::dispatch::pick::Turns;
use crate::dispatch::waiting::Waiting;
use crate::fair::{GroupId, GroupedLane};
use crate::id::{EnvironmentId, LaneId};
use crate::lane::LanePosition;
use crate::share::Tenants;

mod capacity;
pub mod health;
mod lease;
mod pick;
mod waiting;

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

/// A leased task in the machine, with whatever `T` it takes to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket<T> {
    /// The environment whose share it counts against.
    pub environment: EnvironmentId,
    /// The lane whose capacity it takes.
    pub lane: LaneId,
    /// When it may start.
    pub order: StartOrder,
    /// The task.
    pub task: T,
}

/// When a task starts that could have a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOrder {
    /// Behind the tasks of its lane that leases brought before it: when those have begun (`Event::Begun`).
    AsLeased,
    /// At once.
    Free,
}

/// A report to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// There may be new work. A hint: losing one costs latency only.
    Hint,
    /// There will be work after this span. A hint, too.
    DueIn(Duration),
    /// A lease came back.
    Leased {
        /// The tasks that it brought.
        tickets: Vec<Ticket<T>>,
        /// When the next lane becomes ready, if the store knows of one.
        next_ready: Option<Duration>,
        /// Where the next lease goes on; none if this one looked at all ready lanes.
        resume: Option<LanePosition>,
    },
    /// A lease failed, perhaps after it had brought some tasks.
    LeaseFailed {
        /// The tasks that it brought.
        tickets: Vec<Ticket<T>>,
    },
    /// The lease passed over lanes whose environment is at its share: there may be more of them as soon as a place is
    /// free.
    HeldBack,
    /// A task was committed that has its place already, from [`Dispatch::reserve`].
    Committed(Ticket<T>),
    /// A started task of [`StartOrder::AsLeased`] has begun: the next one of its lane may start.
    Begun(LaneId),
    /// The target of a lane wants no more for now: waiting tasks of this lane are handed back.
    Rest(LaneId),
    /// A started task ended. It keeps its place until that is settled ([`Dispatch::release`]).
    Ended(LaneId),
    /// A task could not begin, because the node has no files, ports or memory left.
    Exhausted,
    /// The node stops: nothing is leased any more, and waiting tasks are handed back.
    Drain,
}

/// An instruction for a leased task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<T> {
    /// Run it, and report its end.
    Start(Ticket<T>),
    /// Hand it back to the store; it did not run.
    HandBack(Ticket<T>),
}

/// An instruction to lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseCommand {
    /// Tasks at most.
    pub limit: usize,
    /// Tasks at most of lanes with leased tasks or slots of their own.
    pub free_by_lane: Vec<(LaneId, usize)>,
    /// Tasks at most of every other lane.
    pub per_lane: usize,
    /// Groups at their share.
    pub full_groups: Vec<GroupId>,
    /// Where to begin to look.
    pub after: Option<LanePosition>,
}

/// The machine's state.
#[derive(Clone, Debug)]
pub struct Dispatch<T> {
    config: DispatchConfig,
    capacity: Capacity,
    lease: LeaseTimer,
    waiting: Waiting<T>,
    turns: Turns,
    /// Decided and not polled.
    commands: VecDeque<Command<T>>,
    is_draining: bool,
}

impl<T> Dispatch<T> {
    /// A machine that runs nothing and looks for work at once.
    pub fn new(config: DispatchConfig) -> Dispatch<T> {
        Dispatch {
            config,
            capacity: Capacity::new(config),
            lease: LeaseTimer::new(config.poll_interval),
            waiting: Waiting::new(),
            turns: Turns::new(),
            commands: VecDeque::new(),
            is_draining: false,
        }
    }

    /// The same machine, which leases up to so many tasks beyond its slots, if they end fast enough.
    #[must_use]
    pub fn leasing_ahead(mut self, tasks: usize) -> Dispatch<T> {
        self.capacity.lease_ahead(tasks);
        self
    }

    /// The same machine, which leases so many of them at a time. Committed tasks may take all places.
    #[must_use]
    pub fn in_steps(mut self, tasks: usize) -> Dispatch<T> {
        self.capacity.lease_in_steps(tasks);
        self
    }

    /// The same machine, with another number of slots for one lane.
    #[must_use]
    pub fn with_slots(mut self, lane: LaneId, slots: usize) -> Dispatch<T> {
        self.capacity.set_slots(lane, slots);
        self
    }

    /// The same machine, whose environments share its slots. Such a machine takes leased tasks only: an append does not
    /// say for which environment it reserves.
    #[must_use]
    pub fn with_shares(mut self) -> Dispatch<T> {
        self.capacity.share();
        self
    }

    /// The same machine, whose lane groups share its places, and whose lanes have windows. Places for leased tasks are
    /// taken by [`Dispatch::plan_lease`].
    #[must_use]
    pub fn with_fairness(mut self) -> Dispatch<T> {
        self.capacity.be_fair();
        self
    }

    /// Replaces the environments that share the slots by those of `lanes`. Returns how they share the places for leased
    /// tasks now.
    pub fn share_between(&mut self, lanes: impl Iterator<Item = (EnvironmentId, LaneId)>) -> Tenants {
        self.capacity.share_between(lanes)
    }

    /// Takes a place for a task of `lane` that is not committed yet, if the node, the group and the lane have one.
    pub fn reserve(&mut self, lane: GroupedLane) -> bool {
        !self.is_draining && !self.lease.is_paused() && self.capacity.reserve(lane)
    }

    /// Takes places for tasks that a lease is about to bring: `most` in all, from ready lanes in the order of their turns.
    /// Returns the places of each lane.
    pub fn plan_lease(&mut self, lanes: &[GroupedLane], most: usize) -> Vec<usize> {
        let rooms = self.capacity.pick(lanes, most);
        if rooms.iter().sum::<usize>() < most {
            for (lane, _) in lanes.iter().zip(&rooms).filter(|(_, room)| **room == 0) {
                self.lease.refused(lane.group, &self.capacity);
            }
        }
        rooms
    }

    /// Frees the place of a task: it is settled, or was not committed.
    pub fn release(&mut self, lane: LaneId) {
        let was_full = self.capacity.is_full();
        let group = self.capacity.grouped(lane).group;
        self.capacity.free_place(lane);
        self.lease.freed(lane, group, was_full, &self.capacity);
    }

    /// Learns from an attempt before its end is handled. Returns how long the lane has to rest, if it has to: its waiting
    /// tasks are handed back.
    pub fn learn(&mut self, lane: LaneId, sign: Sign, now: Duration) -> Option<Duration> {
        let rest = self.capacity.learn(lane, sign, now);
        if rest.is_some() {
            self.hand_back(lane);
        }
        rest
    }

    /// Applies what happened. Commands may follow from it.
    pub fn handle(&mut self, event: Event<T>, now: Duration) {
        match event {
            Event::Hint => self.lease.hint(),
            Event::DueIn(span) => self.lease.due_at(now.saturating_add(span)),
            Event::HeldBack => self.lease.held_back(),
            Event::Exhausted => self.lease.exhausted(now),
            Event::Leased { tickets, next_ready, resume } => {
                let count = tickets.len();
                self.take(tickets, now);
                self.lease.set_resume(resume);
                self.lease.ended(count, next_ready, &self.capacity, now);
            }
            Event::LeaseFailed { tickets } => {
                self.take(tickets, now);
                self.lease.failed(now);
            }
            Event::Committed(ticket) => self.enter(ticket, now),
            Event::Begun(lane) => {
                self.capacity.set_starting(lane, false);
                self.update(lane);
            }
            Event::Rest(lane) => self.hand_back(lane),
            Event::Ended(lane) => {
                self.capacity.free_slot(lane);
                self.update(lane);
            }
            Event::Drain => {
                self.is_draining = true;
                while let Some((_, lane)) = self.waiting.oldest() {
                    self.hand_back(lane);
                }
            }
        }
    }

    /// The next task to start or to hand back, if any.
    pub fn poll(&mut self, now: Duration) -> Option<Command<T>> {
        if let Some(command) = self.commands.pop_front() {
            return Some(command);
        }
        if self.waiting.is_empty() {
            return None;
        }
        if self.capacity.node_has_slot()
            && let Some(lane) =
                self.turns.next(|group| self.capacity.places_of(group), |lane| self.capacity.environment_has_slot(lane))
        {
            let ticket = self.waiting.pop(lane).expect("a lane that is ready has a ticket");
            self.start(&ticket);
            self.update(lane);
            return Some(Command::Start(ticket));
        }
        let (_, lane) = self.waiting.oldest().filter(|(late_at, _)| *late_at <= now)?;
        let ticket = self.waiting.pop(lane)?;
        self.update(lane);
        Some(Command::HandBack(ticket))
    }

    /// Returns the lease to make now, if any.
    pub fn poll_lease(&mut self, now: Duration) -> Option<LeaseCommand> {
        if now < self.lease_at() {
            return None;
        }
        self.capacity.look_ahead(now);
        let (free_by_lane, full_groups) = (self.capacity.free_by_lane(), self.capacity.full_groups());
        self.lease.begin(&free_by_lane, &full_groups, now);
        let limit = self.capacity.free().min(self.capacity.lease_max());
        let (per_lane, after) = (self.config.slots_per_lane, self.lease.resume());
        Some(LeaseCommand { limit, free_by_lane, per_lane, full_groups, after })
    }

    /// When to poll again, if nothing happens until then.
    pub fn next_wakeup(&self) -> Duration {
        let late_at = self.waiting.oldest().map_or(Duration::MAX, |(late_at, _)| late_at);
        self.lease_at().min(late_at)
    }

    /// Whether there are places for so many tasks more, or for as many as there are slots.
    pub fn has_places_for(&self, tasks: usize) -> bool {
        self.capacity.has_places_for(tasks)
    }

    /// Whether nothing begins for a moment.
    pub fn is_paused(&self) -> bool {
        self.lease.is_paused()
    }

    /// How many tasks have a place: those that run, wait, or are not settled.
    pub fn leased(&self) -> usize {
        self.capacity.leased()
    }

    fn lease_at(&self) -> Duration {
        if self.is_draining { Duration::MAX } else { self.lease.at(&self.capacity) }
    }

    /// Takes over the tasks that a lease brought; it was asked for with their places in mind.
    fn take(&mut self, tickets: Vec<Ticket<T>>, now: Duration) {
        for ticket in tickets {
            if !self.capacity.is_fair() {
                self.capacity.take_place(ticket.lane, Some(ticket.environment));
            }
            if self.is_draining {
                self.commands.push_back(Command::HandBack(ticket));
            } else {
                self.enter(ticket, now);
            }
        }
    }

    /// Starts a task, or lets it wait.
    fn enter(&mut self, ticket: Ticket<T>, now: Duration) {
        let lane = ticket.lane;
        let is_behind = ticket.order == StartOrder::AsLeased
            && (self.capacity.is_starting(lane) || self.waiting.first(lane).is_some());
        let capacity = &self.capacity;
        let has_slot = capacity.node_has_slot() && capacity.lane_has_slot(lane) && capacity.environment_has_slot(lane);
        if has_slot && !is_behind {
            self.start(&ticket);
            self.update(lane);
            self.commands.push_back(Command::Start(ticket));
        } else if self.is_draining {
            self.commands.push_back(Command::HandBack(ticket));
        } else {
            self.waiting.push(ticket, now);
            self.update(lane);
        }
    }

    fn start(&mut self, ticket: &Ticket<T>) {
        self.capacity.take_slot(ticket.lane);
        self.turns.pass(self.capacity.grouped(ticket.lane));
        if ticket.order == StartOrder::AsLeased {
            self.capacity.set_starting(ticket.lane, true);
        }
    }

    /// Hands back all waiting tasks of a lane.
    fn hand_back(&mut self, lane: LaneId) {
        while let Some(ticket) = self.waiting.pop(lane) {
            self.turns.set_ready(self.capacity.grouped(lane), false);
            self.commands.push_back(Command::HandBack(ticket));
        }
    }

    /// Notes whether a lane could start its next waiting task now.
    fn update(&mut self, lane: LaneId) {
        if self.waiting.is_empty() {
            return self.turns.set_ready(self.capacity.grouped(lane), false);
        }
        let next = self.waiting.first(lane).map(|next| next.order);
        let is_behind = next == Some(StartOrder::AsLeased) && self.capacity.is_starting(lane);
        let is_ready = next.is_some() && !is_behind && self.capacity.lane_has_slot(lane);
        self.turns.set_ready(self.capacity.grouped(lane), is_ready);
    }
}

#[cfg(test)]
mod tests;
