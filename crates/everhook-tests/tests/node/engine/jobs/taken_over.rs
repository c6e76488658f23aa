//! Jobs whose worker outlives the lease, or crashes.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::job::JobState;
use everhook_core::limits::CRASHES_MAX;
use everhook_core::role::Role;
use everhook_engine::run::handler::Finish;
use everhook_store::lease::{FeedAsk, LeaseAsk, NewSession};
use everhook_store::store::Store;
use tokio::sync::Notify;

use crate::engine::fixture::LEASE;
use crate::engine::jobs::stage::{ENVIRONMENT, QUEUE, classes, enqueue, handlers, job, pause, store, until, worker};

#[tokio::test]
async fn a_job_that_outlives_many_leases_stays_with_its_worker() {
    let (store, over) = (store(), Arc::new(Notify::new()));
    let until_over = Arc::clone(&over);
    let run = move |context: everhook_engine::run::handler::Context| {
        let over = Arc::clone(&until_over);
        async move {
            over.notified().await;
            assert!(context.still_mine());
            Finish::completed(None)
        }
    };
    let engine = worker(&store, 1, handlers(1, run)).await;
    // This worker would take over the job if it could.
    let other = worker(&store, 2, handlers(1, |_| async { Finish::completed(None) })).await;
    let id = enqueue(&engine, job(&engine)).await;
    let leased = until(&store, id, JobState::Leased).await.open.unwrap();
    let started = engine.now();
    while engine.now().since(started) < LEASE * 3 {
        pause().await;
    }
    let held = until(&store, id, JobState::Leased).await.open.unwrap();
    assert_eq!((held.holder, held.task.epoch), (leased.holder, leased.task.epoch));
    over.notify_one();
    over.notify_one();
    until(&store, id, JobState::Succeeded).await;
    assert_eq!(classes(&store, id).await, ["success"]);
    engine.drain(Duration::ZERO).await;
    other.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_job_that_keeps_killing_its_worker_ends_dead() {
    let store = store();
    let handlers = handlers(1, |_| async { Finish::completed(None) });
    let elsewhere =
        everhook_engine::run::handler::Handlers { queues: [("elsewhere".parse().unwrap(), 1)].into(), ..handlers };
    let engine = worker(&store, 1, elsewhere).await;
    let id = enqueue(&engine, job(&engine)).await;
    for _ in 0..CRASHES_MAX {
        let session = SessionId(engine.new_id());
        let (node, version) = ("doomed".to_owned(), String::new());
        let new = NewSession { id: session, node, role: Role::Worker, version, lease: LEASE, takes: None };
        store.open_session(new.clone()).await.unwrap();
        let queue = FeedAsk::queue(ENVIRONMENT, QUEUE.parse().unwrap(), 1);
        let ask = LeaseAsk::new(session, 1, vec![queue]);
        while store.lease(ask.clone()).await.unwrap().tasks.is_empty() {
            pause().await;
        }
        store.close_session(session).await.unwrap();
    }
    until(&store, id, JobState::Dead).await;
    assert_eq!(classes(&store, id).await, vec!["abandoned"; CRASHES_MAX as usize]);
    engine.drain(Duration::ZERO).await;
}
