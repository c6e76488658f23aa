//! Jobs with a handler in the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::job::report::{KeptResult, Note, Report};
use everhook_core::job::{Job, JobState, OperatorCommand};
use everhook_core::retry::RetryPolicy;
use everhook_core::scope::Scope;
use everhook_engine::run::handler::{Context, Finish, Handlers};

use crate::engine::jobs::stage::{
    ENVIRONMENT, attempts, classes, enqueue, enqueue_many, find, handlers, job, pause, store, until, worker,
};
use everhook_store::query;
use everhook_store::steer::Steer;
use everhook_store::store::{Reads, Store};

/// Returns a handler that completes every job but never ends this call, and the number of its calls.
fn hanging_at(hung: usize) -> (Handlers, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let begun = Arc::clone(&calls);
    let run = move |_| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        async move {
            if call == hung {
                std::future::pending::<()>().await;
            }
            Finish::completed(None)
        }
    };
    (handlers(1, run), begun)
}

fn failed(error: &str) -> Finish {
    Finish::other(Report::Failed { retry_after: None }, error)
}

#[tokio::test]
async fn a_handler_leaves_its_result_its_log_and_its_progress() {
    let store = store();
    let run = |context: Context| async move {
        context.progress(40, "on its way");
        context.log("sent");
        assert!(context.still_mine() && !context.is_cancelled());
        Finish::completed(Some(Bytes::from(format!("[{}]", context.attempt()))))
    };
    let engine = worker(&store, 1, handlers(2, run)).await;
    let id = enqueue(&engine, job(&engine)).await;
    let found = until(&store, id, JobState::Succeeded).await;
    assert_eq!(found.result, Some(KeptResult::Whole(Bytes::from_static(b"[1]"))));
    let progress = found.progress.unwrap();
    assert_eq!((progress.percent(), progress.text()), (40, "on its way"));
    let attempts = attempts(&store, id).await;
    assert_eq!(Note::from_bytes(&attempts[0].note).log().collect::<Vec<_>>(), ["sent"]);
    let workers = store.read(query::Workers { scope: Scope::of(ENVIRONMENT) }).await.unwrap();
    assert_eq!(workers[0].takes.kinds, ["send".parse().unwrap()], "it says what it takes");
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn failures_panics_and_snoozes_are_tried_again_and_snoozes_use_no_attempt() {
    let (store, calls) = (store(), Arc::new(AtomicUsize::new(0)));
    let run = move |_| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        async move {
            match call {
                0 => Finish::other(Report::Snoozed { wait: Duration::from_millis(1) }, ""),
                1 => failed("no such mailbox"),
                2 => panic!("out of {}", "paper"),
                _ => Finish::completed(None),
            }
        }
    };
    let engine = worker(&store, 1, handlers(1, run)).await;
    let id = enqueue(&engine, job(&engine)).await;
    until(&store, id, JobState::Succeeded).await;
    assert_eq!(classes(&store, id).await, ["snoozed", "failed", "panicked", "success"]);
    let attempts = attempts(&store, id).await;
    assert_eq!(Note::from_bytes(&attempts[1].note).error(), "no such mailbox");
    assert_eq!(Note::from_bytes(&attempts[2].note).error(), "the handler panicked: out of paper");
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_job_out_of_attempts_is_dead_by_its_own_policy() {
    let store = store();
    let engine = worker(&store, 1, handlers(1, |_| async { failed("no") })).await;
    let once = Job { retry: RetryPolicy::new(Vec::new()).unwrap(), ..job(&engine) };
    let (once, thrice) = (enqueue(&engine, once).await, enqueue(&engine, job(&engine)).await);
    until(&store, once, JobState::Dead).await;
    until(&store, thrice, JobState::Dead).await;
    assert_eq!((classes(&store, once).await.len(), classes(&store, thrice).await.len()), (1, 3));
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_the_job_is_tried_again() {
    let (store, (handlers, _)) = (store(), hanging_at(0));
    let engine = worker(&store, 1, handlers).await;
    let id = enqueue(&engine, Job { timeout: Duration::from_millis(20), ..job(&engine) }).await;
    until(&store, id, JobState::Succeeded).await;
    assert_eq!(classes(&store, id).await, ["timeout", "success"]);
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_running_job_that_is_cancelled_ends_as_cancelled() {
    let store = store();
    let run = |context: Context| async move {
        context.cancelled().await;
        failed("given up")
    };
    let engine = worker(&store, 1, handlers(1, run)).await;
    let id = enqueue(&engine, job(&engine)).await;
    until(&store, id, JobState::Leased).await;
    store.steer(Scope::of(ENVIRONMENT), Steer::Jobs { ids: vec![id], command: OperatorCommand::Cancel }).await.unwrap();
    until(&store, id, JobState::Cancelled).await;
    assert_eq!(classes(&store, id).await, ["failed"]);
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn no_more_run_at_once_than_may_however_short_they_are() {
    let (store, now, most) = (store(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let run = move |_| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Finish::completed(None)
        }
    };
    let engine = worker(&store, 1, handlers(3, run)).await;
    // Enough jobs that some are leased ahead of the running ones.
    let ids = enqueue_many(&engine, 500).await;
    for id in ids {
        until(&store, id, JobState::Succeeded).await;
        assert_eq!(classes(&store, id).await, ["success"]);
    }
    assert!((1..=3).contains(&seen.load(Ordering::SeqCst)), "{} ran at once", seen.load(Ordering::SeqCst));
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_stop_interrupts_what_runs_and_hands_back_what_was_not_begun() {
    let (store, (hanging, begun)) = (store(), hanging_at(20));
    let first = worker(&store, 1, hanging).await;
    let ids = enqueue_many(&first, 60).await;
    while begun.load(Ordering::SeqCst) <= 20 {
        pause().await;
    }
    first.drain(Duration::ZERO).await;
    let mut interrupted = 0;
    for id in &ids {
        let found = find(&store, *id).await;
        match classes(&store, *id).await.join(" ").as_str() {
            "success" => assert_eq!(found.state, JobState::Succeeded),
            "interrupted" => interrupted += 1,
            "" => {}
            other => panic!("{other}"),
        }
        let open = found.open.map(|open| (open.task.tries, open.task.crashes, found.state));
        assert!(open.is_none_or(|open| open == (0, 0, JobState::Pending)), "{open:?}");
    }
    assert_eq!(interrupted, 1);
    let second = worker(&store, 2, handlers(4, |_| async { Finish::completed(None) })).await;
    for id in ids {
        until(&store, id, JobState::Succeeded).await;
    }
    second.drain(Duration::ZERO).await;
}
