//! Stops, and sessions that another node closes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::exchange::Exchange;
use everhook_core::outcome::{Reply, SendFailure};
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_store::store::{Op, Store};

use crate::engine::faulty::Fault;
use crate::engine::fixture::{HOOK, add_endpoint, engine, engine_through, engine_to, hanging, message, settled, store};

#[tokio::test]
async fn a_stop_waits_for_what_runs() {
    let (store, receiver, engine) = engine_to(hanging()).await;
    engine.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 1).await;
    let (_, ()) = tokio::join!(engine.drain(Duration::from_secs(60)), async { receiver.release(HOOK) });
    assert_eq!(settled(&store).await, ["success"]);
    assert!(store.store.dump().sessions.values().all(|session| session.closed_at.is_some()));
}

#[tokio::test]
async fn what_outlasts_the_grace_period_is_interrupted_and_uses_no_try() {
    let (store, receiver, first) = engine_to(hanging()).await;
    first.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 1).await;
    first.drain(Duration::ZERO).await;
    let task = *store.store.dump().tasks.values().next().unwrap();
    assert_eq!((task.task.tries, task.task.crashes), (0, 0));
    receiver.release(HOOK);
    let _second = engine(&store, 2).await;
    assert_eq!(settled(&store).await, ["interrupted", "success"]);
}

#[tokio::test]
async fn a_node_whose_session_was_closed_aborts_its_sends_and_changes_nothing() {
    let (store, receiver, engine) = engine_to(hanging()).await;
    engine.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 1).await;
    let stolen = *store.store.dump().sessions.keys().next().unwrap();
    store.close_session(stolen).await.unwrap();
    // The node learns of the closed session at its next heartbeat. It opens another one and reclaims the task like any
    // node.
    receiver.arrived(HOOK, 2).await;
    receiver.release(HOOK);
    let attempts = settled(&store).await;
    assert_eq!(attempts, ["abandoned", "success"]);
}

#[tokio::test]
async fn a_dead_node_is_taken_over_by_one_that_lives() {
    let (store, receiver) = (store(), hanging());
    add_endpoint(&store, &receiver.url(HOOK));
    let second = engine(&store, 2).await;
    {
        // The node's loops stop with its runtime: it neither renews nor settles any more.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
        let (store, lost) = (store.clone(), message("{\"lost\":1}"));
        let first = runtime.spawn(async move {
            let first = engine(&store, 1).await;
            first.accept(lost).await.unwrap();
            first
        });
        let _first = first.await.unwrap();
        receiver.arrived(HOOK, 1).await;
        runtime.shutdown_background();
    }
    receiver.release(HOOK);
    assert_eq!(settled(&store).await, ["abandoned", "success"]);
    assert!(second.ready().is_ok());
}

/// A transport that panics once and then works.
struct Panicking(std::sync::atomic::AtomicBool);

#[async_trait]
impl Transport for Panicking {
    async fn send(&self, _: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        assert!(self.0.swap(true, std::sync::atomic::Ordering::Relaxed), "planned");
        Ok(Reply { status: 200, retry_after: None, wish: None, body: bytes::Bytes::new() })
    }
}

#[tokio::test]
async fn a_delivery_that_panics_is_settled_as_a_failure_and_tried_again() {
    let (store, engine) = engine_through(Arc::new(Panicking(false.into()))).await;
    engine.accept(message("{}")).await.unwrap();
    assert_eq!(settled(&store).await, ["internal", "success"]);
    let page = engine.metrics();
    assert!(page.contains("everhook_attempts_total{class=\"internal\"} 1"), "{page}");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_lease_that_hangs_and_closes_the_session() {
    let store = store();
    store.layer.plan(Op::Lease, Fault::Hangs);
    let engine = engine(&store, 1).await;
    while store.layer.calls(Op::Lease) == 0 {
        tokio::task::yield_now().await;
    }
    engine.drain(Duration::from_millis(10)).await;
    assert!(store.store.dump().sessions.values().all(|session| session.closed_at.is_some()));
}
