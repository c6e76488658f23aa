//! Concurrent operations: one winner, no duplicates, no forgotten tasks.
//!
//! Each case uses both handles of the store. Loops end when the work is done; a limit turns a forgotten task into a
//! failure instead of a hang.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use everhook_core::id::{LaneId, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_core::scope::AppScope;
use everhook_core::task::{Task, TaskKey};
use everhook_store::lease::{
    Append, Appended, FastPath, LeaseAsk, NewMessage, Reclaim, ReclaimAsk, Settled, Settlement,
};
use everhook_store::query;
use tokio::task::JoinSet;

use crate::conformance::fixture::{FixedCapacity, Fixture, PLENTY, fast, name, request_key};
use crate::conformance::policy::{one_in_hours, policy};
use crate::conformance::stage::Stage;

/// Leases of one worker before a case gives up; far more than it needs, even with interference.
const TURNS_MAX: usize = 20_000;

/// Runs all futures concurrently and waits for them.
pub(super) async fn at_once<T: Send + 'static>(work: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let set: JoinSet<T> = work.into_iter().collect();
    set.join_all().await
}

/// Returns the two handles in turn.
fn handles(fx: &Fixture) -> impl Iterator<Item = Arc<dyn Stage>> + use<> {
    [Arc::clone(&fx.store), Arc::clone(&fx.other)].into_iter().cycle()
}

async fn append_at_once(fx: &Fixture, batches: Vec<Vec<NewMessage>>) -> Vec<Vec<Appended>> {
    let appends = handles(fx).zip(batches).map(|(store, messages)| async move {
        let ids: Vec<MessageId> = messages.iter().map(|new| new.message.id).collect();
        let answers = store.append(Append { fast: None, messages }).await.unwrap();
        for (id, answer) in ids.iter().zip(&answers) {
            assert!(!matches!(answer, Appended::Accepted { message, .. } if message.id != *id), "{answer:?}");
        }
        answers
    });
    at_once(appends.collect()).await
}

fn accepted(answers: &[Vec<Appended>]) -> Vec<MessageId> {
    let id = |answer: &Appended| match answer {
        Appended::Accepted { message, .. } => Some(message.id),
        _ => None,
    };
    answers.iter().flatten().filter_map(id).collect()
}

pub(super) async fn the_same_request_at_once_is_accepted_once(fx: &Fixture) {
    fx.endpoint().await;
    for round in 0..5 {
        let batches = (0..12).map(|_| vec![fx.message_with_key(&round.to_string(), "body")]).collect();
        let answers = append_at_once(fx, batches).await;
        let [winner] = accepted(&answers)[..] else { panic!("{answers:?}") };
        for answer in answers.iter().flatten() {
            let fine = match answer {
                Appended::Accepted { .. } => true,
                Appended::Repeated(id) => *id == winner,
                _ => false,
            };
            assert!(fine, "{answer:?} while {winner} was accepted");
        }
    }
    assert_eq!(fx.lease(fx.session().await).await.len(), 5);
}

pub(super) async fn the_same_event_id_at_once_is_accepted_once(fx: &Fixture) {
    let batches = (0..12).map(|_| vec![fx.message_with_event_id("e")]).collect();
    let answers = append_at_once(fx, batches).await;
    assert_eq!(accepted(&answers).len(), 1, "{answers:?}");
    let refused = answers.iter().flatten().filter(|answer| matches!(answer, Appended::EventIdTaken)).count();
    assert_eq!(refused, 11, "{answers:?}");
}

pub(super) async fn batches_with_the_same_keys_in_another_order_do_not_block_each_other(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    for round in 0..5 {
        let batch = || (0..10).map(|n| fx.message_with_key(&format!("{round}-{n}"), "body")).collect::<Vec<_>>();
        let reversed = || batch().into_iter().rev().collect();
        let answers = append_at_once(fx, vec![batch(), reversed(), batch(), reversed()]).await;
        assert_eq!(accepted(&answers).len(), 10, "{answers:?}");
    }
}

pub(super) async fn a_slot_that_is_claimed_at_once_has_one_winner(fx: &Fixture) {
    fx.endpoint().await;
    for round in 0..5 {
        let batches = (0..12).map(|_| vec![fx.message_once(&round.to_string(), None)]).collect();
        let answers = append_at_once(fx, batches).await;
        let [winner] = accepted(&answers)[..] else { panic!("{answers:?}") };
        let suppressed = |answer: &&Appended| matches!(answer, Appended::Suppressed(by) if *by == winner);
        assert_eq!(answers.iter().flatten().filter(suppressed).count(), 11, "{answers:?}");
    }
    assert_eq!(fx.lease(fx.session().await).await.len(), 5);
}

pub(super) async fn batches_that_want_the_same_slots_in_another_order_do_not_block_each_other(fx: &Fixture) {
    for round in 0..5 {
        // Half of the slots already exist; the first claim creates the others.
        for n in (0..10).step_by(2) {
            fx.append_one(None, fx.message_once(&format!("{round}-{n}"), None)).await;
        }
        let batch = || (0..10).map(|n| fx.message_once(&format!("{round}-{n}"), Some(1))).collect::<Vec<_>>();
        let reversed = || batch().into_iter().rev().collect();
        let answers = append_at_once(fx, vec![batch(), reversed(), batch(), reversed()]).await;
        assert_eq!(accepted(&answers).len(), 10, "{answers:?}");
    }
}

pub(super) async fn each_phase_has_one_winner_whoever_opens_it(fx: &Fixture) {
    let phases = 8;
    for round in 0..3 {
        let key = round.to_string();
        fx.append_one(None, fx.message_once(&key, None)).await;
        // Claims with a phase, claims without one, and resets run concurrently.
        let claims = (0..phases).flat_map(|phase| [fx.message_once(&key, Some(phase)), fx.message_once(&key, None)]);
        let resets = handles(fx).take(3).map(|store| {
            let (environment, application, key) = (fx.here, fx.application, name(&key));
            async move { assert!(store.reset_once(AppScope::of(environment, application), key.clone()).await.unwrap()) }
        });
        let batches = claims.map(|claim| vec![claim]).collect();
        let (answers, _) = tokio::join!(append_at_once(fx, batches), at_once(resets.collect()));
        let (won, found) = (
            accepted(&answers),
            fx.read(query::FindOnce { scope: fx.app_scope(), key: name(&key) }).await.expect("it was claimed"),
        );
        assert!(won.contains(&found.slot.winner), "{found:?} of {won:?}");
        let last = found.slot.phase.to_db();
        // Phase 0 was won before. No later phase may have two winners, so there are at most as many winners as phases.
        assert!(i64::try_from(won.len()).unwrap() <= last, "{} won phases 1 to {last}: {answers:?}", won.len());
        assert!(last >= phases - 1, "{found:?}");
        let told = answers.iter().flatten().filter(|answer| matches!(answer, Appended::Suppressed(_))).count();
        assert_eq!(u64::try_from(told).unwrap(), found.suppressed, "every suppressed call is counted");
        assert_eq!(told + won.len(), answers.len());
    }
}

pub(super) async fn racing_leases_never_share_a_task_and_get_them_all(fx: &Fixture) {
    for _ in 0..3 {
        fx.endpoint().await;
    }
    fx.send_many(30).await;
    let left = Arc::new(AtomicIsize::new(90));
    let mut leasers = Vec::new();
    for store in handles(fx).take(4) {
        let ask = LeaseAsk { limit: 7, per_lane: 3, ..fx.ask(fx.session().await) };
        let left = Arc::clone(&left);
        leasers.push(async move { lease_until_none_is_left(&*store, &ask, &left).await });
    }
    let mut keys: Vec<TaskKey> = at_once(leasers).await.into_iter().flatten().map(|task| task.key).collect();
    assert_eq!(keys.len(), 90);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 90, "a task was leased twice");
}

pub(super) async fn what_is_appended_while_lanes_are_drained_is_not_forgotten(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    let left = Arc::new(AtomicIsize::new(200));
    let batches: Vec<Vec<NewMessage>> = (0..4).map(|_| (0..25).map(|_| fx.message()).collect()).collect();
    let mut work: Vec<std::pin::Pin<Box<dyn Future<Output = usize> + Send>>> = Vec::new();
    for (store, batch) in handles(fx).zip(batches) {
        work.push(Box::pin(async move {
            for new in batch {
                store.append(Append { fast: None, messages: vec![new] }).await.unwrap();
                tokio::task::yield_now().await;
            }
            0
        }));
    }
    for store in handles(fx).take(2) {
        let (ask, left) = (fx.ask(fx.session().await), Arc::clone(&left));
        work.push(Box::pin(async move { lease_until_none_is_left(&*store, &ask, &left).await.len() }));
    }
    assert_eq!(at_once(work).await.into_iter().sum::<usize>(), 200);
}

pub(super) async fn what_is_put_back_while_lanes_are_drained_is_not_forgotten(fx: &Fixture) {
    const TENURES: u32 = 5;
    fx.endpoint().await;
    fx.send_many(20).await;
    let left = Arc::new(AtomicIsize::new(20 * isize::try_from(TENURES).expect("it is small")));
    let sample = fx.settlement(&sample_task(fx), fx.session().await, NextRow::Gone);
    let mut workers = Vec::new();
    for store in handles(fx).take(3) {
        let ask = LeaseAsk { per_lane: 3, ..fx.ask(fx.session().await) };
        let (left, sample) = (Arc::clone(&left), sample.clone());
        workers.push(async move {
            for _ in 0..TURNS_MAX {
                if left.load(Ordering::SeqCst) <= 0 {
                    break;
                }
                let tasks = store.lease(ask.clone()).await.unwrap().tasks;
                count_down(&left, tasks.len());
                for leased in tasks {
                    let Task { key, lane, epoch, .. } = leased.task;
                    let row = if epoch < TENURES { NextRow::Pending { due_in: Duration::ZERO } } else { NextRow::Gone };
                    let session = ask.session;
                    let settlement = Settlement { key, lane, session, epoch, row, attempt: None, ..sample.clone() };
                    assert_eq!(store.settle([settlement].into()).await.unwrap().answer, [Settled::Done]);
                }
                tokio::task::yield_now().await;
            }
        });
    }
    at_once(workers).await;
    assert_eq!(left.load(Ordering::SeqCst), 0, "tasks were forgotten");
}

pub(super) async fn a_task_is_settled_or_taken_over_never_both(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(40).await;
    let (holder, sweeper) = (fx.session().await, fx.session().await);
    let tasks = fx.lease(holder).await;
    assert_eq!(tasks.len(), 40);
    let settlements: Vec<_> = tasks.iter().map(|leased| fx.settlement(&leased.task, holder, NextRow::Gone)).collect();
    let (settling, sweeping) = (Arc::clone(&fx.store), Arc::clone(&fx.other));
    let mut work: Vec<std::pin::Pin<Box<dyn Future<Output = Vec<TaskKey>> + Send>>> = Vec::new();
    work.push(Box::pin(async move {
        let mut done = Vec::new();
        for portion in settlements.chunks(4) {
            let settled = settling.settle(portion.into()).await.unwrap().answer;
            let counted = portion.iter().zip(settled).filter(|(_, settled)| *settled == Settled::Done);
            done.extend(counted.map(|(settlement, _)| settlement.key));
            tokio::task::yield_now().await;
        }
        done
    }));
    work.push(Box::pin(async move {
        sweeping.close_session(holder).await.unwrap();
        let ask = ReclaimAsk { session: sweeper, limit: 3, what: Reclaim::Orphaned };
        let mut taken = Vec::new();
        for _ in 0..40 {
            taken.extend(sweeping.reclaim(ask).await.unwrap().iter().map(|taken| taken.task.key));
            tokio::task::yield_now().await;
        }
        taken
    }));
    let mut keys = at_once(work).await.concat();
    keys.extend(fx.reclaim(sweeper, PLENTY).await.iter().map(|task| task.key));
    keys.sort();
    let mut want: Vec<_> = tasks.iter().map(|leased| leased.task.key).collect();
    want.sort();
    assert_eq!(keys, want);
}

pub(super) async fn the_same_settlements_at_once_count_once(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(10).await;
    let session = fx.session().await;
    let tasks = fx.lease(session).await;
    let rows = [NextRow::Gone, NextRow::Pending { due_in: Duration::ZERO }, NextRow::Dead];
    let batch: Vec<_> = tasks
        .iter()
        .zip(rows.into_iter().cycle())
        .map(|(leased, row)| fx.settlement(&leased.task, session, row))
        .collect();
    let settle = handles(fx).take(4).map(|store| {
        let batch = batch.clone();
        async move { store.settle(batch.clone().into()).await.unwrap().answer }
    });
    for settled in at_once(settle.collect()).await {
        assert_eq!(settled, [Settled::Done; 10]);
    }
    for leased in &tasks {
        assert_eq!(fx.attempts(MessageId(leased.task.key.subject)).await.len(), 1);
    }
}

pub(super) async fn racing_sweeps_never_share_a_task_and_get_them_all(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(40).await;
    let dead = fx.session().await;
    assert_eq!(fx.lease(dead).await.len(), 40);
    fx.store.close_session(dead).await.unwrap();
    let mut sweeps = Vec::new();
    for store in handles(fx).take(4) {
        let session = fx.session().await;
        sweeps.push(async move {
            let mut taken = Vec::new();
            for _ in 0..20 {
                taken.extend(
                    store
                        .reclaim(ReclaimAsk { session, limit: 3, what: Reclaim::Orphaned })
                        .await
                        .unwrap()
                        .into_iter()
                        .map(|taken| taken.task),
                );
                tokio::task::yield_now().await;
            }
            taken
        });
    }
    let mut epochs: BTreeMap<TaskKey, u32> = BTreeMap::new();
    for task in at_once(sweeps).await.into_iter().flatten() {
        assert_eq!(epochs.insert(task.key, task.epoch), None, "taken over twice");
    }
    assert_eq!((epochs.len(), epochs.values().max()), (40, Some(&2)));
}

pub(super) async fn deliveries_taken_at_once_and_waiting_ones_add_up(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(25));
    let take = |path: FastPath, messages: Vec<NewMessage>, store: Arc<dyn Stage>| async move {
        let mut slots = Vec::new();
        let mut count = (0, 0);
        for new in messages {
            let answers = store.append(Append { fast: Some(path.clone()), messages: vec![new] }).await.unwrap();
            for answer in answers {
                let Appended::Accepted { leased, pending, .. } = answer else { panic!("{answer:?}") };
                count = (count.0 + leased.len(), count.1 + pending);
                slots.extend(leased);
            }
        }
        // The slots are kept until all workers are done, so that the capacity is used up.
        (count, slots)
    };
    let work = handles(fx).take(4).map(|store| {
        let messages =
            (0..10).map(|n| NewMessage { keys: vec![request_key(&format!("{}-{n}", fx.id()), "")], ..fx.message() });
        take(fast(session, &capacity), messages.collect(), store)
    });
    let done = at_once(work.collect()).await;
    let (leased, pending) = done.iter().fold((0, 0), |sum, ((l, p), _)| (sum.0 + l, sum.1 + p));
    assert_eq!(leased + pending, 80);
    assert!(leased <= 25, "{leased} tasks were taken with room for 25");
    assert_eq!(fx.lease(session).await.len(), pending);
}

pub(super) async fn appends_at_once_share_the_permits_of_a_rate_limit(fx: &Fixture) {
    let free = fx.endpoint().await;
    let mut limited = Vec::new();
    for _ in 0..3 {
        let paid = Some(vec![name("invoice.paid").into()]);
        let rate = policy(one_in_hours(2));
        let new = fx.endpoint_with(|endpoint| (endpoint.event_types, endpoint.policy) = (paid, rate)).await;
        limited.push(new.lane());
    }
    let (session, capacity) = (fx.session().await, FixedCapacity::of(PLENTY));
    // Both handles know the endpoints from now on.
    for store in handles(fx).take(2) {
        let mut other = fx.message();
        other.message.event_type = name("invoice.made");
        store.append(Append { fast: Some(fast(session, &capacity)), messages: vec![other] }).await.unwrap();
    }
    let work = handles(fx).take(12).map(|store| {
        let (path, messages) = (fast(session, &capacity), vec![fx.message(), fx.message()]);
        async move { store.append(Append { fast: Some(path), messages }).await.unwrap() }
    });
    let mut taken: BTreeMap<LaneId, usize> = BTreeMap::new();
    for answer in at_once(work.collect()).await.into_iter().flatten() {
        let Appended::Accepted { leased, .. } = answer else { panic!("{answer:?}") };
        for (leased, _) in leased {
            *taken.entry(leased.task.lane).or_default() += 1;
        }
    }
    assert_eq!(taken.remove(&free.lane()), Some(24));
    assert_eq!(taken, limited.into_iter().map(|lane| (lane, 1)).collect());
    assert_eq!(fx.lease(session).await.len(), 0);
}

async fn lease_until_none_is_left(store: &dyn Stage, ask: &LeaseAsk, left: &AtomicIsize) -> Vec<Task> {
    let mut tasks = Vec::new();
    for _ in 0..TURNS_MAX {
        if left.load(Ordering::SeqCst) <= 0 {
            break;
        }
        let grant = store.lease(ask.clone()).await.unwrap();
        count_down(left, grant.tasks.len());
        tasks.extend(grant.tasks.into_iter().map(|leased| leased.task));
        tokio::task::yield_now().await;
    }
    tasks
}

/// Counts down. A number below zero means too many, which the case reports.
fn count_down(left: &AtomicIsize, done: usize) {
    left.fetch_sub(isize::try_from(done).expect("it is small"), Ordering::SeqCst);
}

fn sample_task(fx: &Fixture) -> Task {
    let key = TaskKey { environment: fx.here, subject: fx.id(), id: everhook_core::id::TaskId(fx.id()) };
    let lane = everhook_core::id::LaneId(fx.id());
    everhook_store::append::new_delivery(key, lane, everhook_core::task::Trigger::Scheduled, Default::default())
}
