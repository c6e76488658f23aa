//! Accepts jobs with their keys, batches, records, tasks and lanes, in the writer's transaction.
//!
//! Each job is decided after the previous one is written, as messages are. Called by the store's `enqueue` and by
//! schedules, on the writer's thread.

use std::collections::BTreeMap;
use std::time::Duration;

use everhook_core::batch::{BadChange, BatchChange};
use everhook_core::id::{BatchId, EnvironmentId, Id, JobId, LaneId, TaskId};
use everhook_core::job::{Job, Priority, kind_hash};
use everhook_core::name::Name;
use everhook_core::queue::queue_id;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::job::encoding::extra_json;
use everhook_store::job::{Enqueued, NewJob, due_at, judge, keys_of, new_task};
use everhook_store::sql::rows::names;
use everhook_store::statement;

use crate::append::{Waits, lower_lane_due};
use crate::batch;
use crate::dedup::{self, Claims};
use crate::error::Fault;
use crate::sql::{Prepared, prepare, run};
use crate::writer::Tx;

statement! {
    AppendJob<'a> = "append_job" {
        environment: EnvironmentId, id: JobId, queue: &'a Name, kind: &'a Name, name: Option<&'a str>,
        priority: Priority, concurrency_key: Option<&'a str>, tags: Option<String>, batch: Option<BatchId>,
        rest: Option<String>, now: Timestamp, payload: Option<&'a [u8]>,
    };
    AppendTaskJob = "append_task_job" {
        key: TaskKey, lane: LaneId, kind: TaskKind, trigger: Trigger, priority: i16, due_at: Timestamp,
        timeout_us: Duration, kind_hash: i32, batch: Option<BatchId>,
    };
    pub(crate) CreateLaneQueue<'a> = "create_lane_queue" {
        environment: EnvironmentId, id: LaneId, queue: &'a Name, feed: Id,
    };
}

/// Accepts jobs; one answer for each.
pub(crate) fn enqueue(tx: &Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Fault> {
    let mut bulk = Bulk {
        tx,
        claims: Claims::new(tx)?,
        append_job: prepare::<AppendJob<'_>>(tx.conn)?,
        append_task: prepare::<AppendTaskJob>(tx.conn)?,
        lanes: BTreeMap::new(),
    };
    let answers = jobs.iter().map(|new| bulk.accept(new)).collect::<Result<_, Fault>>()?;
    let Bulk { lanes, .. } = bulk;
    for ((environment, lane), (queue, due)) in lanes {
        let feed = queue_id(environment, &queue);
        run(tx.conn, CreateLaneQueue { environment, id: lane, queue: &queue, feed })?;
        lower_lane_due(tx, environment, lane, due, Waits::No)?;
    }
    Ok(answers)
}

struct Bulk<'t> {
    tx: &'t Tx<'t>,
    claims: Claims<'t>,
    append_job: Prepared<'t>,
    append_task: Prepared<'t>,
    /// Each lane with its queue and the due time of its first new job. Lanes are written once, at the end.
    lanes: BTreeMap<(EnvironmentId, LaneId), (Name, Timestamp)>,
}

impl Bulk<'_> {
    fn accept(&mut self, new: &NewJob) -> Result<Enqueued, Fault> {
        let (tx, environment) = (self.tx, new.environment);
        let keys = keys_of(new);
        let mut taken = Vec::new();
        for key in &keys {
            if let Some(holder) = self.claims.claim(environment, key, new.job.id.0)? {
                taken.push((key, holder));
            }
        }
        let refused = match judge(&taken) {
            Some(refused) => refused,
            None => match join_batch(tx, new)? {
                None => return self.write(new),
                Some(refused) => refused,
            },
        };
        // A refused job must not keep the keys that it took.
        for key in keys.iter().filter(|key| !taken.iter().any(|(other, _)| other == key)) {
            dedup::release(tx, environment, key, new.job.id.0)?;
        }
        Ok(refused)
    }

    fn write(&mut self, new: &NewJob) -> Result<Enqueued, Fault> {
        let (tx, environment, job) = (self.tx, new.environment, &new.job);
        let due_at = due_at(new.run_at, tx.now);
        let task = new_task(environment, job, TaskId(tx.ids.next(tx.now)), due_at);
        self.append_job.run(AppendJob {
            environment,
            id: job.id,
            queue: &job.queue,
            kind: &job.kind,
            name: job.name.as_deref(),
            priority: job.priority,
            concurrency_key: job.concurrency_key.as_deref(),
            tags: names(&job.tags),
            batch: job.batch,
            rest: extra_json(job),
            now: tx.now,
            payload: job.payload.as_deref(),
        })?;
        self.write_task(job, &task)?;
        let lane = self.lanes.entry((environment, task.lane)).or_insert_with(|| (job.queue.clone(), due_at));
        lane.1 = lane.1.min(due_at);
        Ok(Enqueued::Accepted { created_at: tx.now, due_at })
    }

    fn write_task(&mut self, job: &Job, task: &Task) -> Result<(), Fault> {
        let Task { key, lane, kind, trigger, priority, due_at, batch, .. } = *task;
        let (timeout_us, kind_hash) = (job.timeout, kind_hash(&job.kind));
        let append = AppendTaskJob { key, lane, kind, trigger, priority, due_at, timeout_us, kind_hash, batch };
        self.append_task.run(append).map(drop)
    }
}

/// Counts a job in its batch; returns the refusal if the batch does not take it.
fn join_batch(tx: &Tx<'_>, new: &NewJob) -> Result<Option<Enqueued>, Fault> {
    let Some(id) = new.job.batch else { return Ok(None) };
    let Some(record) = batch::find(tx.conn, new.environment, id)? else { return Ok(Some(Enqueued::NoBatch)) };
    match record.batch.apply(BatchChange::Added(1)) {
        Ok(applied) => batch::replace(tx, new.environment, id, &applied.batch).map(|()| None),
        Err(BadChange::Sealed) => Ok(Some(Enqueued::BatchSealed)),
        Err(BadChange::Empty | BadChange::Corrupt) => Err(Fault::Corrupt { table: "batch", column: "pending" }),
    }
}
