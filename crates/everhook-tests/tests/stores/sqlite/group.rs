//! The group commit: operations share a transaction, but not their failures.

use everhook_store::error::StoreError;
use everhook_store::lease::{Append, Appended};
use everhook_store::store::{Op, Store};
use everhook_testkit::conformance::fixture::{FixedCapacity, fast};

use crate::sqlite::stage::Stage;

#[tokio::test]
async fn one_job_that_fails_harms_no_other_and_leaks_no_slot() {
    let stage = Stage::in_memory().await;
    stage.endpoint().await;
    let session = stage.session().await;
    let capacity = FixedCapacity::of(1000);
    let taken = stage.message(Vec::new());
    stage.append(None, vec![taken.clone()]).await;
    stage.lease(session).await;
    let good = || {
        stage.store.append(Append { fast: Some(fast(session, &capacity)), messages: vec![stage.message(Vec::new())] })
    };
    // The second message has the id of an existing one. The row and the slot of the first one must be undone, too.
    let messages = vec![stage.message(Vec::new()), taken];
    let bad = stage.store.append(Append { fast: Some(fast(session, &capacity)), messages });
    let (before, failed, after, more) = tokio::join!(good(), bad, good(), good());
    assert!(matches!(failed, Err(StoreError::Refused { op: Op::Append, .. })), "{failed:?}");
    for answers in [before, after, more] {
        let answers = answers.unwrap();
        assert!(
            matches!(&answers[0], Appended::Accepted { leased, pending: 0, .. } if leased.len() == 1),
            "{answers:?}"
        );
    }
    assert_eq!(capacity.left(), 1000);
}

#[tokio::test]
async fn many_callers_at_once_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    stage.endpoint().await;
    let sends = (0..500).map(|_| stage.append(None, vec![stage.message(Vec::new())]));
    let answers = futures_join(sends.collect()).await;
    assert_eq!(answers, 500);
    let session = stage.session().await;
    let mut leased = 0;
    loop {
        let tasks = stage.lease(session).await;
        if tasks.is_empty() {
            break;
        }
        leased += tasks.len();
    }
    assert_eq!(leased, 500);
}

/// Polls all futures in turn until each has accepted its message; returns their number.
async fn futures_join<F: Future<Output = Vec<Appended>>>(futures: Vec<F>) -> usize {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut accepted = 0;
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Pending => true,
            std::task::Poll::Ready(answers) => {
                accepted += answers.iter().filter(|answer| matches!(answer, Appended::Accepted { .. })).count();
                false
            }
        });
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    accepted
}

#[tokio::test]
async fn a_caller_that_went_away_breaks_nothing() {
    let stage = Stage::in_memory().await;
    for _ in 0..50 {
        let append = stage.store.append(Append { fast: None, messages: vec![stage.message(Vec::new())] });
        let mut append = std::pin::pin!(append);
        // The operation is queued and its future is then dropped.
        std::future::poll_fn(|context| {
            let _ = append.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    stage.send(1).await;
}

#[tokio::test]
async fn a_closed_store_refuses_and_does_not_hang() {
    let stage = Stage::in_memory().await;
    stage.store.close();
    stage.store.close();
    let refused = stage.store.append(Append { fast: None, messages: vec![stage.message(Vec::new())] }).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
}
