//! Which runs of a schedule are to be started now.
//!
//! Pure. A store reads the schedule's row under its lock, asks `decide_fire`, inserts what is in `fires` and writes the new state, all in one
//! transaction: two replicas never fire one nominal time twice, because the second finds the state moved on. Whether the run
//! before is still open is read in the same transaction. Looks at a bounded number of times, however long nobody looked.

use std::collections::VecDeque;

use crate::limits::{SCHEDULE_EVERY_MIN, SCHEDULE_RECHECK};
use crate::schedule::{Missed, Overlap, Schedule};
use crate::time::Timestamp;

/// Where a schedule stands; what a store keeps of it besides the schedule itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// The next nominal time; none if there is no more, or while it is paused.
    pub next: Option<Timestamp>,
    /// A run that waits for the end of the one before, by its nominal time.
    pub queued: Option<Timestamp>,
    /// When to look again; `Timestamp::NEVER` for not at all. The index is on this.
    pub look_at: Timestamp,
}

/// Whether the schedule's last run is still open: a job that is pending or leased. Messages are never open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRun {
    /// There is none, or it has ended.
    Ended,
    /// It waits or runs.
    Open,
}

/// Why a run was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Nobody started it in time. Stands for all before it, too.
    Missed,
    /// The run before was still open.
    Overlap,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// Runs to start, by their nominal times, oldest first.
    pub fires: Vec<Timestamp>,
    /// Runs that are left out, for the history.
    pub left_out: Vec<(Timestamp, LeftOut)>,
    /// What to keep.
    pub state: ScheduleState,
}

impl ScheduleState {
    /// A schedule that was created, changed or resumed at `now`: the next time is computed anew, and nothing is made up for.
    pub fn begin(schedule: &Schedule, now: Timestamp) -> ScheduleState {
        ScheduleState::waiting(schedule, schedule.next_after(now), None, now)
    }

    /// A schedule that was paused: it does nothing until it begins again.
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
        // What waited goes before what is due now.
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

/// What has become due.
struct Due {
    /// The latest nominal times that are due, oldest first: as many as the policy may want, and one.
    latest: VecDeque<Timestamp>,
    /// The latest of those before; it stands for all of them.
    older: Option<Timestamp>,
    /// The first nominal time that is not due yet.
    next: Option<Timestamp>,
}

impl Due {
    fn collect(schedule: &Schedule, first: Option<Timestamp>, now: Timestamp) -> Due {
        let mut due = Due { latest: VecDeque::new(), older: None, next: first };
        let wanted = match schedule.missed {
            Missed::Skip | Missed::RunOnce => 1,
            // What is due now, and the missed ones before it.
            Missed::CatchUp(count) => usize::try_from(count).unwrap_or(usize::MAX).saturating_add(1),
        };
        let Some(first) = first else { return due };
        due.next = Some(leap(schedule, first, now, wanted + 1));
        // Ends: the leap has left `wanted + 2` times before now at most.
        while let Some(nominal) = due.next.filter(|nominal| schedule.due_at(*nominal) <= now) {
            due.latest.push_back(nominal);
            if due.latest.len() > wanted {
                due.older = due.latest.pop_front();
            }
            due.next = schedule.next_after(nominal);
        }
        due
    }

    /// Which of them start by the policy for missed runs; the others are noted as left out.
    fn choose(&self, schedule: &Schedule, now: Timestamp, left_out: &mut Vec<(Timestamp, LeftOut)>) -> Vec<Timestamp> {
        let mut chosen: Vec<Timestamp> = self.latest.iter().copied().collect();
        let in_time = |nominal: &Timestamp| now.since(schedule.due_at(*nominal)) <= schedule.grace;
        let mut missed = self.older;
        let current_missed = chosen.last().is_some_and(|last| !in_time(last));
        match schedule.missed {
            Missed::Skip if current_missed => missed = chosen.pop(),
            Missed::Skip | Missed::RunOnce => {}
            // The place of a run in time is not for a missed one.
            Missed::CatchUp(count) if current_missed && chosen.len() > usize::try_from(count).unwrap_or(usize::MAX) => {
                missed = Some(chosen.remove(0));
            }
            Missed::CatchUp(_) => {}
        }
        left_out.extend(missed.map(|nominal| (nominal, LeftOut::Missed)));
        chosen
    }
}

/// A nominal time from which at least `count` nominal times lie before `now`, as late as possible; `first` if there are not as many.
///
/// Found by halving, because a schedule that runs every second and was not looked at for a year has thirty million of them.
fn leap(schedule: &Schedule, first: Timestamp, now: Timestamp, count: usize) -> Timestamp {
    let enough = |from: Timestamp| {
        let last = std::iter::successors(Some(from), |at| schedule.next_after(*at)).nth(count);
        last.is_some_and(|last| last <= now)
    };
    if !enough(first) {
        return first;
    }
    // From `low` on there are always enough, after `high` never. Nominal times are a second apart at least.
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
