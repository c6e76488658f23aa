//! Aspects of jobs that the common suite cannot check: pruning beside them, the order of lanes, and rows of a later
//! version.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{Id, JobId, ScheduleId};
use everhook_core::job::{Job, RunAt};
use everhook_core::lifecycle::NextRow;
use everhook_core::schedule::{Cadence, Schedule};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_sqlite::SqliteStore;
use everhook_store::catalog::{Order, Slice};
use everhook_store::job::NewJob;
use everhook_store::lease::{FeedAsk, LeaseAsk};
use everhook_store::query;
use everhook_store::resource::ResourceKey;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::schedule::{ScheduleRecord, Starts};
use everhook_store::store::{Reads, Resources, Store};
use everhook_testkit::conformance::fixture::HOUR;
use rusqlite::Connection;

use crate::sqlite::stage::Stage;

fn job(stage: &Stage) -> Job {
    Job::new(JobId(stage.id()), "q".parse().unwrap(), "k".parse().unwrap(), Bytes::from_static(b"{}"))
}

/// Enqueues a job with a concurrency key.
async fn enqueue_keyed(stage: &Stage, key: &str) -> JobId {
    let job = Job { concurrency_key: Some(key.to_owned()), ..job(stage) };
    let id = job.id;
    let new = NewJob { environment: stage.environment, job, run_at: RunAt::Now, key: None };
    stage.store.enqueue([new].into()).await.unwrap();
    id
}

async fn later(stage: &Stage) -> Timestamp {
    stage.store.now().await.unwrap().plus(HOUR)
}

#[tokio::test]
async fn the_lane_of_a_key_is_forgotten_only_when_no_job_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let session = stage.session().await;
    stage.enqueue(1).await;
    for key in ["done", "dead", "held", "waiting"] {
        enqueue_keyed(&stage, key).await;
    }
    let leased = stage.lease_jobs(session).await;
    assert_eq!(leased.len(), 5);
    for leased in &leased {
        let row = match leased.job().unwrap().concurrency_key.as_deref() {
            None | Some("done") => NextRow::Gone,
            Some("dead") => NextRow::Dead,
            Some("waiting") => NextRow::Pending { due_in: HOUR },
            _ => continue,
        };
        stage.settle(&stage.settlement(&leased.task, session, row)).await;
    }
    assert!(stage.lease_jobs(session).await.is_empty());
    assert_eq!(
        stage.store.prune(Prune { what: Prunable::Sessions, before: later(&stage).await, limit: 100 }).await.unwrap(),
        1
    );
    let lanes = "select count(*) from lane where queue is not null";
    let conn = Connection::open(folder.path().join("everhook.db")).unwrap();
    assert_eq!(conn.query_row(lanes, [], |row| row.get::<_, i64>(0)).unwrap(), 4, "and that of the queue itself stays");
    enqueue_keyed(&stage, "done").await;
    assert_eq!(stage.lease_jobs(session).await.len(), 1, "it comes back with its next job");
}

#[tokio::test]
async fn what_is_open_hides_nothing_that_can_be_forgotten() {
    let stage = Stage::in_memory().await;
    let session = stage.session().await;
    stage.enqueue(5).await;
    let mut leased = stage.lease_jobs(session).await;
    leased.sort_by_key(|leased| leased.task.key.subject);
    for leased in &leased[3..] {
        stage.settle(&stage.settlement(&leased.task, session, NextRow::Gone)).await;
    }
    let before = later(&stage).await;
    assert_eq!(stage.store.prune(Prune { what: Prunable::Jobs, before, limit: 1 }).await.unwrap(), 1);
    assert_eq!(stage.store.prune(Prune { what: Prunable::Jobs, before, limit: 1 }).await.unwrap(), 1);
    assert_eq!(stage.store.prune(Prune { what: Prunable::Jobs, before, limit: 1 }).await.unwrap(), 0);
    assert_eq!(stage.store.read(query::HeldJobs { session }).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_worker_with_little_room_does_not_stay_with_one_key() {
    let stage = Stage::in_memory().await;
    let session = stage.session().await;
    for key in ["a", "a", "a", "b"] {
        enqueue_keyed(&stage, key).await;
    }
    let mut keys = Vec::new();
    for _ in 0..2 {
        // The queue has more capacity than the worker.
        let queue = FeedAsk::queue(stage.environment, "q".parse().unwrap(), 100);
        let ask = LeaseAsk::new(session, 1, vec![queue]);
        let granted = stage.store.lease(ask.clone()).await.unwrap();
        assert_eq!(granted.next_ready, Some(Duration::ZERO), "there is more");
        keys.push(granted.tasks[0].job().unwrap().concurrency_key.clone());
    }
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_schedule_that_cannot_be_read_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    for name in ["bad", "good"] {
        let id = ScheduleId(stage.id());
        let cadence = Cadence::Every { every: HOUR, anchor: Timestamp::default() };
        let record = ScheduleRecord::new(
            name.parse().unwrap(),
            Schedule::new(id, cadence),
            Starts::Job(Box::new(Job { id: JobId(Id::MIN), ..job(&stage) })),
        );
        stage.store.create(Scope::of(stage.environment), record.clone(), None).await.unwrap();
    }
    let conn = Connection::open(folder.path().join("everhook.db")).unwrap();
    let age =
        "update schedule set look_at = 0, next = next - 3600000000; update resource set spec = '{}' where name = 'bad'";
    conn.execute_batch(age).unwrap();
    let fired = stage.store.fire_due(100).await.unwrap();
    assert_eq!(fired.started, 1);
    assert!(fired.next_look.is_some_and(|wait| !wait.is_zero()), "{fired:?}");
    assert_eq!(names(&stage.store, &stage).await, ["good"]);
    assert!(
        stage
            .store
            .read(query::FindSchedule { scope: Scope::of(stage.environment), name: "bad".parse().unwrap() })
            .await
            .is_err()
    );
    assert!(
        stage
            .store
            .delete(Scope::of(stage.environment), ResourceKey::Schedule("bad".parse().unwrap()))
            .await
            .unwrap()
            .is_done()
    );
}

async fn names(store: &SqliteStore, stage: &Stage) -> Vec<String> {
    let slice = Slice { after: None, order: Order::Ascending, limit: 100 };
    let schedules =
        store.read(query::Schedules { scope: Scope::of(stage.environment), slice: slice.clone() }).await.unwrap().rows;
    schedules.into_iter().map(|record| record.name.to_string()).collect()
}
