//! Enqueue: jobs with their tasks, many in one transaction.
//!
//! Round trips: begin and read the clock; take the keys, if there are any; lock lanes and batches, if there are any
//! batches; write everything and commit. Lanes are locked before batches, as in a settle, or the two could deadlock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everhook_core::batch::{BadChange, BatchChange};
use everhook_core::id::{BatchId, EnvironmentId, Id, JobId, LaneId, TaskId};
use everhook_core::job::{Priority, kind_hash};
use everhook_core::name::Name;
use everhook_core::queue::queue_id;
use everhook_core::time::Timestamp;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, NewJob, due_at, encoding, judge, keys_of};
use everhook_store::sql::rows::names;
use everhook_store::store::Op;
use everhook_store::{columns, statement};

use crate::append::{LockLane, LowerLaneDue, lower_known_lanes_due};
use crate::batch::{self, BatchKey, Batches};
use crate::columns::{DueLane, DueLanes};
use crate::dedup::{self, Owners};
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    pub(crate) QueueLanes of QueueLane<'a> { environment: EnvironmentId, id: LaneId, feed: Id, queue: &'a str }

    JobRecords of JobRecord<'a> {
        environment: EnvironmentId,
        id: JobId,
        queue: &'a str,
        kind: &'a str,
        name: Option<&'a str>,
        payload: Option<&'a [u8]>,
        priority: Priority,
        concurrency_key: Option<&'a str>,
        tags: Option<String>,
        batch: Option<BatchId>,
        rest: Option<String>,
    }

    JobTasks of JobTask {
        environment: EnvironmentId,
        subject: JobId,
        id: TaskId,
        lane: LaneId,
        priority: Priority,
        due_at: Timestamp,
        timeout_us: Duration,
        kind_hash: i32,
        batch: Option<BatchId>,
    }
}

statement! {
    pub(crate) CreateLaneQueue<'a> = "create_lane_queue" { fresh: QueueLanes<'a> };
    AppendJob<'a> = "append_job" { fresh: JobRecords<'a>, created_at: Timestamp };
    AppendTaskJob = "append_task_job" { fresh: JobTasks };
}

/// An accepted job, with the data to write for it.
struct Fresh<'a> {
    new: &'a NewJob,
    task: TaskId,
    lane: LaneId,
    due_at: Timestamp,
}

/// Caches the last derived value. The jobs of a bulk request are mostly alike, and a comparison is cheaper than a hash.
struct Last<K, V>(Option<(K, V)>);

impl<K: PartialEq, V: Copy> Last<K, V> {
    fn get(&mut self, key: K, derive: impl FnOnce() -> V) -> V {
        match &self.0 {
            Some((last, value)) if *last == key => *value,
            _ => self.0.insert((key, derive())).1,
        }
    }
}

/// The lane of the last job, by the values that it is derived from.
type LastLane<'a> = Last<(EnvironmentId, &'a Name, Option<&'a str>), LaneId>;

/// The lanes of jobs, each with its queue and the due time of its first job, in key order, so that two batches cannot
/// deadlock.
type Lanes<'a> = BTreeMap<(EnvironmentId, LaneId), (&'a Name, Timestamp)>;

impl PostgresStore {
    pub(crate) async fn enqueue_once(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Fault> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let tx = self.database.tx().await?;
        let now = tx.begin_now().await?;
        self.enqueue_within(&tx, jobs, now).await
    }

    /// Enqueues within a transaction that has begun. Commits it unless it is a part.
    pub(crate) async fn enqueue_within(
        &self,
        tx: &Tx<'_>,
        jobs: &[NewJob],
        now: Timestamp,
    ) -> Result<Vec<Enqueued>, Fault> {
        let keys: Vec<Vec<DedupKey>> = jobs.iter().map(keys_of).collect();
        let wanted = jobs.iter().zip(&keys).map(|(new, keys)| (new.environment, keys.as_slice(), new.job.id.0));
        let mut owners = Owners::take(tx, dedup::claims(wanted)).await?;
        let named = named(jobs);
        let mut batches = Batches::new();
        if !named.is_empty() {
            let mut lane = Last(None);
            let fresh: Vec<Fresh<'_>> = jobs.iter().map(|new| self.plan(new, now, &mut lane)).collect();
            tx.run(tell_lanes(&lanes(&fresh))).await?;
            batches = batch::lock(tx, named.iter()).await?;
        }
        let (mut fresh, mut answers) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        let mut lane = Last(None);
        for (new, keys) in jobs.iter().zip(&keys) {
            let told = match judge(&owners.taken(new.environment, keys)) {
                None => add_to_batch(&mut batches, new)?,
                told => told,
            };
            if let Some(answer) = told {
                answers.push(answer);
                continue;
            }
            owners.claim(new.environment, keys.iter(), new.job.id.0);
            let planned = self.plan(new, now, &mut lane);
            answers.push(Enqueued::Accepted { created_at: now, due_at: planned.due_at });
            fresh.push(planned);
        }
        owners.correct(tx).await?;
        if fresh.is_empty() {
            return tx.finish(()).await.map(|()| answers);
        }
        batch::keep(tx, &batches).await?;
        Box::pin(write(tx, &fresh, now)).await?;
        Ok(answers)
    }

    /// Enqueues within the caller's own transaction: the jobs exist if and when it commits.
    ///
    /// The transaction should be short, because another one with the same unique key waits for it. After an error the
    /// transaction can only be rolled back.
    pub async fn enqueue_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let tx = Tx::within(transaction, &self.database.seal);
        let enqueue = async {
            let now = tx.now().await?;
            self.enqueue_within(&tx, jobs, now).await
        };
        enqueue.await.map_err(|fault: Fault| fault.into_store_error(Op::Enqueue))
    }

    fn plan<'a>(&self, new: &'a NewJob, now: Timestamp, lane: &mut LastLane<'a>) -> Fresh<'a> {
        let derived_from = (new.environment, &new.job.queue, new.job.concurrency_key.as_deref());
        Fresh {
            new,
            task: TaskId(self.ids.next(now)),
            lane: lane.get(derived_from, || new.job.lane(new.environment)),
            due_at: due_at(new.run_at, now),
        }
    }
}

/// Counts an accepted job in its batch, if it has one; returns the reason if the batch refuses it.
fn add_to_batch(batches: &mut Batches, new: &NewJob) -> Result<Option<Enqueued>, Fault> {
    let Some(id) = new.job.batch else { return Ok(None) };
    let Some(record) = batches.get_mut(&(new.environment, id)) else { return Ok(Some(Enqueued::NoBatch)) };
    match record.batch.apply(BatchChange::Added(1)) {
        Ok(applied) => record.batch = applied.batch,
        Err(BadChange::Sealed) => return Ok(Some(Enqueued::BatchSealed)),
        Err(bad) => return Err(batch::bad_change(bad)),
    }
    Ok(None)
}

/// Returns the batches of the jobs, in key order.
fn named(jobs: &[NewJob]) -> BTreeSet<BatchKey> {
    jobs.iter().filter_map(|new| Some((new.environment, new.job.batch?))).collect()
}

fn lanes<'a>(fresh: &[Fresh<'a>]) -> Lanes<'a> {
    let mut lanes = Lanes::new();
    for Fresh { new, lane, due_at, .. } in fresh {
        let (_, due) = lanes.entry((new.environment, *lane)).or_insert((&new.job.queue, *due_at));
        *due = (*due_at).min(*due);
    }
    lanes
}

/// Creates missing lanes, and lowers the due times of all of them.
fn tell_lanes<'a>(lanes: &Lanes<'a>) -> (CreateLaneQueue<'a>, (LockLane, LowerLaneDue)) {
    let (mut fresh, mut due) = (QueueLanes::default(), DueLanes::default());
    for ((environment, id), (queue, due_at)) in lanes {
        let feed = queue_id(*environment, queue);
        fresh.push(QueueLane { environment: *environment, id: *id, feed, queue: queue.as_str() });
        due.push(DueLane::new(*environment, *id, *due_at));
    }
    (CreateLaneQueue { fresh }, lower_known_lanes_due(due))
}

/// Writes records and tasks and lowers the due times of lanes, in one round trip.
async fn write(tx: &Tx<'_>, fresh: &[Fresh<'_>], now: Timestamp) -> Result<(), Fault> {
    let mut last = Last(None);
    let task = |fresh: &'_ Fresh<'_>, kind_hash| JobTask {
        environment: fresh.new.environment,
        subject: fresh.new.job.id,
        id: fresh.task,
        lane: fresh.lane,
        priority: fresh.new.job.priority,
        due_at: fresh.due_at,
        timeout_us: fresh.new.job.timeout,
        kind_hash,
        batch: fresh.new.job.batch,
    };
    let mut tasks = JobTasks::default();
    for fresh in fresh {
        let kind = &fresh.new.job.kind;
        tasks.push(task(fresh, last.get(kind, || kind_hash(kind))));
    }
    let (create_lane, lower_lane_due) = tell_lanes(&lanes(fresh));
    let records = fresh.iter().map(|fresh| JobRecord::new(fresh.new)).collect();
    let append_job = AppendJob { fresh: records, created_at: now };
    let append_task = AppendTaskJob { fresh: tasks };
    tx.finish((create_lane, append_job, append_task, lower_lane_due)).await.map(drop)
}

impl<'a> JobRecord<'a> {
    fn new(new: &'a NewJob) -> JobRecord<'a> {
        let job = &new.job;
        JobRecord {
            environment: new.environment,
            id: job.id,
            queue: job.queue.as_str(),
            kind: job.kind.as_str(),
            name: job.name.as_deref(),
            payload: job.payload.as_deref(),
            priority: job.priority,
            concurrency_key: job.concurrency_key.as_deref(),
            tags: names(&job.tags),
            batch: job.batch,
            rest: encoding::extra_json(job),
        }
    }
}
