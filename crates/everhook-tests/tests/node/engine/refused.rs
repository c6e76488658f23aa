//! Settlements that the store refuses, and a stop while many tasks are being reclaimed.

use std::time::Duration;

use everhook_core::id::{Id, SessionId};
use everhook_core::limits::SETTLE_QUEUE_MAX;
use everhook_store::lease::Append;
use everhook_store::store::{Op, Store};
use everhook_testkit::conformance::fixture::{FixedCapacity, fast};

use crate::engine::faulty::{Call, Fault};
use crate::engine::fixture::{HOOK, add_endpoint, answering, engine, engine_to, hanging, message, settled, store};

#[tokio::test]
async fn a_task_that_cannot_be_settled_is_not_left_with_a_session_that_lives() {
    let (store, receiver, engine) = engine_to(answering(200)).await;
    store.layer.plan(Op::Settle, Fault::Refused);
    engine.accept(message("{}")).await.unwrap();
    assert_eq!(settled(&store).await, ["abandoned", "success"]);
    assert_eq!(receiver.count(), 2);
}

#[tokio::test]
async fn a_settle_that_hangs_holds_up_no_other() {
    let (store, _receiver, engine) = engine_to(answering(200)).await;
    store.layer.plan(Op::Settle, Fault::Hangs);
    engine.accept(message("1")).await.unwrap();
    while store.layer.calls(Op::Settle) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    engine.accept(message("2")).await.unwrap();
    while store.store.dump().attempts.is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(store.store.dump().tasks.len(), 1, "the one that hangs is still open");
}

#[tokio::test]
async fn a_store_that_fails_while_a_refused_group_is_settled_singly_loses_no_settlement() {
    let (store, receiver, engine) = engine_to(hanging()).await;
    for n in 0..8 {
        engine.accept(message(&n.to_string())).await.unwrap();
    }
    receiver.arrived(HOOK, 8).await;
    for _ in 0..8 {
        store.layer.plan(Call::SettleGroup, Fault::Refused);
        // The first settlements keep the writers busy, so that the others form a group.
        store.layer.plan(Op::Settle, Fault::NotDone);
    }
    receiver.release(HOOK);
    assert_eq!(settled(&store).await, ["success"; 8]);
    assert!(store.layer.calls(Call::SettleGroup) > 0);
    assert_eq!(receiver.count(), 8);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_what_cannot_be_taken_over() {
    let store = store();
    add_endpoint(&store, "http://127.0.0.1:9/");
    // More tasks than the settle queue holds, leased to a dead session.
    let messages = (0..SETTLE_QUEUE_MAX + 2000).map(|_| message("{}")).collect();
    let dead = fast(SessionId(Id::MIN), &FixedCapacity::of(usize::MAX));
    store.append(Append { fast: Some(dead), messages }).await.unwrap();
    for _ in 0..10_000 {
        store.layer.plan(Call::SettleGroup, Fault::NotDone);
    }
    let engine = engine(&store, 1).await;
    while store.layer.calls(Op::Reclaim) * 500 < SETTLE_QUEUE_MAX {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopped = tokio::time::timeout(Duration::from_secs(20), engine.drain(Duration::from_secs(1))).await;
    assert!(stopped.is_ok(), "it hangs");
}
