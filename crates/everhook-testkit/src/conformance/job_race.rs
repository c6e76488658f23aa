//! Concurrent operations on jobs: limits, unique keys, announcements, wake-ups.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everhook_core::id::BatchId;
use everhook_core::job::{JobState, Unique};
use everhook_core::scope::Scope;
use everhook_store::batch::{BatchRecord, NewBatch};
use everhook_store::catalog::Created;
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::lease::{LeaseAsk, Settled};
use everhook_store::steer::Steer;

use crate::conformance::fixture::{Fixture, HOUR, name};
use crate::conformance::job_stage::{Ends, nodes};
use crate::conformance::race::at_once;

/// Leases of one worker before a case gives up.
const TURNS_MAX: usize = 20_000;

pub(super) async fn a_limit_is_never_exceeded_however_many_lease(fx: &Fixture) {
    const LIMIT: usize = 3;
    const JOBS: usize = 60;
    fx.configure("q", |queue| queue.limit = Some(3)).await;
    for n in 0..JOBS {
        let mut new = fx.job();
        new.job.concurrency_key = (n % 3 > 0).then(|| (n % 7).to_string());
        fx.accept(new).await;
    }
    let (done, running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = Vec::new();
    for store in nodes(fx).take(6) {
        let session = fx.session().await;
        let ask = LeaseAsk { limit: 2, ..fx.job_ask(session) };
        let sample = fx.job_end(
            &everhook_store::job::new_task(
                fx.here,
                &fx.job().job,
                everhook_core::id::TaskId(fx.id()),
                Default::default(),
            ),
            session,
            Ends::Well,
        );
        let (done, running) = (Arc::clone(&done), Arc::clone(&running));
        workers.push(async move {
            for turn in 0..TURNS_MAX {
                if done.load(Ordering::SeqCst) == JOBS {
                    return;
                }
                for leased in store.lease(ask.clone()).await.unwrap().tasks {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= LIMIT, "{now} at once");
                    tokio::task::yield_now().await;
                    let mut end = sample.clone();
                    (end.key, end.lane, end.epoch) = (leased.task.key, leased.task.lane, leased.task.epoch);
                    let attempt = end.attempt.as_mut().expect("it is logged");
                    attempt.id = everhook_core::id::AttemptId(leased.task.key.id.0);
                    // The job counts as ended before the store is told, because another worker may lease as soon as the
                    // store knows.
                    running.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(store.settle([end].into()).await.unwrap().answer, [Settled::Done]);
                    done.fetch_add(1, Ordering::SeqCst);
                }
                assert!(turn + 1 < TURNS_MAX, "jobs were forgotten");
                tokio::task::yield_now().await;
            }
        });
    }
    at_once(workers).await;
    assert_eq!(done.load(Ordering::SeqCst), JOBS);
}

pub(super) async fn a_unique_key_at_once_is_one_job(fx: &Fixture) {
    for round in 0..3 {
        let unique = |_| {
            let mut new = fx.job();
            new.job.unique = Some(Unique { key: round.to_string(), window: HOUR });
            new
        };
        let jobs: Vec<NewJob> = (0..16).map(unique).collect();
        let ids: Vec<_> = jobs.iter().map(|new| new.job.id).collect();
        let enqueues = nodes(fx).zip(jobs).map(|(store, new)| async move {
            let id = new.job.id;
            match &store.enqueue([new].into()).await.unwrap()[..] {
                [Enqueued::Accepted { .. }] => (id, true),
                [Enqueued::Existing(other)] => (*other, false),
                other => panic!("{other:?}"),
            }
        });
        let answers = at_once(enqueues.collect()).await;
        let named: HashSet<_> = answers.iter().map(|(id, _)| *id).collect();
        assert_eq!(named.len(), 1, "all are told of one job: {answers:?}");
        assert_eq!(answers.iter().filter(|(_, accepted)| *accepted).count(), 1);
        assert!(ids.contains(named.iter().next().unwrap()));
    }
    assert_eq!(fx.end_jobs(Ends::Well).await, 3);
}

pub(super) async fn the_last_two_jobs_of_a_batch_at_once_are_one_announcement(fx: &Fixture) {
    fx.endpoint().await;
    for round in 0..10 {
        let record = BatchRecord::new(BatchId(fx.id()), fx.application, round.to_string(), name("pipeline"));
        assert!(matches!(
            fx.other.create_batch(fx.scope(), NewBatch { batch: record.clone(), key: None }).await.unwrap(),
            Created::New(_)
        ));
        for _ in 0..2 {
            let mut new = fx.job();
            new.job.batch = Some(record.id);
            fx.accept(new).await;
        }
        fx.other.seal_batch(fx.scope(), record.id).await.unwrap();
        let session = fx.session().await;
        let ends = if round % 2 == 0 { Ends::Well } else { Ends::Dead };
        let jobs = fx.lease_jobs(session).await;
        let settlements: Vec<_> = jobs.iter().map(|leased| fx.job_end(&leased.task, session, ends)).collect();
        assert_eq!(settlements.len(), 2);
        let settle = nodes(fx)
            .zip(settlements)
            .map(|(store, end)| async move { store.settle([end].into()).await.unwrap().answer });
        assert!(at_once(settle.collect()).await.iter().all(|settled| settled[..] == [Settled::Done]));
        let deliverer = fx.session().await;
        let said = fx.lease(deliverer).await;
        assert_eq!(said.len(), 1, "one announcement: {said:?}");
        let want = if ends == Ends::Well { "pipeline.completed" } else { "pipeline.failed" };
        assert_eq!(said[0].message().unwrap().event_type, name(want));
        fx.end(&said[0].task, deliverer, everhook_core::lifecycle::NextRow::Gone).await;
    }
}

pub(super) async fn what_is_enqueued_while_lanes_are_drained_is_not_forgotten(fx: &Fixture) {
    const JOBS: usize = 100;
    let taken = Arc::new(AtomicUsize::new(0));
    let batches: Vec<Vec<NewJob>> = (0..4).map(|_| (0..25).map(|_| fx.job()).collect()).collect();
    let mut work: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
    for (store, batch) in nodes(fx).zip(batches) {
        work.push(Box::pin(async move {
            for new in batch {
                store.enqueue([new].into()).await.unwrap();
                tokio::task::yield_now().await;
            }
        }));
    }
    for store in nodes(fx).take(2) {
        let (ask, taken) = (fx.job_ask(fx.session().await), Arc::clone(&taken));
        work.push(Box::pin(async move {
            for _ in 0..TURNS_MAX {
                if taken.load(Ordering::SeqCst) == JOBS {
                    return;
                }
                taken.fetch_add(store.lease(ask.clone()).await.unwrap().tasks.len(), Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        }));
    }
    at_once(work).await;
    assert_eq!(taken.load(Ordering::SeqCst), JOBS);
}

pub(super) async fn a_job_is_cancelled_or_leased_never_both(fx: &Fixture) {
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(fx.work().await);
    }
    let ask = LeaseAsk { limit: 3, ..fx.job_ask(fx.session().await) };
    let (leasing, steering, here) = (Arc::clone(&fx.store), Arc::clone(&fx.other), fx.here);
    let cancelled = ids.clone();
    let mut work: Vec<std::pin::Pin<Box<dyn Future<Output = usize> + Send>>> = Vec::new();
    work.push(Box::pin(async move {
        let mut leased = 0;
        for _ in 0..20 {
            leased += leasing.lease(ask.clone()).await.unwrap().tasks.len();
            tokio::task::yield_now().await;
        }
        leased
    }));
    work.push(Box::pin(async move {
        let mut ended = 0;
        for portion in cancelled.chunks(4) {
            let plans = steering
                .steer(
                    Scope::of(here),
                    Steer::Jobs { ids: portion.to_vec(), command: everhook_core::job::OperatorCommand::Cancel },
                )
                .await
                .unwrap()
                .answer
                .plans;
            ended += plans.iter().filter(|plan| **plan == Some(everhook_core::job::JobAction::Cancel)).count();
        }
        ended
    }));
    let total: usize = at_once(work).await.into_iter().sum();
    let mut left = 0;
    for id in ids {
        left += usize::from(fx.job_state(id).await == JobState::Pending);
    }
    assert_eq!(total + left, 40);
}
