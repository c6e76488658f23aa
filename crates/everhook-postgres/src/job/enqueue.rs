//! Enqueue: jobs with their tasks, many in one transaction.
//!
//! Round trips: begin and read the clock; take the keys, if there are any; touch the lanes and lock the batches, if there are any; write
//! everything and commit. Lanes come before batches, as they do in a settle, or the two could wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::batch::{BadChange, Change};
use everhook_core::id::{EnvironmentId, LaneId, TaskId};
use everhook_core::job::handler;
use everhook_core::name::Name;
use everhook_core::time::{Timestamp, micros};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, NewJob, due_at, form, judge, keys_of};
use everhook_store::store::Op;
use futures_util::future::{try_join, try_join4};
use tokio_postgres::types::ToSql;

use crate::error::Fault;
use crate::job::batch::{self, BatchKey, Batches};
use crate::job::rows::now;
use crate::keys::{self, Owners};
use crate::rows;
use crate::sql;
use crate::statement::{Ending, Foreign, Statements, within};
use crate::store::PostgresStore;

/// A job that is accepted, with what is written for it.
struct Fresh<'a> {
    new: &'a NewJob,
    task: TaskId,
    lane: LaneId,
    due_at: Timestamp,
}

/// Remembers what it derived last: the jobs of a bulk are mostly alike, and a hash costs more than a comparison.
struct Last<K, V>(Option<(K, V)>);

impl<K: PartialEq, V: Copy> Last<K, V> {
    fn get(&mut self, key: K, derive: impl FnOnce() -> V) -> V {
        match &self.0 {
            Some((last, value)) if *last == key => *value,
            _ => self.0.insert((key, derive())).1,
        }
    }
}

/// The lane of the last job, by what it is derived from.
type LastLane<'a> = Last<(EnvironmentId, &'a Name, Option<&'a str>), LaneId>;

/// The lanes of jobs, each with its queue and the time when its first one is due; in key order, so that two batches cannot deadlock.
type Lanes<'a> = BTreeMap<(EnvironmentId, LaneId), (&'a str, Timestamp)>;

impl PostgresStore {
    pub(crate) async fn enqueue_once(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Fault> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let transaction = self.database.transaction().await?;
        let read_clock = transaction.prepare(&sql::NOW).await?;
        let now = now(&transaction.begin_with(transaction.query(&read_clock, &[])).await?)?;
        self.enqueue_within(&transaction, jobs, now, Ending::Commit).await
    }

    /// Enqueues within a transaction that has begun.
    pub(crate) async fn enqueue_within(
        &self,
        transaction: &impl Statements,
        jobs: &[NewJob],
        now: Timestamp,
        ending: Ending,
    ) -> Result<Vec<Enqueued>, Fault> {
        let keys: Vec<Vec<DedupKey>> = jobs.iter().map(keys_of).collect();
        let wanted = jobs.iter().zip(&keys).map(|(new, keys)| (new.environment, keys.as_slice(), new.job.id.0));
        let mut owners = Owners::take(transaction, keys::claims(wanted)).await?;
        let named = named(jobs);
        let mut batches = Batches::new();
        if !named.is_empty() {
            let mut lane = Last(None);
            let fresh: Vec<Fresh<'_>> = jobs.iter().map(|new| self.plan(new, now, &mut lane)).collect();
            touch(transaction, &lanes(&fresh)).await?;
            batches = batch::lock(transaction, named.iter()).await?;
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
        if fresh.is_empty() {
            owners.correct(transaction).await?;
            return transaction.finish(async { Ok(answers) }, ending).await;
        }
        owners.correct(transaction).await?;
        batch::keep(transaction, &batches).await?;
        Box::pin(write(transaction, &fresh, now, ending)).await?;
        Ok(answers)
    }

    /// Enqueues within the caller's own transaction: the jobs are there when it commits, and never were if it does not. Whoever enqueues
    /// the same unique key elsewhere waits for it, so it had better be short. After an error it can only be rolled back.
    pub async fn enqueue_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let transaction = Foreign(transaction);
        let enqueue = async {
            let now = now(&transaction.rows(&sql::NOW, &[]).await?)?;
            self.enqueue_within(&transaction, jobs, now, Ending::Open).await
        };
        enqueue.await.map_err(|fault: Fault| fault.told(Op::Enqueue))
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

/// Counts a job that is otherwise accepted in its batch, if it has one; answers why it cannot be.
fn add_to_batch(batches: &mut Batches, new: &NewJob) -> Result<Option<Enqueued>, Fault> {
    let Some(id) = new.job.batch else { return Ok(None) };
    let Some(record) = batches.get_mut(&(new.environment, id)) else { return Ok(Some(Enqueued::NoBatch)) };
    match record.batch.apply(Change::Added(1)) {
        Ok(applied) => record.batch = applied.batch,
        Err(BadChange::Sealed) => return Ok(Some(Enqueued::BatchSealed)),
        Err(bad) => return Err(batch::bad_change(bad)),
    }
    Ok(None)
}

/// The batches that are named, in key order.
fn named(jobs: &[NewJob]) -> BTreeSet<BatchKey> {
    jobs.iter().filter_map(|new| Some((new.environment, new.job.batch?))).collect()
}

fn lanes<'a>(fresh: &[Fresh<'a>]) -> Lanes<'a> {
    let mut lanes = Lanes::new();
    for Fresh { new, lane, due_at, .. } in fresh {
        let queue = new.job.queue.as_str();
        let (_, due) = lanes.entry((new.environment, *lane)).or_insert((queue, *due_at));
        *due = (*due_at).min(*due);
    }
    lanes
}

/// Makes lanes that are not there, and tells all of them when their next job is due.
async fn touch(transaction: &impl Statements, lanes: &Lanes<'_>) -> Result<(), Fault> {
    let columns = LaneColumns::new(lanes);
    let (create_lane, touch_lane) =
        (transaction.prepare(&sql::CREATE_LANE_QUEUE).await?, transaction.prepare_touch(&sql::TOUCH_LANE_QUEUE).await?);
    let (created, touched) = (columns.created(), columns.touched());
    within(try_join(transaction.execute(&create_lane, &created), transaction.touch(&touch_lane, &touched)))
        .await
        .map(drop)
}

/// Writes records and tasks and touches their lanes, in one round trip.
async fn write(
    transaction: &impl Statements,
    fresh: &[Fresh<'_>],
    now: Timestamp,
    ending: Ending,
) -> Result<(), Fault> {
    let (lanes, jobs) = (lanes(fresh), JobColumns::new(fresh));
    let columns = LaneColumns::new(&lanes);
    let (create_lane, append_job, append_task, touch_lane) = (
        transaction.prepare(&sql::CREATE_LANE_QUEUE).await?,
        transaction.prepare(&sql::APPEND_JOB).await?,
        transaction.prepare(&sql::APPEND_TASK_JOB).await?,
        transaction.prepare_touch(&sql::TOUCH_LANE_QUEUE).await?,
    );
    let now = now.as_micros();
    let (created, touched, records, tasks) = (columns.created(), columns.touched(), jobs.records(&now), jobs.tasks());
    let writes = try_join4(
        transaction.execute(&create_lane, &created),
        transaction.execute(&append_job, &records),
        transaction.execute(&append_task, &tasks),
        transaction.touch(&touch_lane, &touched),
    );
    transaction.finish(writes, ending).await.map(drop)
}

/// Lanes as columns.
struct LaneColumns<'a> {
    environments: Vec<i32>,
    ids: Vec<&'a [u8]>,
    queues: Vec<&'a str>,
    due: Vec<i64>,
}

impl<'a> LaneColumns<'a> {
    fn new(lanes: &'a Lanes<'a>) -> LaneColumns<'a> {
        LaneColumns {
            environments: lanes.keys().map(|(environment, _)| environment.0).collect(),
            ids: lanes.keys().map(|(_, lane)| lane.as_bytes().as_slice()).collect(),
            queues: lanes.values().map(|(queue, _)| *queue).collect(),
            due: lanes.values().map(|(_, due)| due.as_micros()).collect(),
        }
    }

    fn created(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.environments, &self.ids, &self.queues]
    }

    fn touched(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.environments, &self.ids, &self.due]
    }
}

/// Jobs and their tasks as columns.
struct JobColumns<'a> {
    environments: Vec<i32>,
    ids: Vec<&'a [u8]>,
    queues: Vec<&'a str>,
    kinds: Vec<&'a str>,
    names: Vec<Option<&'a str>>,
    payloads: Vec<Option<&'a [u8]>>,
    priorities: Vec<i16>,
    concurrency_keys: Vec<Option<&'a str>>,
    tags: Vec<Option<String>>,
    batches: Vec<Option<&'a [u8]>>,
    rests: Vec<Option<String>>,
    tasks: Vec<&'a [u8]>,
    lanes: Vec<&'a [u8]>,
    due: Vec<i64>,
    timeouts: Vec<i64>,
    handlers: Vec<i32>,
}

impl<'a> JobColumns<'a> {
    fn new(fresh: &'a [Fresh<'a>]) -> JobColumns<'a> {
        let each = || fresh.iter().map(|fresh| &fresh.new.job);
        let mut last = Last(None);
        JobColumns {
            environments: fresh.iter().map(|fresh| fresh.new.environment.0).collect(),
            ids: each().map(|job| job.id.as_bytes().as_slice()).collect(),
            queues: each().map(|job| job.queue.as_str()).collect(),
            kinds: each().map(|job| job.kind.as_str()).collect(),
            names: each().map(|job| job.name.as_deref()).collect(),
            payloads: each().map(|job| job.payload.as_deref()).collect(),
            priorities: each().map(|job| job.priority.get()).collect(),
            concurrency_keys: each().map(|job| job.concurrency_key.as_deref()).collect(),
            tags: each().map(|job| rows::names(&job.tags)).collect(),
            batches: each().map(|job| job.batch.as_ref().map(|batch| batch.as_bytes().as_slice())).collect(),
            rests: each().map(form::rest).collect(),
            tasks: fresh.iter().map(|fresh| fresh.task.as_bytes().as_slice()).collect(),
            lanes: fresh.iter().map(|fresh| fresh.lane.as_bytes().as_slice()).collect(),
            due: fresh.iter().map(|fresh| fresh.due_at.as_micros()).collect(),
            timeouts: each().map(|job| micros(job.timeout)).collect(),
            handlers: each().map(|job| last.get(&job.kind, || handler(&job.kind))).collect(),
        }
    }

    fn records<'p>(&'p self, now: &'p i64) -> [&'p (dyn ToSql + Sync); 12] {
        [
            &self.environments,
            &self.ids,
            &self.queues,
            &self.kinds,
            &self.names,
            &self.payloads,
            &self.priorities,
            &self.concurrency_keys,
            &self.tags,
            &self.batches,
            &self.rests,
            now,
        ]
    }

    fn tasks(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            &self.environments,
            &self.ids,
            &self.tasks,
            &self.lanes,
            &self.priorities,
            &self.due,
            &self.timeouts,
            &self.handlers,
            &self.batches,
        ]
    }
}
