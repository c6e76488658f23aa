//! Jobs that are leased ahead of the running ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everhook_core::id::JobId;
use everhook_core::job::JobState;
use everhook_engine::run::handler::Finish;
use everhook_testkit::mem::MemStore;

use crate::engine::jobs::stage::{attempts, enqueue_many, find, handlers, pause, simulated_store, worker};

/// The call of the handler that never ends.
const HUNG: usize = 20;

async fn count(store: &Arc<MemStore>, ids: &[JobId], state: JobState) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(find(store, *id).await.state == state);
    }
    count
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_too_long_behind_a_job_is_handed_back_to_whoever_has_room() {
    let (store, calls) = (simulated_store(), Arc::new(AtomicUsize::new(0)));
    let begun = Arc::clone(&calls);
    let run = move |_| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if call == HUNG {
                std::future::pending::<()>().await;
            }
            Finish::completed(None)
        }
    };
    let hung = worker(&store, 1, handlers(1, run)).await;
    let ids = enqueue_many(&hung, 60).await;
    while begun.load(Ordering::SeqCst) <= HUNG {
        pause().await;
    }
    // Ended jobs are settled meanwhile.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let held = count(&store, &ids, JobState::Leased).await;
    assert!(held > 1, "it has leased ahead");
    let other = worker(&store, 2, handlers(4, |_| async { Finish::completed(None) })).await;
    let rest_is_done = async {
        while count(&store, &ids, JobState::Succeeded).await < ids.len() - 1 {
            pause().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), rest_is_done).await.expect("what waits is handed back");
    assert_eq!(begun.load(Ordering::SeqCst), HUNG + 1, "by the other one");
    let mut handed_back = 0;
    for id in &ids {
        let attempts = attempts(&store, *id).await;
        handed_back += attempts.iter().filter(|attempt| attempt.epoch == 2).count();
        assert!(attempts.len() <= 1, "that counts as no attempt: {attempts:?}");
    }
    assert_eq!(handed_back, held - 1);
    for engine in [hung, other] {
        engine.drain(Duration::ZERO).await;
    }
}
