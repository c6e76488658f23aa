//! Promises about jobs that only this store makes: lanes removed during an enqueue, dropped weeks, and binaries without
//! jobs.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{BatchId, Id, JobId};
use everhook_core::job::{Job, JobState, RunAt};
use everhook_core::lifecycle::NextRow;
use everhook_core::queue::Queue;
use everhook_core::scope::Scope;
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, NewBatch};
use everhook_store::ids::Ids;
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::lease::{FeedAsk, LeaseAsk, Settled, Settlement};
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::store::{Reads, Resources, Store};

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

const HOUR: Duration = Duration::from_secs(3600);

fn job(stage: &Stage, id: Id) -> NewJob {
    let job = Job::new(JobId(id), "q".parse().unwrap(), "k".parse().unwrap(), Bytes::from_static(b"{}"));
    NewJob { environment: stage.environment, job, run_at: RunAt::Now, key: None }
}

async fn lease(stage: &Stage) -> Vec<Task> {
    let queue = FeedAsk::queue(stage.environment, "q".parse().unwrap(), 1000);
    let ask = LeaseAsk::new(stage.session, 1000, vec![queue]);
    stage.store.lease(ask.clone()).await.unwrap().tasks.into_iter().map(|leased| leased.task).collect()
}

async fn end(stage: &Stage, task: &Task) {
    let end = Settlement { kind: TaskKind::Job, ..stage.settlement(task, NextRow::Gone) };
    assert_eq!(stage.store.settle([end].into()).await.unwrap().answer, [Settled::Done]);
}

/// Waits until a transaction in this database waits for a lock.
pub(crate) async fn until_someone_waits(database: &Database) {
    let waiting = "select count(*) from pg_stat_activity \
        where wait_event_type = 'Lock' and datname = current_database()";
    let watcher = database.client().await;
    while watcher.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_lane_that_is_removed_while_someone_enqueues_is_made_again() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    stage.store.enqueue([job(&stage, stage.id())].into()).await.unwrap();
    end(&stage, &lease(&stage).await[0]).await;
    assert!(lease(&stage).await.is_empty(), "the lane was drained");
    // Blocks an enqueue between finding its lane and updating it.
    let stop = "create function everhook.stop() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock(7); return null; end $$;
        create trigger stop before insert on everhook.job for each statement execute function everhook.stop();
        select pg_advisory_lock(7)";
    let pruner = database.client().await;
    pruner.batch_execute(stop).await.unwrap();
    let new = [job(&stage, stage.id())];
    let (answers, ()) = tokio::join!(stage.store.enqueue(new.clone().into()), async {
        until_someone_waits(&database).await;
        pruner.batch_execute("delete from everhook.lane where queue is not null").await.unwrap();
        pruner.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
    });
    assert!(matches!(answers.unwrap()[..], [Enqueued::Accepted { .. }]));
    assert_eq!(lease(&stage).await.len(), 1, "it is found");
}

#[tokio::test]
async fn a_limited_queue_that_another_lease_holds_is_left_out() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let queue = Queue { limit: Some(1), ..Queue::new("q".parse().unwrap()) };
    stage.store.replace(Scope::of(stage.environment), queue.clone()).await.unwrap();
    stage.store.enqueue([job(&stage, stage.id())].into()).await.unwrap();
    let other = database.client().await;
    other.batch_execute("begin; select from everhook.lane_group for no key update").await.unwrap();
    assert!(lease(&stage).await.is_empty(), "whoever holds it may be about to take the last place");
    other.batch_execute("commit").await.unwrap();
    assert_eq!(lease(&stage).await.len(), 1);
}

#[tokio::test]
async fn whoever_ends_the_last_job_waits_for_who_ends_the_one_before() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let batch =
        BatchRecord::new(BatchId(stage.id()), stage.application, "nightly".to_owned(), "pipeline".parse().unwrap());
    stage.store.create_batch(Scope::of(stage.environment), NewBatch { batch: batch.clone(), key: None }).await.unwrap();
    for _ in 0..2 {
        let mut new = job(&stage, stage.id());
        new.job.batch = Some(batch.id);
        stage.store.enqueue([new].into()).await.unwrap();
    }
    stage.store.seal_batch(Scope::of(stage.environment), batch.id).await.unwrap();
    let tasks = lease(&stage).await;
    let other = database.client().await;
    let one_ended = "begin; update everhook.batch set pending = pending - 1, succeeded = succeeded + 1";
    other.batch_execute(one_ended).await.unwrap();
    let ((), ()) = tokio::join!(end(&stage, &tasks[0]), async {
        until_someone_waits(&database).await;
        other.batch_execute("commit").await.unwrap();
    });
    let said = stage.lease(10).await.unwrap();
    assert_eq!(said.len(), 1, "both have ended: {said:?}");
}

#[tokio::test]
async fn lanes_in_which_nothing_is_are_removed_and_no_others() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    for key in ["idle", "leased", "later"] {
        let mut new = job(&stage, stage.id());
        new.job.concurrency_key = Some(key.to_owned());
        if key == "later" {
            new.run_at = RunAt::In(HOUR);
        }
        stage.store.enqueue([new].into()).await.unwrap();
    }
    let tasks = lease(&stage).await;
    assert_eq!(tasks.len(), 2);
    let leased = tasks.iter().find(|task| task.lane == lane(&stage, "leased")).unwrap();
    let idle = tasks.iter().find(|task| task.lane == lane(&stage, "idle")).unwrap();
    end(&stage, idle).await;
    lease(&stage).await;
    stage.store.prune(Prune { what: Prunable::Sessions, before: Timestamp::default(), limit: 100 }).await.unwrap();
    let left = "select count(*) from everhook.lane where queue is not null";
    let client = database.client().await;
    assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 3, "these two, and the queue's own");
    let again =
        Settlement { kind: TaskKind::Job, ..stage.settlement(leased, NextRow::Pending { due_in: Duration::ZERO }) };
    assert_eq!(stage.store.settle([again].into()).await.unwrap().answer, [Settled::Done]);
    assert_eq!(lease(&stage).await.len(), 1, "what goes back to its lane is found there");
}

fn lane(stage: &Stage, key: &str) -> everhook_core::id::LaneId {
    everhook_core::job::lane(stage.environment, &"q".parse().unwrap(), Some(key))
}

#[tokio::test]
async fn a_week_of_which_nothing_is_open_is_dropped_as_a_whole() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let now = stage.store.now().await.unwrap();
    let (long_ago, ids) = (now.minus(60 * 24 * HOUR), Ids::from_system());
    let old: Vec<NewJob> = (0..3).map(|_| job(&stage, ids.next(long_ago))).collect();
    stage.store.enqueue(old.clone().into()).await.unwrap();
    let tasks = lease(&stage).await;
    for task in &tasks[..2] {
        end(&stage, task).await;
    }
    let (before, client) = (now.plus(HOUR), database.client().await);
    let weeks = async || {
        let count = "select count(*) from pg_inherits where inhparent = 'everhook.job'::regclass";
        client.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    let all = weeks().await;
    stage.store.prune(Prune { what: Prunable::Jobs, before, limit: 1 }).await.unwrap();
    assert_eq!(weeks().await, all, "one of them is open");
    let open = JobId(tasks[2].key.subject);
    assert_eq!(
        stage
            .store
            .read(query::FindJob { scope: Scope::of(stage.environment), id: open })
            .await
            .unwrap()
            .unwrap()
            .state,
        JobState::Leased
    );
    end(&stage, &tasks[2]).await;
    stage.store.prune(Prune { what: Prunable::Jobs, before: now.minus(HOUR), limit: 100 }).await.unwrap();
    assert!(
        stage.store.read(query::FindJob { scope: Scope::of(stage.environment), id: open }).await.unwrap().is_some(),
        "it has just ended"
    );
    stage.store.prune(Prune { what: Prunable::Jobs, before, limit: 1 }).await.unwrap();
    assert_eq!(weeks().await, all - 1);
    assert_eq!(stage.store.read(query::FindJob { scope: Scope::of(stage.environment), id: open }).await.unwrap(), None);
    // A late job with an old id finds its week again.
    let late = job(&stage, ids.next(long_ago));
    assert!(matches!(stage.store.enqueue([late].into()).await.unwrap()[..], [Enqueued::Accepted { .. }]));
}

#[tokio::test]
async fn a_week_that_could_not_be_dropped_is_left_alone_for_a_while() {
    /// As long as the longest pause of `retention`.
    const PAUSE: Duration = Duration::from_secs(600);
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let now = stage.store.now().await.unwrap();
    let old: Vec<NewJob> = (0..2).map(|_| job(&stage, Ids::from_system().next(now.minus(60 * 24 * HOUR)))).collect();
    stage.store.enqueue(old.clone().into()).await.unwrap();
    for task in lease(&stage).await {
        end(&stage, &task).await;
    }
    let (before, client, reader) = (now.plus(HOUR), database.client().await, database.client().await);
    let weeks = async || {
        let count = "select count(*) from pg_inherits where inhparent = 'everhook.job'::regclass";
        client.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    let all = weeks().await;
    reader.batch_execute("begin; select from everhook.job").await.unwrap();
    let prune = async |before| stage.store.prune(Prune { what: Prunable::Jobs, before, limit: 1 }).await.unwrap();
    assert_eq!((prune(before).await, weeks().await), (1, all), "one by one, since someone reads");
    reader.batch_execute("commit").await.unwrap();
    assert_eq!((prune(before).await, weeks().await), (1, all), "each try would hold up traffic");
    assert_eq!((prune(before.plus(PAUSE / 2)).await, weeks().await), (0, all));
    prune(before.plus(PAUSE)).await;
    assert_eq!(weeks().await, all - 1, "but not for ever");
}
