use proptest::prelude::*;

use super::*;
use crate::id::Id;
use crate::limits::BODY_BYTES_MAX;

const DEAD: BatchChange = BatchChange::Ended(EndedJobs { succeeded: 0, dead: 1, cancelled: 0 });
const DONE: BatchChange = BatchChange::Ended(EndedJobs { succeeded: 1, dead: 0, cancelled: 0 });
const CANCELLED: BatchChange = BatchChange::Ended(EndedJobs { succeeded: 0, dead: 0, cancelled: 1 });

const fn retried(jobs: u32) -> BatchChange {
    BatchChange::Resolved { jobs, how: Resolution::Retried }
}

const fn skipped(jobs: u32) -> BatchChange {
    BatchChange::Resolved { jobs, how: Resolution::Skipped }
}

/// Returns the announcements by phase: "1 failed, 2 completed".
fn run(changes: &[BatchChange]) -> String {
    let mut batch = Batch::new();
    let mut said = Vec::new();
    for change in changes {
        let applied = batch.apply(*change).unwrap();
        batch = applied.batch;
        said.extend(applied.announce.map(|what| format!("{} {}", batch.phase, format!("{what:?}").to_lowercase())));
    }
    said.join(", ")
}

#[track_caller]
fn check(changes: &[BatchChange], want: &str) {
    assert_eq!(run(changes), want);
}

#[test]
fn a_batch_completes_when_it_is_sealed_and_all_is_done() {
    check(&[BatchChange::Added(2), DONE, DONE], "");
    check(&[BatchChange::Added(2), DONE, DONE, BatchChange::Sealed], "1 completed");
    check(&[BatchChange::Added(2), BatchChange::Sealed, DONE], "");
    check(&[BatchChange::Added(2), BatchChange::Sealed, DONE, CANCELLED], "1 completed");
    check(&[BatchChange::Added(1), BatchChange::Sealed, CANCELLED], "1 completed");
}

#[test]
fn an_empty_sealed_batch_completes_once() {
    check(&[BatchChange::Sealed], "1 completed");
    check(&[BatchChange::Sealed, BatchChange::Sealed], "1 completed");
    check(&[BatchChange::Added(0)], "");
}

#[test]
fn the_first_death_is_announced_at_once_and_the_second_not() {
    check(&[BatchChange::Added(3), DEAD], "1 failed");
    check(&[BatchChange::Added(3), DEAD, DEAD, BatchChange::Sealed, DONE], "1 failed");
    let last_two = BatchChange::Ended(EndedJobs { succeeded: 1, dead: 1, cancelled: 0 });
    check(&[BatchChange::Added(2), BatchChange::Sealed, last_two], "1 failed");
}

#[test]
fn a_retry_opens_a_phase_that_announces_again() {
    let died = [BatchChange::Added(2), BatchChange::Sealed, DONE, DEAD];
    check(&[&died[..], &[retried(1)]].concat(), "1 failed");
    check(&[&died[..], &[retried(1), DONE]].concat(), "1 failed, 2 completed");
    check(&[&died[..], &[retried(1), DEAD]].concat(), "1 failed, 2 failed");
    check(&[&died[..], &[retried(1), DEAD, retried(1), DONE]].concat(), "1 failed, 2 failed, 3 completed");
}

#[test]
fn skipping_or_cancelling_what_is_dead_completes() {
    check(&[BatchChange::Added(1), BatchChange::Sealed, DEAD, skipped(1)], "1 failed, 2 completed");
    let cancelled = BatchChange::Resolved { jobs: 1, how: Resolution::Cancelled };
    check(&[BatchChange::Added(1), BatchChange::Sealed, DEAD, cancelled], "1 failed, 2 completed");
    check(&[BatchChange::Added(1), DEAD, skipped(1), BatchChange::Sealed], "1 failed, 2 completed");
    // Two jobs are dead and one is skipped: the other death was announced before.
    check(&[BatchChange::Added(2), BatchChange::Sealed, DEAD, DEAD, skipped(1)], "1 failed");
    check(&[BatchChange::Added(2), BatchChange::Sealed, DEAD, DEAD, skipped(1), skipped(1)], "1 failed, 3 completed");
    // A job that dies after another was retried is announced in the phase that is open then.
    check(&[BatchChange::Added(2), BatchChange::Sealed, DEAD, retried(1), DEAD], "1 failed, 2 failed");
}

#[test]
fn what_cannot_be_changes_nothing() {
    let sealed = Batch::new().apply(BatchChange::Sealed).unwrap().batch;
    assert_eq!(sealed.apply(BatchChange::Added(1)), Err(BadChange::Sealed));
    assert_eq!(Batch::new().apply(retried(0)), Err(BadChange::Empty));
    assert_eq!(Batch::new().apply(retried(1)), Err(BadChange::Corrupt));
    assert_eq!(Batch::new().apply(DONE), Err(BadChange::Corrupt));
    let full = Batch { phase: u32::MAX, counts: BatchCounts { dead: 1, ..BatchCounts::default() }, ..Batch::new() };
    assert_eq!(full.apply(skipped(1)), Err(BadChange::Corrupt));
}

fn job(byte: u8) -> JobId {
    JobId(Id::from_bytes([byte; 20]))
}

#[test]
fn only_dead_jobs_of_the_batch_are_retried_or_skipped() {
    let found = [(job(1), JobState::Dead), (job(2), JobState::Dead), (job(3), JobState::Leased)];
    assert_eq!(check_selection(&[job(2), job(1), job(2)], &found), Ok(vec![job(1), job(2)]));
    assert_eq!(check_selection(&[], &found), Err(BadSelection::Empty));
    assert_eq!(check_selection(&[job(1), job(9)], &found), Err(BadSelection::Foreign(job(9))));
    assert_eq!(check_selection(&[job(1), job(3)], &found), Err(BadSelection::NotDead(job(3))));
    assert_eq!(check_selection(&vec![job(1); BATCH_SELECTION_MAX + 1], &found), Err(BadSelection::TooMany));
}

#[test]
fn announcements_are_messages_with_names_and_ids_of_their_own() {
    let orders = prefix("import.orders").unwrap();
    assert_eq!(Announcement::Failed.event_type(&orders).unwrap().as_str(), "import.orders.failed");
    let batch = BatchId(Id::MIN);
    let ids = [Announcement::Failed, Announcement::Completed].map(|what| what.event_id(batch, 2).unwrap());
    assert_eq!(ids[0].as_str(), "batch_000000000000000000000000000.2.failed");
    assert_ne!(ids[0], ids[1]);
    assert_eq!(prefix(&"x".repeat(247)), Err(BadName::TooLong));
    assert!(Announcement::Completed.event_type(&prefix(&"x".repeat(246)).unwrap()).is_ok());
}

#[test]
fn a_notice_fits_into_a_message() {
    let failed = FailedJob {
        id: job(1),
        name: Some("n".repeat(256)),
        kind: "k".repeat(256).parse().unwrap(),
        error: "\u{1F980}\u{1}".repeat(5000),
        failed_at: Timestamp::default(),
        metadata: Metadata::from([("m".into(), "x".repeat(4000))]),
    };
    let notice = Notice {
        batch_id: BatchId(Id::MIN),
        name: "import".into(),
        phase: 1,
        counts: BatchCounts { dead: 500, ..BatchCounts::default() },
        metadata: Metadata::new(),
        failed: vec![failed; 500],
    };
    let json = notice.to_json();
    assert!(json.len() < BODY_BYTES_MAX, "{} bytes", json.len());
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["failed"].as_array().unwrap().len(), BATCH_FAILED_LISTED_MAX);
    assert_eq!((&read["batchId"], &read["counts"]["dead"]), (&"batch_000000000000000000000000000".into(), &500.into()));
}

/// One random action; `pick` chooses among the eligible jobs.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Add(u32),
    End(JobState),
    /// A transaction with many settlements.
    EndMany(u32, u32, u32),
    Seal,
    Resolve(Resolution, u32),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => (0_u32..4).prop_map(Deed::Add),
        4 => Just(Deed::End(JobState::Succeeded)),
        3 => Just(Deed::End(JobState::Dead)),
        1 => Just(Deed::End(JobState::Cancelled)),
        2 => (0_u32..3, 0_u32..3, 0_u32..3).prop_map(|(a, b, c)| Deed::EndMany(a, b, c)),
        1 => Just(Deed::Seal),
        2 => (0_u32..3).prop_map(|jobs| Deed::Resolve(Resolution::Retried, jobs)),
        2 => (0_u32..3).prop_map(|jobs| Deed::Resolve(Resolution::Skipped, jobs)),
        1 => (0_u32..3).prop_map(|jobs| Deed::Resolve(Resolution::Cancelled, jobs)),
    ]
}

fn change(deed: Deed) -> BatchChange {
    let ended = |succeeded, dead, cancelled| BatchChange::Ended(EndedJobs { succeeded, dead, cancelled });
    match deed {
        Deed::Add(jobs) => BatchChange::Added(jobs),
        Deed::End(JobState::Succeeded) => ended(1, 0, 0),
        Deed::End(JobState::Dead) => ended(0, 1, 0),
        Deed::End(_) => ended(0, 0, 1),
        Deed::EndMany(a, b, c) => ended(a, b, c),
        Deed::Seal => BatchChange::Sealed,
        Deed::Resolve(how, jobs) => BatchChange::Resolved { jobs, how },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// For any order of events: at most one announcement per phase, never too early, and never none.
    #[test]
    fn each_phase_announces_what_it_has_to_once(deeds in proptest::collection::vec(deed(), 0..60)) {
        let mut batch = Batch::new();
        let mut said: Vec<(u32, Announcement)> = Vec::new();
        let mut died_in: Vec<u32> = Vec::new();
        for deed in deeds {
            let before = batch;
            let Ok(applied) = batch.apply(change(deed)) else { continue };
            batch = applied.batch;
            if batch.counts.dead > before.counts.dead {
                died_in.push(batch.phase);
            }
            if let Some(what) = applied.announce {
                prop_assert!(said.iter().all(|(phase, _)| *phase < batch.phase), "a second one in phase {}", batch.phase);
                said.push((batch.phase, what));
                match what {
                    Announcement::Failed => prop_assert!(batch.counts.dead > 0),
                    Announcement::Completed => {
                        prop_assert_eq!((batch.intake, batch.counts.pending, batch.counts.dead), (Intake::Sealed, 0, 0));
                    }
                }
            }
            prop_assert!(batch.phase >= before.phase);
            let resolved = matches!(deed, Deed::Resolve(..));
            prop_assert_eq!(batch.phase > before.phase, resolved, "phases open by a retry or skip and by nothing else");
            // Every announcement that is due has been made.
            if batch.intake == Intake::Sealed && batch.counts.pending == 0 && batch.counts.dead == 0 {
                prop_assert_eq!(said.last(), Some(&(batch.phase, Announcement::Completed)));
            }
            prop_assert!(died_in.iter().all(|phase| said.contains(&(*phase, Announcement::Failed))));
        }
    }

    /// Two replicas end the last jobs: the order of their transactions does not change the announcement, only who makes
    /// it.
    #[test]
    fn the_order_of_the_last_transactions_does_not_matter(ends in proptest::collection::vec(0..3_u8, 1..8)) {
        let jobs = u32::try_from(ends.len()).unwrap();
        let change = |end: &u8| [DONE, DEAD, CANCELLED][usize::from(*end)];
        let begin = [BatchChange::Added(jobs), BatchChange::Sealed];
        let forward: Vec<BatchChange> = begin.iter().copied().chain(ends.iter().map(change)).collect();
        let backward: Vec<BatchChange> = begin.iter().copied().chain(ends.iter().rev().map(change)).collect();
        prop_assert_eq!(run(&forward), run(&backward));
        prop_assert_eq!(run(&forward), if ends.contains(&1) { "1 failed" } else { "1 completed" });
    }
}
