//! The circuit breaker of an endpoint: when it opens, how it probes, and when it closes.
//!
//! Pure. Each node counts the attempts of the lanes that it sends to ([`Windows`]). The state itself ([`Breaker`]) is
//! stored with the lane, so that all nodes see it. A change names the state that it was decided from, and is written
//! only if the lane is still in it. Called by `engine::run::delivery`, and by the leases of the stores.

use std::collections::HashMap;
use std::time::Duration;

use crate::failing;
use crate::id::{EnvironmentId, LaneId};
use crate::outcome::Class;
use crate::policy::BreakerSettings;

/// A success while this many deliveries may run at the same time closes the breaker.
const RAMP_MAX: u8 = 32;
/// Openings that lengthen the open time. Further ones do not.
const TRIPS_MAX: u8 = 16;
/// The most lanes in memory. A full memory is cleared, which only delays an opening.
const LANES_MAX: usize = 50_000;

/// The state of a lane's breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breaker {
    /// How often it has opened. Deliveries that were leased before an opening say nothing about the time after it.
    openings: u16,
    /// Openings since it was closed.
    trips: u8,
    /// Deliveries that may run at the same time: one for a probe, then more; 0 while closed.
    at_once: u8,
}

/// A breaker as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerPhase {
    Closed,
    /// One delivery at a time tests the receiver, as soon as the open time has passed.
    Probing,
    /// Probes succeed, and more and more deliveries run at the same time.
    Recovering,
}

/// The meaning of an attempt for the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerSign {
    /// The receiver works, even if it refused this message.
    Works,
    Fails,
    /// The attempt says nothing about the receiver, or the receiver only asked for a delay.
    Unknown,
}

/// The change of a breaker by the end of an attempt. It is written only if the lane's breaker is still `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerChange {
    pub from: Breaker,
    pub to: Breaker,
    /// The time for which the lane holds; none unless the breaker opens.
    pub open_for: Option<Duration>,
}

/// The kind of a change, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerStep {
    Opened,
    /// A probe failed.
    Reopened,
    /// More or fewer deliveries run at the same time.
    Moved,
    Closed,
}

impl BreakerSign {
    /// Returns the meaning of an attempt that ended in `class` with this status.
    pub const fn of(class: Class, status: u16) -> BreakerSign {
        match class {
            Class::Success => BreakerSign::Works,
            Class::Status | Class::Throttled => match status {
                408 | 425 | 429 => BreakerSign::Unknown,
                500.. => BreakerSign::Fails,
                _ => BreakerSign::Works,
            },
            Class::Gone => BreakerSign::Unknown,
            _ if failing::counts(class) => BreakerSign::Fails,
            _ => BreakerSign::Unknown,
        }
    }
}

impl Breaker {
    pub const fn is_closed(self) -> bool {
        self.at_once == 0
    }

    pub const fn phase(self) -> BreakerPhase {
        match self.at_once {
            0 => BreakerPhase::Closed,
            1 => BreakerPhase::Probing,
            2.. => BreakerPhase::Recovering,
        }
    }

    /// Deliveries that may run at the same time; none for any number.
    pub fn at_once(self) -> Option<u32> {
        (!self.is_closed()).then(|| self.at_once.into())
    }

    /// Returns the stored number, which is positive unless the breaker is closed.
    pub fn to_db(self) -> i64 {
        if self.is_closed() {
            return -i64::from(self.openings);
        }
        i64::from(self.openings) << 16 | i64::from(self.trips) << 8 | i64::from(self.at_once)
    }

    /// Decodes a stored number; none if it is invalid.
    pub fn from_db(number: i64) -> Option<Breaker> {
        if number <= 0 {
            let openings = u16::try_from(number.checked_neg()?).ok()?;
            return Some(Breaker { openings, ..Breaker::default() });
        }
        let [at_once, trips, first, second, rest @ ..] = number.to_le_bytes();
        let is_known = at_once > 0 && rest.iter().all(|byte| *byte == 0);
        is_known.then_some(Breaker { openings: u16::from_le_bytes([first, second]), trips, at_once })
    }

    /// Decides the change after an attempt that was leased in this state, which is not closed. A success doubles the
    /// deliveries that run at the same time, and a failure halves them. A failed probe opens the breaker again.
    pub fn after(self, sign: BreakerSign, settings: &BreakerSettings) -> Option<BreakerChange> {
        let change = |to| Some(BreakerChange { from: self, to, open_for: None });
        match sign {
            BreakerSign::Unknown => None,
            BreakerSign::Works if self.at_once >= RAMP_MAX => change(Breaker { trips: 0, at_once: 0, ..self }),
            BreakerSign::Works => change(Breaker { at_once: self.at_once * 2, ..self }),
            BreakerSign::Fails if self.at_once > 1 => change(Breaker { at_once: self.at_once / 2, ..self }),
            BreakerSign::Fails => Some(self.open(settings)),
        }
    }

    /// Opens the breaker, for a longer time with each trip.
    pub fn open(self, settings: &BreakerSettings) -> BreakerChange {
        let trips = self.trips.saturating_add(1).min(TRIPS_MAX);
        let to = Breaker { openings: self.openings.wrapping_add(1), trips, at_once: 1 };
        let seconds = settings.open_seconds.saturating_mul(1 << (trips - 1)).min(settings.max_open_seconds);
        BreakerChange { from: self, to, open_for: Some(Duration::from_secs(seconds)) }
    }
}

impl BreakerChange {
    pub const fn step(&self) -> BreakerStep {
        match (self.open_for, self.from.is_closed(), self.to.is_closed()) {
            (Some(_), true, _) => BreakerStep::Opened,
            (Some(_), false, _) => BreakerStep::Reopened,
            (None, _, true) => BreakerStep::Closed,
            (None, _, false) => BreakerStep::Moved,
        }
    }
}

/// The last state of each breaker that this node has seen change, for metrics. Attempts leased under the same state
/// request the same change, and it must be counted once.
#[derive(Debug, Default)]
pub struct SeenChanges(HashMap<(EnvironmentId, LaneId), Breaker>);

impl SeenChanges {
    /// Returns whether this is the first change from its state.
    pub fn is_first(&mut self, lane: (EnvironmentId, LaneId), change: &BreakerChange) -> bool {
        if self.0.len() >= LANES_MAX {
            self.0.clear();
        }
        self.0.insert(lane, change.from) != Some(change.from)
    }
}

/// The attempts of lanes with a closed breaker, as one node has seen them.
#[derive(Debug, Default)]
pub struct Windows(HashMap<(EnvironmentId, LaneId), Window>);

/// Attempts in the current span and in the one before. The window covers the current span, and as much of the one
/// before as it needs.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    openings: u16,
    /// The number of the current span.
    span: u128,
    now: Counts,
    before: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    attempts: u128,
    failures: u128,
}

impl Windows {
    /// Counts the end of an attempt that was leased under `breaker`. Returns the change of the breaker, if any.
    pub fn ended(
        &mut self,
        lane: (EnvironmentId, LaneId),
        breaker: Breaker,
        sign: BreakerSign,
        settings: &BreakerSettings,
        now: Duration,
    ) -> Option<BreakerChange> {
        if !breaker.is_closed() {
            self.0.remove(&lane);
            return breaker.after(sign, settings);
        }
        if sign == BreakerSign::Unknown {
            return None;
        }
        if self.0.len() >= LANES_MAX {
            self.0.clear();
        }
        let window = self.0.entry(lane).or_default();
        if window.openings != breaker.openings {
            *window = Window { openings: breaker.openings, ..Window::default() };
        }
        window.add(sign == BreakerSign::Fails, settings, now);
        let tips = sign == BreakerSign::Fails && window.tips(settings, now);
        tips.then(|| {
            self.0.remove(&lane);
            breaker.open(settings)
        })
    }
}

impl Window {
    fn add(&mut self, is_failure: bool, settings: &BreakerSettings, now: Duration) {
        let span = now.as_millis() / millis(settings);
        if span != self.span {
            self.before = if span == self.span + 1 { self.now } else { Counts::default() };
            (self.span, self.now) = (span, Counts::default());
        }
        self.now.attempts += 1;
        self.now.failures += u128::from(is_failure);
    }

    /// Whether enough attempts of the window failed. Attempts of the span before count by the part of it that is still
    /// inside the window.
    fn tips(&self, settings: &BreakerSettings, now: Duration) -> bool {
        let whole = millis(settings);
        let inside = whole - now.as_millis() % whole;
        let weighed = |now: u128, before: u128| now * whole + before * inside;
        let attempts = weighed(self.now.attempts, self.before.attempts);
        let failures = weighed(self.now.failures, self.before.failures);
        attempts >= u128::from(settings.min_attempts) * whole
            && failures * 100 >= attempts * u128::from(settings.failure_percent)
    }
}

fn millis(settings: &BreakerSettings) -> u128 {
    settings.window().as_millis().max(1)
}

#[cfg(test)]
mod tests;
