use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::id::{Id, ScheduleId};
use crate::schedule::Cadence;

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}Z").parse().unwrap()
}

fn hourly(missed: Missed, overlap: Overlap) -> Schedule {
    let cadence = Cadence::Cron { cron: "@hourly".parse().unwrap(), zone: "UTC".parse().unwrap() };
    Schedule { missed, overlap, ..Schedule::new(ScheduleId(Id::from_bytes([7; 20])), cadence) }
}

/// Format: "05:00 06:00 | missed 04:00 | next 07:00 [| queued 06:00]".
fn text(firing: &Firing) -> String {
    let hour = |at: &Timestamp| at.to_string()[11..16].to_owned();
    let mut parts = vec![firing.fires.iter().map(hour).collect::<Vec<_>>().join(" ")];
    for (nominal, why) in &firing.left_out {
        parts.push(format!("{} {}", if *why == LeftOut::Missed { "missed" } else { "overlap" }, hour(nominal)));
    }
    parts.push(firing.state.next.as_ref().map_or("ended".to_owned(), |next| format!("next {}", hour(next))));
    parts.extend(firing.state.queued.iter().map(|queued| format!("queued {}", hour(queued))));
    parts.join(" | ")
}

/// Fires a schedule whose position is 01:00.
#[track_caller]
fn check(schedule: &Schedule, now: &str, last_run: LastRun, want: &str) {
    let state = ScheduleState::begin(schedule, at("00:30:00"));
    assert_eq!(text(&decide_fire(schedule, &state, at(now), last_run)), want);
}

#[test]
fn a_run_fires_when_it_is_due_and_not_before() {
    let schedule = hourly(Missed::Skip, Overlap::Allow);
    check(&schedule, "00:59:59", LastRun::Ended, " | next 01:00");
    check(&schedule, "01:00:00", LastRun::Ended, "01:00 | next 02:00");
    check(&schedule, "01:00:30", LastRun::Ended, "01:00 | next 02:00");
}

#[test]
fn missed_runs_are_skipped() {
    let schedule = hourly(Missed::Skip, Overlap::Allow);
    check(&schedule, "01:00:31", LastRun::Ended, " | missed 01:00 | next 02:00");
    check(&schedule, "04:30:00", LastRun::Ended, " | missed 04:00 | next 05:00");
    check(&schedule, "04:00:05", LastRun::Ended, "04:00 | missed 03:00 | next 05:00");
}

#[test]
fn missed_runs_are_made_up_for_by_one() {
    let schedule = hourly(Missed::RunOnce, Overlap::Allow);
    check(&schedule, "01:20:00", LastRun::Ended, "01:00 | next 02:00");
    check(&schedule, "04:30:00", LastRun::Ended, "04:00 | missed 03:00 | next 05:00");
    check(&schedule, "04:00:05", LastRun::Ended, "04:00 | missed 03:00 | next 05:00");
}

#[test]
fn the_latest_missed_runs_are_caught_up() {
    let schedule = hourly(Missed::CatchUp(2), Overlap::Allow);
    check(&schedule, "02:30:00", LastRun::Ended, "01:00 02:00 | next 03:00");
    check(&schedule, "05:30:00", LastRun::Ended, "04:00 05:00 | missed 03:00 | next 06:00");
    check(&schedule, "05:00:05", LastRun::Ended, "03:00 04:00 05:00 | missed 02:00 | next 06:00");
}

#[test]
fn a_run_is_left_out_while_the_one_before_is_open() {
    let schedule = hourly(Missed::CatchUp(5), Overlap::Skip);
    check(&schedule, "01:00:00", LastRun::Open, " | overlap 01:00 | next 02:00");
    check(&schedule, "01:00:00", LastRun::Ended, "01:00 | next 02:00");
    check(&schedule, "02:30:00", LastRun::Ended, "01:00 | overlap 02:00 | next 03:00");
}

#[test]
fn one_run_waits_for_the_end_of_the_one_before() {
    let schedule = hourly(Missed::Skip, Overlap::QueueOne);
    check(&schedule, "01:00:00", LastRun::Open, " | next 02:00 | queued 01:00");
    let state =
        decide_fire(&schedule, &ScheduleState::begin(&schedule, at("00:30:00")), at("01:00:00"), LastRun::Open).state;
    assert_eq!(state.look_at, at("01:00:01"));
    // A queued run is never missed, however long it waits.
    let open = decide_fire(&schedule, &state, at("02:00:00"), LastRun::Open);
    assert_eq!(text(&open), " | overlap 02:00 | next 03:00 | queued 01:00");
    let ended = decide_fire(&schedule, &open.state, at("02:20:00"), LastRun::Ended);
    assert_eq!(text(&ended), "01:00 | next 03:00");
    assert_eq!(ended.state.look_at, at("03:00:00"));
    let both = decide_fire(&schedule, &state, at("02:00:00"), LastRun::Ended);
    assert_eq!(text(&both), "01:00 | next 03:00 | queued 02:00");
}

#[test]
fn a_paused_schedule_does_nothing_and_begins_again_with_the_next_time() {
    let schedule = hourly(Missed::CatchUp(5), Overlap::Allow);
    let paused = decide_fire(&schedule, &ScheduleState::paused(), at("05:00:00"), LastRun::Ended);
    assert_eq!((paused.fires.len(), paused.state), (0, ScheduleState::paused()));
    let resumed = ScheduleState::begin(&schedule, at("05:10:00"));
    assert_eq!(text(&decide_fire(&schedule, &resumed, at("05:10:00"), LastRun::Ended)), " | next 06:00");
}

#[test]
fn a_schedule_that_ends_is_not_looked_at_again() {
    let schedule = Schedule { ends_at: Some(at("02:00:00")), ..hourly(Missed::Skip, Overlap::Allow) };
    check(&schedule, "01:00:00", LastRun::Ended, "01:00 | ended");
    let firing =
        decide_fire(&schedule, &ScheduleState::begin(&schedule, at("00:30:00")), at("01:00:00"), LastRun::Ended);
    assert_eq!(firing.state.look_at, Timestamp::NEVER);
}

#[test]
fn a_jittered_run_is_due_later_and_not_missed() {
    let short = Duration::from_secs(1);
    let schedule = Schedule { jitter: Duration::from_secs(1800), grace: short, ..hourly(Missed::Skip, Overlap::Allow) };
    let state = ScheduleState::begin(&schedule, at("00:30:00"));
    assert!(state.look_at > at("01:00:00").plus(short));
    let early = decide_fire(&schedule, &state, state.look_at.minus(Duration::from_micros(1)), LastRun::Ended);
    assert_eq!(text(&early), " | next 01:00");
    assert_eq!(text(&decide_fire(&schedule, &state, state.look_at, LastRun::Ended)), "01:00 | next 02:00");
}

#[test]
fn years_of_seconds_are_leapt_over() {
    let cadence = Cadence::Cron { cron: "* * * * * *".parse().unwrap(), zone: "UTC".parse().unwrap() };
    let schedule = Schedule { missed: Missed::CatchUp(3), cadence, ..hourly(Missed::Skip, Overlap::Allow) };
    let state = ScheduleState::begin(&schedule, "1996-01-01T00:00:00Z".parse().unwrap());
    let firing = decide_fire(&schedule, &state, at("05:00:03.5"), LastRun::Ended);
    let want = ["05:00:00", "05:00:01", "05:00:02", "05:00:03"].map(at);
    assert_eq!(firing.fires, want);
    assert_eq!((firing.left_out, firing.state.next), (vec![(at("04:59:59"), LeftOut::Missed)], Some(at("05:00:04"))));
}

proptest! {
    /// Many checks at random times, by replicas that share only the state.
    #[test]
    fn no_time_fires_twice_and_with_enough_catching_up_none_is_lost(
        waits in proptest::collection::vec(0_u64..400, 1..60),
        secs in 1_u64..90,
        jitter in 0_u64..200,
    ) {
        let begin = at("00:00:00");
        let schedule = Schedule {
            cadence: Cadence::Every { every: Duration::from_secs(secs), anchor: begin },
            jitter: Duration::from_secs(jitter),
            ..hourly(Missed::CatchUp(100), Overlap::Allow)
        };
        let mut state = ScheduleState::begin(&schedule, begin);
        let (mut now, mut fired, mut lost) = (begin, Vec::new(), false);
        for wait in waits {
            now = now.plus(Duration::from_secs(wait));
            prop_assert_eq!(decide_fire(&schedule, &state, now, LastRun::Open), decide_fire(&schedule, &state, now, LastRun::Ended));
            let firing = decide_fire(&schedule, &state, now, LastRun::Ended);
            lost |= !firing.left_out.is_empty();
            prop_assert!(firing.fires.iter().all(|nominal| schedule.due_at(*nominal) <= now));
            prop_assert!(firing.state.look_at > now);
            fired.extend(firing.fires);
            state = firing.state;
        }
        prop_assert!(fired.windows(2).all(|pair| pair[0] < pair[1]));
        let mut all = schedule.upcoming(begin, fired.len() + 1);
        if !lost {
            prop_assert_eq!(all.pop(), state.next);
            prop_assert_eq!(all, fired);
        }
    }

    /// Binary search and linear walk find the same runs.
    #[test]
    fn what_is_caught_up_is_the_latest(secs in 1_u64..5000, gone in 0_u64..1_000_000, count in 1_u32..20) {
        let begin = at("00:00:00");
        let cadence = Cadence::Every { every: Duration::from_secs(secs), anchor: begin };
        let schedule = Schedule { cadence, ..hourly(Missed::CatchUp(count), Overlap::Allow) };
        let now = begin.plus(Duration::from_secs(gone));
        let all: Vec<Timestamp> = std::iter::successors(schedule.next_after(begin), |at| schedule.next_after(*at))
            .take_while(|nominal| *nominal <= now).collect();
        let in_time = all.last().is_some_and(|last| now.since(*last) <= schedule.grace);
        let wanted = usize::try_from(count).unwrap() + usize::from(in_time);
        let firing = decide_fire(&schedule, &ScheduleState::begin(&schedule, begin), now, LastRun::Ended);
        prop_assert_eq!(&firing.fires[..], &all[all.len().saturating_sub(wanted)..]);
    }
}
