//! Lost replies and refused writes between the engine and its store.

use everhook_engine::intake::AcceptError;
use everhook_store::lease::Appended;
use everhook_store::store::Op;
use everhook_testkit::receiver::Answer;

use crate::engine::faulty::Fault;
use crate::engine::fixture::{HOOK, answering, engine_to, message, settled};

#[tokio::test]
async fn a_message_is_delivered_once_and_its_task_leaves() {
    let (store, receiver, engine) = engine_to(answering(204)).await;
    assert!(matches!(engine.accept(message("{}")).await, Ok(Appended::Accepted { message: _, .. })));
    assert_eq!(settled(&store).await, ["success"]);
    assert_eq!(receiver.arrived(HOOK, 1).await[0].body, b"{}");
}

#[tokio::test]
async fn failures_are_retried_until_the_receiver_takes_it() {
    let (store, receiver, engine) = engine_to(answering(500)).await;
    engine.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 3).await;
    receiver.answer(HOOK, Answer::status(200));
    let attempts = settled(&store).await;
    assert_eq!(attempts.last().unwrap(), "success");
    assert!(attempts.len() >= 3 && attempts[..attempts.len() - 1].iter().all(|class| class == "status"));
}

#[tokio::test]
async fn an_append_in_doubt_is_not_acknowledged_and_its_orphans_are_taken_over() {
    let (store, receiver, engine) = engine_to(answering(200)).await;
    store.layer.plan(Op::Append, Fault::ReplyLost);
    let answer = engine.accept(message("{}")).await;
    assert!(matches!(answer, Err(AcceptError::Store(error)) if error.is_in_doubt()));
    // The tasks are leased to a session whose node does not know them. They are reclaimed after that session was
    // closed.
    assert_eq!(settled(&store).await, ["abandoned", "success"]);
    assert_eq!(receiver.count(), 1);
    let sessions = store.store.dump().sessions;
    assert_eq!(sessions.values().filter(|session| session.closed_at.is_some()).count(), 1);
    assert_eq!(sessions.len(), 2);
}

#[tokio::test]
async fn what_a_failover_forgot_is_found_by_the_node_that_had_it() {
    let (store, receiver, engine) = engine_to(answering(200)).await;
    store.layer.fail_over();
    engine.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 1).await;
    // The task is leased to its session again. The session is alive, but its node does not know the task.
    assert_eq!(settled(&store).await, ["abandoned", "success"]);
    assert_eq!(receiver.count(), 2);
}

#[tokio::test]
async fn a_lease_in_doubt_leaves_nothing_behind() {
    let (store, receiver, engine) = engine_to(answering(500)).await;
    engine.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 1).await;
    receiver.answer(HOOK, Answer::status(200));
    store.layer.plan(Op::Lease, Fault::ReplyLost);
    store.layer.plan(Op::Lease, Fault::ReplyLost);
    let attempts = settled(&store).await;
    assert_eq!(attempts.last().unwrap(), "success");
    assert_eq!(receiver.count(), attempts.iter().filter(|class| *class != "abandoned").count());
}

#[tokio::test]
async fn a_settle_that_fails_is_repeated_and_sends_nothing_again() {
    for fault in [Fault::NotDone, Fault::ReplyLost] {
        let (store, receiver, engine) = engine_to(answering(200)).await;
        for _ in 0..2 {
            store.layer.plan(Op::Settle, fault);
        }
        engine.accept(message("{}")).await.unwrap();
        assert_eq!(settled(&store).await, ["success"]);
        engine.drain(std::time::Duration::from_secs(5)).await;
        assert_eq!(receiver.count(), 1);
        assert_eq!(store.layer.calls(Op::Settle), 3);
    }
}

#[tokio::test]
async fn an_append_that_was_not_done_is_refused_and_nothing_is_sent() {
    let (store, receiver, engine) = engine_to(answering(200)).await;
    store.layer.plan(Op::Append, Fault::NotDone);
    assert!(matches!(engine.accept(message("{}")).await, Err(AcceptError::Store(error)) if !error.is_in_doubt()));
    assert!(store.store.dump().tasks.is_empty());
    engine.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 1).await;
    assert_eq!(settled(&store).await, ["success"]);
}
