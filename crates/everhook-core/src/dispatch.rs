//! The dispatch machine: which leased tasks run, which wait, and when to lease more.
//!
//! Sans I/O: `handle` takes events, `poll` and `poll_lease` return commands, and `next_wakeup` returns the time of the
//! next call. A node has two instances: one for deliveries and one for jobs. Only this machine counts capacity, and
//! only here do leased tasks wait. If the tasks of a lane are short, the machine leases some of them ahead, so that a
//! free slot finds a task without a call to the store. Time is a monotonic span since the node started. The machine
//! neither calls a store nor runs a task: `engine::dispatcher` does, also in the simulator.

use std::collections::VecDeque;
use std::time::Duration;

use crate::dispatch::capacity::{Capacity, Learned};
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
    /// The longest time between two leases if no task was due and no hint arrived.
    pub poll_interval: Duration,
}

/// A leased task in the machine. `T` contains all data that the runner needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket<T> {
    /// The environment whose share the task counts against.
    pub environment: EnvironmentId,
    /// The lane whose capacity the task uses.
    pub lane: LaneId,
    pub order: StartOrder,
    pub task: T,
}

/// The rule for starting a task that could get a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOrder {
    /// After all tasks of its lane that were leased earlier have begun (`Event::Begun`).
    AsLeased,
    /// At once.
    Free,
}

/// A report to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// New tasks may exist. A lost hint costs only latency.
    Hint,
    /// A task becomes due after this span. This is also a hint.
    DueIn(Duration),
    /// A lease has succeeded.
    Leased {
        /// The leased tasks.
        tickets: Vec<Ticket<T>>,
        /// The time until the next lane becomes ready, if the store knows one.
        next_ready: Option<Duration>,
        /// The position at which the next lease continues; none if this lease considered all ready lanes.
        resume: Option<LanePosition>,
    },
    /// A lease has failed, possibly after it leased some tasks.
    LeaseFailed {
        /// The leased tasks.
        tickets: Vec<Ticket<T>>,
    },
    /// The lease skipped lanes whose environment has used its share. Their tasks can be leased as soon as a place is
    /// free.
    HeldBack,
    /// A task was committed. [`Dispatch::reserve`] has already taken its place.
    Committed(Ticket<T>),
    /// A started task of [`StartOrder::AsLeased`] has begun, so the next task of its lane may start.
    Begun(LaneId),
    /// The receiver of a lane asks for a delay. Waiting tasks of this lane are handed back.
    Rest(LaneId),
    /// A started task has ended. It keeps its place until it is settled ([`Dispatch::release`]).
    Ended(LaneId),
    /// A task could not begin, because the node has no files, ports or memory left.
    Exhausted,
    /// The node stops. It leases no more tasks, and waiting tasks are handed back.
    Drain,
}

/// An instruction for a leased task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<T> {
    /// Run the task, and report its end.
    Start(Ticket<T>),
    /// Return the task to the store; it did not run.
    HandBack(Ticket<T>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseCommand {
    /// The most tasks to lease.
    pub limit: usize,
    /// The most tasks of single lanes: those with leased tasks, or with their own number of slots.
    pub free_by_lane: Vec<(LaneId, usize)>,
    /// The most tasks of every other lane.
    pub per_lane: usize,
    /// Lane groups that have used their share. The lease skips their lanes.
    pub full_groups: Vec<GroupId>,
    /// The position after which the lease starts to search.
    pub after: Option<LanePosition>,
}

#[derive(Clone, Debug)]
pub struct Dispatch<T> {
    config: DispatchConfig,
    capacity: Capacity,
    lease: LeaseTimer,
    waiting: Waiting<T>,
    turns: Turns,
    /// Commands that `poll` has not returned yet.
    commands: VecDeque<Command<T>>,
    is_draining: bool,
}

impl<T> Dispatch<T> {
    /// Returns a machine without tasks, which leases at once.
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

    /// Lets the machine lease up to `tasks` tasks beyond its slots, if tasks end fast enough.
    #[must_use]
    pub fn leasing_ahead(mut self, tasks: usize) -> Dispatch<T> {
        self.capacity.lease_ahead(tasks);
        self
    }

    /// Limits a single lease to `tasks` tasks beyond the slots. Committed tasks may still take all places.
    #[must_use]
    pub fn in_steps(mut self, tasks: usize) -> Dispatch<T> {
        self.capacity.lease_in_steps(tasks);
        self
    }

    /// Sets another number of slots for one lane.
    #[must_use]
    pub fn with_slots(mut self, lane: LaneId, slots: usize) -> Dispatch<T> {
        self.capacity.set_slots(lane, slots);
        self
    }

    /// Lets environments share the slots. Such a machine takes only leased tasks, because an append does not name the
    /// environment of its reservation.
    #[must_use]
    pub fn with_shares(mut self) -> Dispatch<T> {
        self.capacity.share();
        self
    }

    /// Lets lane groups share the places, and gives lanes windows. [`Dispatch::plan_lease`] then takes the places of
    /// leased tasks.
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

    /// Takes places for the tasks of a lease in progress: at most `most`, from ready lanes in the order of their turns.
    /// Returns the places of each lane.
    pub fn plan_lease(&mut self, lanes: &[GroupedLane], most: usize) -> Vec<usize> {
        let rooms = self.capacity.pick(lanes, most);
        if rooms.iter().sum::<usize>() < most {
            let planned = lanes.iter().zip(&rooms);
            let planned = planned.map(|(lane, room)| (lane.group, self.capacity.trust(lane.lane), *room));
            self.lease.planned(&planned.collect::<Vec<_>>(), &self.capacity);
        }
        rooms
    }

    /// Frees the place of a task that was settled, or was not committed.
    pub fn release(&mut self, lane: LaneId) {
        let was_full = self.capacity.is_full();
        let (group, trust) = self.capacity.free_place(lane);
        self.lease.freed(GroupedLane { group, lane }, trust, was_full, &self.capacity);
    }

    /// Updates the health of a lane before the end of an attempt is handled. If the lane must rest, returns the time,
    /// and the waiting tasks of the lane are handed back.
    pub fn learn(&mut self, lane: LaneId, sign: Sign, now: Duration) -> Option<Duration> {
        let Learned { rest, left } = self.capacity.learn(lane, sign, now);
        if let Some(trust) = left {
            self.lease.freed_for(trust, &self.capacity);
        }
        if rest.is_some() {
            self.hand_back(lane);
        }
        rest
    }

    /// Applies an event. Call `poll` afterwards for the resulting commands.
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

    /// Returns the next task to start or to hand back, if any.
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

    /// Returns the time at which to poll again if no event arrives earlier.
    pub fn next_wakeup(&self) -> Duration {
        let late_at = self.waiting.oldest().map_or(Duration::MAX, |(late_at, _)| late_at);
        self.lease_at().min(late_at)
    }

    /// Whether `tasks` more tasks find places. More tasks than slots need only as many places as there are slots.
    pub fn has_places_for(&self, tasks: usize) -> bool {
        self.capacity.has_places_for(tasks)
    }

    /// Whether the node pauses because it lacks a resource, such as open files.
    pub fn is_paused(&self) -> bool {
        self.lease.is_paused()
    }

    /// Returns the number of tasks with a place: running, waiting or not yet settled.
    pub fn leased(&self) -> usize {
        self.capacity.leased()
    }

    fn lease_at(&self) -> Duration {
        if self.is_draining { Duration::MAX } else { self.lease.at(&self.capacity) }
    }

    /// Takes over leased tasks. A fair machine has taken their places already, in `plan_lease`.
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

    /// Updates whether a lane could start its next waiting task now.
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
