//! Settlements that the store refuses.

use everhook_engine::accept::Accept;

use crate::faulty::Fault;
use crate::fixture::{add_endpoint, engine, message, settled, store};
use crate::receiver::{Answer, Receiver};

#[tokio::test]
async fn a_task_that_cannot_be_settled_is_not_left_with_a_session_that_lives() {
    let (store, receiver) = (store(), Receiver::start(Answer::Status(200)).await);
    add_endpoint(&store, &receiver.url);
    let engine = engine(&store, 1).await;
    store.plan("settle", Fault::Refused);
    engine.accept(message("{}")).await.unwrap();
    assert_eq!(settled(&store).await, ["abandoned", "success"]);
    assert_eq!(receiver.so_far(), 2);
}

#[tokio::test]
async fn a_store_that_fails_while_a_refused_group_is_settled_singly_loses_no_settlement() {
    let (store, receiver) = (store(), Receiver::start(Answer::Hang).await);
    add_endpoint(&store, &receiver.url);
    let engine = engine(&store, 1).await;
    for n in 0..8 {
        engine.accept(message(&n.to_string())).await.unwrap();
    }
    receiver.received(8).await;
    for _ in 0..8 {
        store.plan("settle group", Fault::Refused);
        // The first ones keep the writers busy, so that the others become a group.
        store.plan("settle", Fault::NotDone);
    }
    receiver.answer(Answer::Status(200));
    assert_eq!(settled(&store).await, ["success"; 8]);
    assert!(store.calls("settle group") > 0);
    assert_eq!(receiver.so_far(), 8);
}
