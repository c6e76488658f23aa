//! The lease engine in one process: the path of a message from append to settle.

use std::time::Duration;

use everhook_core::lifecycle::NextRow;
use everhook_core::name::Name;
use everhook_store::dedup::DedupKey;
use everhook_store::lease::{Appended, LeaseAsk, NewMessage, Reclaim, Renewed, Settled};
use everhook_store::store::Store;
use everhook_testkit::conformance::fixture::{FixedCapacity, HOUR, fast};

use crate::sqlite::stage::Stage;

fn key(key: &str, body: &str) -> DedupKey {
    DedupKey::request("POST", "/msg", key, body.as_bytes())
}

#[tokio::test]
async fn a_free_lane_gives_tasks_at_once_until_the_room_is_used_up() {
    let stage = Stage::in_memory().await;
    stage.endpoint().await;
    let session = stage.session().await;
    let capacity = FixedCapacity::of(2);
    let messages = (0..3).map(|_| stage.message(Vec::new())).collect();
    let answers = stage.append(Some(fast(session, &capacity)), messages).await;
    let shape = |answer: &Appended| match answer {
        Appended::Accepted { leased, pending, .. } => (leased.len(), *pending),
        other => panic!("{other:?}"),
    };
    assert_eq!(answers.iter().map(shape).collect::<Vec<_>>(), [(1, 0), (1, 0), (0, 1)]);
    drop(answers);
    assert_eq!(capacity.left(), 2);
    // The lane has a backlog now. New deliveries must not overtake it, even if there is capacity.
    let answers = stage.append(Some(fast(session, &capacity)), vec![stage.message(Vec::new())]).await;
    assert_eq!(shape(&answers[0]), (0, 1));
    assert_eq!(stage.lease(session).await.len(), 2);
}

#[tokio::test]
async fn keys_are_kept_within_a_batch_and_across_batches() {
    let stage = Stage::in_memory().await;
    let first = stage.message(vec![key("a", "x")]);
    let id = first.message.id;
    let batch = vec![first, stage.message(vec![key("a", "x")]), stage.message(vec![key("a", "y")])];
    let answers = stage.append(None, batch).await;
    assert!(matches!(answers[0], Appended::Accepted { .. }));
    assert!(matches!(answers[1], Appended::Repeated(repeated) if repeated == id));
    assert!(matches!(answers[2], Appended::KeyReused));
    let answers = stage.append(None, vec![stage.message(vec![key("a", "x")])]).await;
    assert!(matches!(answers[0], Appended::Repeated(repeated) if repeated == id));
}

#[tokio::test]
async fn a_refused_message_gives_its_other_keys_back() {
    let stage = Stage::in_memory().await;
    let event_id = |text: &str| DedupKey::event_id(stage.application, &text.parse::<Name>().unwrap());
    let with = |keys| vec![stage.message(keys)];
    assert!(matches!(stage.append(None, with(vec![event_id("e")])).await[0], Appended::Accepted { .. }));
    let answer = stage.append(None, with(vec![key("k", ""), event_id("e")])).await.remove(0);
    assert!(matches!(answer, Appended::EventIdTaken));
    assert!(matches!(stage.append(None, with(vec![key("k", "")])).await[0], Appended::Accepted { .. }));
}

#[tokio::test]
async fn equal_ids_and_keys_in_two_environments_never_meet() {
    let stage = Stage::in_memory().await;
    let here = stage.message(vec![key("k", "here")]);
    let there = NewMessage { environment: stage.other, keys: vec![key("k", "there")], ..here.clone() };
    let answers = stage.append(None, vec![here, there]).await;
    assert!(answers.iter().all(|answer| matches!(answer, Appended::Accepted { .. })), "{answers:?}");
}

#[tokio::test]
async fn lanes_take_turns_and_respect_their_room() {
    let stage = Stage::in_memory().await;
    let lanes = [stage.endpoint().await.lane(), stage.endpoint().await.lane(), stage.endpoint().await.lane()];
    stage.send(5).await;
    let session = stage.session().await;
    let ask = |free_by_lane, limit| LeaseAsk { free_by_lane, per_lane: 2, ..LeaseAsk::deliveries(session, limit) };
    let lease = async |free_by_lane, limit| stage.store.lease(ask(free_by_lane, limit)).await.unwrap();
    let count = |tasks: &[everhook_store::lease::Leased]| {
        lanes.map(|lane| tasks.iter().filter(|leased| leased.task.lane == lane).count())
    };
    let grant = lease(vec![(lanes[0], 0), (lanes[1], 1)], 100).await;
    assert_eq!(count(&grant.tasks), [0, 1, 2]);
    assert_eq!(grant.next_ready, Some(Duration::ZERO));
    // The last lease did not reach the first lane, so that lane is first in line. The others moved to the back.
    let grant = lease(Vec::new(), 3).await;
    assert_eq!(count(&grant.tasks)[0], 2);
    let grant = lease(Vec::new(), 100).await;
    assert!(count(&grant.tasks).iter().all(|count| (1..=2).contains(count)), "{:?}", count(&grant.tasks));
}

#[tokio::test]
async fn a_settlement_counts_once_and_only_for_the_holder() {
    let stage = Stage::in_memory().await;
    stage.endpoint().await;
    stage.send(1).await;
    let (session, stranger) = (stage.session().await, stage.session().await);
    let task = stage.lease(session).await.remove(0).task;
    let settlement = stage.settlement(&task, session, NextRow::Gone);
    let forged = everhook_store::lease::Settlement { session: stranger, ..settlement.clone() };
    assert_eq!(stage.settle(&forged).await, Settled::Lost);
    let twice = [settlement.clone(), settlement.clone()];
    assert_eq!(stage.store.settle(twice.clone().into()).await.unwrap().answer, [Settled::Done, Settled::Done]);
    assert_eq!(stage.settle(&settlement).await, Settled::Done);
    let other = stage.settlement(&task, session, NextRow::Gone);
    assert_eq!(stage.settle(&other).await, Settled::Lost);
}

#[tokio::test]
async fn only_what_closed_sessions_hold_is_reclaimed() {
    let stage = Stage::in_memory().await;
    stage.endpoint().await;
    stage.send(1).await;
    let (session, sweeper) = (stage.session().await, stage.session().await);
    let task = stage.lease(session).await.remove(0).task;
    assert!(stage.reclaim(sweeper, Reclaim::Orphaned).await.is_empty());
    stage.store.close_session(session).await.unwrap();
    assert_eq!(stage.store.renew_session(session).await.unwrap(), Renewed::Closed);
    let reclaimed = stage.reclaim(sweeper, Reclaim::Orphaned).await;
    assert_eq!(reclaimed.iter().map(|taken| taken.task.epoch).collect::<Vec<_>>(), [task.epoch + 1]);
    assert_eq!(stage.settle(&stage.settlement(&task, session, NextRow::Gone)).await, Settled::Lost);
    assert!(stage.reclaim(sweeper, Reclaim::Orphaned).await.is_empty());
    let back = stage.settlement(&reclaimed[0].task, sweeper, NextRow::Pending { due_in: HOUR });
    assert_eq!(stage.settle(&back).await, Settled::Done);
    let grant = stage.store.lease(LeaseAsk { per_lane: 9, ..LeaseAsk::deliveries(sweeper, 9) }).await.unwrap();
    assert!(grant.tasks.is_empty());
    assert!(grant.next_ready.is_some_and(|wait| wait > HOUR / 2));
}
