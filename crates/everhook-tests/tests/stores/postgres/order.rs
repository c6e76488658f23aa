//! Transactions lock lanes in key order, and then batches, so that they cannot deadlock.
//!
//! Each case holds the first lock of an enqueue, waits until another transaction waits for it, and then takes the
//! enqueue's next lock.

use bytes::Bytes;
use everhook_core::batch::Resolution;
use everhook_core::id::{BatchId, Id, JobId, LaneId, ScheduleId};
use everhook_core::job::{Job, RunAt};
use everhook_core::lifecycle::NextRow;
use everhook_core::name::Name;
use everhook_core::schedule::{Cadence, Schedule};
use everhook_core::scope::Scope;
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use everhook_store::catalog::Created;
use everhook_store::job::NewJob;
use everhook_store::lease::{FeedAsk, LeaseAsk, Settled, Settlement};
use everhook_store::schedule::{ScheduleRecord, Starts};
use everhook_store::store::{Resources, Store};
use everhook_testkit::conformance::fixture::HOUR;
use tokio_postgres::Client;

use crate::postgres::database::Database;
use crate::postgres::job::until_someone_waits;
use crate::postgres::stage::Stage;

/// Takes a lock, or fails if another transaction holds it.
async fn lock_at_once(client: &Client, table: &str, id: &Id) {
    let sql = format!("select from everhook.{table} where id = $1 for no key update nowait");
    let locked = client.query(&sql, &[&id.as_bytes().as_slice()]).await;
    assert_eq!(locked.expect("nobody has it").len(), 1);
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn job_on(stage: &Stage, queue: &Name) -> Job {
    Job::new(JobId(stage.id()), queue.clone(), name("k"), Bytes::from_static(b"{}"))
}

/// Enqueues a job and leases it, so that its lane has no waiting task.
async fn leased(stage: &Stage, job: Job) -> Task {
    let queue = FeedAsk::queue(stage.environment, job.queue.clone(), 10);
    let new = NewJob { environment: stage.environment, job, run_at: RunAt::Now, key: None };
    stage.store.enqueue([new].into()).await.unwrap();
    let ask = LeaseAsk::new(stage.session, 10, vec![queue]);
    let jobs = stage.store.lease(ask.clone()).await.unwrap().tasks;
    assert_eq!(jobs.len(), 1);
    jobs[0].task
}

#[tokio::test]
async fn whoever_resolves_a_batch_takes_the_lanes_first() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let batch = BatchRecord::new(BatchId(stage.id()), stage.application, "nightly".to_owned(), name("pipeline"));
    stage.store.create_batch(Scope::of(stage.environment), NewBatch { batch: batch.clone(), key: None }).await.unwrap();
    let task = leased(&stage, Job { batch: Some(batch.id), ..job_on(&stage, &name("q")) }).await;
    let dead = Settlement { kind: TaskKind::Job, ..stage.settlement(&task, NextRow::Dead) };
    assert_eq!(stage.store.settle([dead].into()).await.unwrap().answer, [Settled::Done]);
    let enqueue = database.client().await;
    enqueue.batch_execute("begin").await.unwrap();
    lock_at_once(&enqueue, "lane", &task.lane.0).await;
    let dead = [JobId(task.key.subject)];
    let resolve = Resolve { batch: batch.id, jobs: dead.to_vec(), how: Resolution::Retried };
    let resolve = stage.store.resolve_batch(Scope::of(stage.environment), resolve);
    let (resolved, ()) = tokio::join!(resolve, async {
        until_someone_waits(&database).await;
        lock_at_once(&enqueue, "batch", &batch.id.0).await;
        enqueue.batch_execute("commit").await.unwrap();
    });
    assert!(matches!(resolved.unwrap().answer, Resolved::Done(_)));
}

#[tokio::test]
async fn schedules_that_are_due_together_take_their_lanes_in_key_order() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let mut lanes: Vec<(LaneId, Name)> = Vec::new();
    for queue in [name("one"), name("two")] {
        lanes.push((leased(&stage, job_on(&stage, &queue)).await.lane, queue));
    }
    lanes.sort();
    let enqueue = database.client().await;
    // The job of the last lane is the most overdue.
    for (late, (_, queue)) in (1_i64..).zip(&lanes) {
        let record = ScheduleRecord::new(
            queue.clone(),
            Schedule::new(
                ScheduleId(stage.id()),
                Cadence::Every { every: HOUR, anchor: Timestamp::from_millis(1_700_000_000_000) },
            ),
            Starts::Job(Box::new(job_on(&stage, queue))),
        );
        let created = stage.store.create(Scope::of(stage.environment), record.clone(), None).await.unwrap();
        assert!(matches!(created, Created::New(_)), "{created:?}");
        let is_due = "update everhook.schedule set next = everhook.now_us() - $2, look_at = everhook.now_us() - $2 \
            where id = $1";
        let id = record.schedule.id.as_bytes().as_slice();
        enqueue.execute(is_due, &[&id, &(late * 1_000_000)]).await.unwrap();
    }
    enqueue.batch_execute("begin").await.unwrap();
    lock_at_once(&enqueue, "lane", &lanes[0].0.0).await;
    let (fired, ()) = tokio::join!(stage.store.fire_due(10), async {
        until_someone_waits(&database).await;
        lock_at_once(&enqueue, "lane", &lanes[1].0.0).await;
        enqueue.batch_execute("commit").await.unwrap();
    });
    assert_eq!(fired.unwrap().started, 2);
}
