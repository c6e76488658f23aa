//! The choice of runs that a schedule starts now.
//!
//! Pure. A store locks the schedule's row, calls `decide_fire`, inserts the runs of `fires` and writes the new state,
//! all in one transaction. Two replicas cannot fire one nominal time twice: the second finds that the state has moved
//! on. The same transaction reads whether the previous run is open. The work is bounded, however long the schedule went
//! unchecked.

use std::collections::VecDeque;

use crate::limits::{SCHEDULE_EVERY_MIN, SCHEDULE_RECHECK};
use crate::schedule::{Missed, Overlap, Schedule};
use crate::time::Timestamp;

/// The stored position of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// The next nominal time; `None` after the last one, and while the schedule is paused.
    pub next: Option<Timestamp>,
    /// Nominal time of the run that waits for the previous run to end.
    pub queued: Option<Timestamp>,
    /// When to check the schedule again; `Timestamp::NEVER` for never. Indexed by the stores.
    pub look_at: Timestamp,
}

/// Whether the last run is open, that is, a pending or leased job. Messages are never open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRun {
    /// No last run, or it has ended.
    Ended,
    Open,
}

/// Why a run was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// No node started it in time. One entry stands for all earlier missed runs.
    Missed,
    /// The previous run was open.
    Overlap,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// Nominal times of the runs to start, oldest first.
    pub fires: Vec<Timestamp>,
    /// Dropped runs, for the history.
    pub left_out: Vec<(Timestamp, LeftOut)>,
    pub state: ScheduleState,
}

impl ScheduleState {
    /// Returns the position of a schedule created, changed or resumed at `now`. Earlier runs are not caught up.
    pub fn begin(schedule: &Schedule, now: Timestamp) -> ScheduleState {
        ScheduleState::waiting(schedule, schedule.next_after(now), None, now)
    }

    /// Returns the position of a paused schedule.
    pub const fn paused() -> ScheduleState {
        ScheduleState { next: None, queued: None, look_at: Timestamp::NEVER }
    }

    fn waiting(
        schedule: &Schedule,
        next: Option<Timestamp>,
        queued: Option<Timestamp>,
        now: Timestamp,
    ) -> ScheduleState {
        let due_at = next.map_or(Timestamp::NEVER, |next| schedule.due_at(next));
        let recheck = queued.map_or(Timestamp::NEVER, |_| now.plus(SCHEDULE_RECHECK));
        ScheduleState { next, queued, look_at: due_at.min(recheck) }
    }
}

/// Decides which runs start at `now`.
pub fn decide_fire(schedule: &Schedule, state: &ScheduleState, now: Timestamp, last_run: LastRun) -> Firing {
    let due = Due::collect(schedule, state.next, now);
    let mut left_out = Vec::new();
    let candidates = due.choose(schedule, now, &mut left_out);
    let mut fires = Vec::new();
    let mut queued = state.queued;
    let mut last_run = last_run;
    if schedule.overlap == Overlap::Allow || last_run == LastRun::Ended {
        // The waiting run is older than every candidate, so it starts first.
        fires.extend(queued.take());
        last_run = if fires.is_empty() { last_run } else { LastRun::Open };
    }
    for nominal in candidates {
        match (schedule.overlap, last_run) {
            (Overlap::Allow, _) | (_, LastRun::Ended) => {
                fires.push(nominal);
                last_run = LastRun::Open;
            }
            (Overlap::QueueOne, LastRun::Open) if queued.is_none() => queued = Some(nominal),
            (Overlap::Skip | Overlap::QueueOne, LastRun::Open) => left_out.push((nominal, LeftOut::Overlap)),
        }
    }
    Firing { fires, left_out, state: ScheduleState::waiting(schedule, due.next, queued, now) }
}

/// Nominal times that have become due.
struct Due {
    /// The latest due times, oldest first: the current run, and as many missed runs as the policy may start.
    latest: VecDeque<Timestamp>,
    /// The latest of the earlier due times. It stands for all of them.
    older: Option<Timestamp>,
    /// The first nominal time that is not due yet.
    next: Option<Timestamp>,
}

impl Due {
    fn collect(schedule: &Schedule, first: Option<Timestamp>, now: Timestamp) -> Due {
        let mut due = Due { latest: VecDeque::new(), older: None, next: first };
        let wanted = match schedule.missed {
            Missed::Skip | Missed::RunOnce => 1,
            // The current run, and the missed runs before it.
            Missed::CatchUp(count) => usize::try_from(count).unwrap_or(usize::MAX).saturating_add(1),
        };
        let Some(first) = first else { return due };
        due.next = Some(leap(schedule, first, now, wanted + 1));
        // The loop is bounded: the leap leaves at most `wanted + 2` nominal times before now.
        while let Some(nominal) = due.next.filter(|nominal| schedule.due_at(*nominal) <= now) {
            due.latest.push_back(nominal);
            if due.latest.len() > wanted {
                due.older = due.latest.pop_front();
            }
            due.next = schedule.next_after(nominal);
        }
        due
    }

    /// Applies the policy for missed runs. Dropped runs are added to `left_out`.
    fn choose(&self, schedule: &Schedule, now: Timestamp, left_out: &mut Vec<(Timestamp, LeftOut)>) -> Vec<Timestamp> {
        let mut chosen: Vec<Timestamp> = self.latest.iter().copied().collect();
        let in_time = |nominal: &Timestamp| now.since(schedule.due_at(*nominal)) <= schedule.grace;
        let mut missed = self.older;
        let current_missed = chosen.last().is_some_and(|last| !in_time(last));
        match schedule.missed {
            Missed::Skip if current_missed => missed = chosen.pop(),
            Missed::Skip | Missed::RunOnce => {}
            // If even the latest run was missed, no run is on time, and the extra place stays unused.
            Missed::CatchUp(count) if current_missed && chosen.len() > usize::try_from(count).unwrap_or(usize::MAX) => {
                missed = Some(chosen.remove(0));
            }
            Missed::CatchUp(_) => {}
        }
        left_out.extend(missed.map(|nominal| (nominal, LeftOut::Missed)));
        chosen
    }
}

/// Returns a late nominal time with at least `count` nominal times between it and `now`, or `first` if there are fewer.
///
/// Binary search: a schedule that runs every second and went unchecked for a year has thirty million nominal times.
fn leap(schedule: &Schedule, first: Timestamp, now: Timestamp, count: usize) -> Timestamp {
    let enough = |from: Timestamp| {
        let last = std::iter::successors(Some(from), |at| schedule.next_after(*at)).nth(count);
        last.is_some_and(|last| last <= now)
    };
    if !enough(first) {
        return first;
    }
    // Invariant: at least `count` times follow `low`, and fewer follow `high`. Nominal times are at least one second
    // apart, so the search ends there.
    let (mut low, mut high) = (first, now);
    while high.since(low) > SCHEDULE_EVERY_MIN {
        let middle = low.plus(high.since(low) / 2);
        match schedule.next_after(middle) {
            Some(nominal) if enough(nominal) => low = nominal,
            _ => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests;
