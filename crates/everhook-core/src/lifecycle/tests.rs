use super::*;
use crate::id::{EnvironmentId, Id, LaneId, TaskId};
use crate::task::{TaskKey, TaskKind};
use crate::time::Timestamp;

fn task() -> Task {
    let key = TaskKey { environment: EnvironmentId(1), subject: Id::MIN, id: TaskId(Id::MIN) };
    Task { epoch: 1, ..Task::new(key, LaneId(Id::MIN), TaskKind::Delivery, Timestamp::default()) }
}

const FAILURE: Outcome = Outcome::Failure { retry_after: None };

/// Format: "<verdict> | tries/crashes | row | end [| hold] [| disable]".
fn text(task: &Task, outcome: Outcome) -> String {
    let d = decide(task, outcome, &RetryPolicy::default(), Jitter::NONE);
    let row = match d.row {
        NextRow::Gone => "gone",
        NextRow::Pending { .. } => "pending",
        NextRow::Dead => "dead",
    };
    let mut text = format!("{} | {}/{} | {row} | {:?}", d.verdict, d.tries, d.crashes, d.end);
    if let Some(hold) = d.hold_lane {
        text += &format!(" | hold {hold:?}");
    }
    if d.stop_lane {
        text += " | disable";
    }
    text
}

#[track_caller]
fn check(task: Task, outcome: Outcome, want: &str) {
    assert_eq!(text(&task, outcome), want);
}

#[test]
fn success_ends_the_task() {
    check(task(), Outcome::Success, "succeed | 1/0 | gone | Succeeded");
}

#[test]
fn the_wishes_of_a_receiver_are_obeyed() {
    check(task(), Outcome::LastSuccess, "succeed | 1/0 | gone | Succeeded | disable");
    check(task(), Outcome::Aborted, "die: aborted by the receiver | 1/0 | dead | Dead");
    check(
        Task { trigger: Trigger::Manual, ..task() },
        Outcome::Aborted,
        "die: aborted by the receiver | 1/0 | gone | Dead",
    );
}

#[test]
fn a_failure_waits_for_its_turn_in_the_schedule() {
    check(task(), FAILURE, "retry in 5s | 1/0 | pending | Open");
    check(Task { tries: 2, ..task() }, FAILURE, "retry in 1800s | 3/0 | pending | Open");
    check(Task { tries: 9, ..task() }, FAILURE, "die: attempts exhausted | 10/0 | dead | Dead");
}

#[test]
fn retry_after_lengthens_a_delay_and_never_shortens_it() {
    let asked = |secs| Outcome::Failure { retry_after: Some(Duration::from_secs(secs)) };
    check(task(), asked(120), "retry in 120s | 1/0 | pending | Open");
    check(task(), asked(1), "retry in 5s | 1/0 | pending | Open");
}

#[test]
fn throttling_holds_the_lane() {
    check(task(), Outcome::Throttled { retry_after: None }, "retry in 5s | 1/0 | pending | Open | hold 5s");
    let asked = Outcome::Throttled { retry_after: Some(Duration::from_secs(60)) };
    check(task(), asked, "retry in 60s | 1/0 | pending | Open | hold 60s");
    check(Task { tries: 9, ..task() }, asked, "die: attempts exhausted | 10/0 | dead | Dead | hold 60s");
}

#[test]
fn one_message_that_always_times_out_does_not_stop_its_endpoint_for_hours() {
    let late = Task { tries: 4, ..task() };
    check(late, Outcome::Throttled { retry_after: None }, "retry in 18000s | 5/0 | pending | Open | hold 60s");
    let asked = Outcome::Throttled { retry_after: Some(Duration::from_secs(7)) };
    check(late, asked, "retry in 18000s | 5/0 | pending | Open | hold 7s");
}

#[test]
fn gone_ends_the_task_and_disables_the_endpoint() {
    check(task(), Outcome::Gone, "die: endpoint gone | 1/0 | dead | Dead | disable");
}

#[test]
fn a_crash_uses_no_try_but_counts_until_the_task_is_poison() {
    check(task(), Outcome::Abandoned, "retry in 250ms | 0/1 | pending | Open");
    check(Task { crashes: 4, tries: 3, ..task() }, Outcome::Abandoned, "die: poison | 3/5 | dead | Dead");
}

#[test]
fn a_stop_uses_no_try_and_is_due_at_once() {
    check(Task { tries: 3, ..task() }, Outcome::Interrupted, "retry in 0ns | 3/0 | pending | Open");
}

#[test]
fn a_manual_attempt_is_never_retried() {
    let manual = Task { trigger: Trigger::Manual, ..task() };
    check(manual, FAILURE, "die: attempts exhausted | 1/0 | gone | Dead");
    check(manual, Outcome::Abandoned, "retry in 250ms | 0/1 | pending | Open");
}

#[test]
fn a_cancelled_task_ends_at_the_next_opportunity() {
    let flagged = Task { cancel: true, ..task() };
    check(flagged, FAILURE, "cancel | 1/0 | gone | Cancelled");
    check(flagged, Outcome::Abandoned, "cancel | 0/1 | gone | Cancelled");
    check(flagged, Outcome::Success, "succeed | 1/0 | gone | Succeeded");
    check(task(), Outcome::Cancelled, "cancel | 0/0 | gone | Cancelled");
}

#[test]
fn a_snooze_uses_no_try_however_often() {
    let snoozed = Outcome::Snoozed { wait: Duration::from_secs(90) };
    check(Task { tries: 9, ..task() }, snoozed, "retry in 90s | 9/0 | pending | Open");
    check(Task { cancel: true, ..task() }, snoozed, "cancel | 0/0 | gone | Cancelled");
    let too_long = Outcome::Snoozed { wait: Duration::MAX };
    check(task(), too_long, "retry in 2592000s | 0/0 | pending | Open");
}

#[test]
fn a_receiver_that_wants_no_more_jobs_stops_the_queue_and_kills_none() {
    check(Task { tries: 9, ..task() }, Outcome::Stopped, "retry in 0ns | 9/0 | pending | Open | disable");
    check(Task { cancel: true, ..task() }, Outcome::Stopped, "cancel | 0/0 | gone | Cancelled | disable");
}

#[test]
fn nothing_looks_at_the_kind_of_work() {
    let outcomes = [
        Outcome::Success,
        Outcome::Gone,
        FAILURE,
        Outcome::Throttled { retry_after: None },
        Outcome::Snoozed { wait: Duration::from_secs(1) },
        Outcome::Stopped,
        Outcome::Abandoned,
        Outcome::Interrupted,
        Outcome::Cancelled,
    ];
    for outcome in outcomes {
        assert_eq!(text(&Task { kind: TaskKind::Job, ..task() }, outcome), text(&task(), outcome));
    }
}
