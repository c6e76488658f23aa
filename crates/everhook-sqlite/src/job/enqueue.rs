//! Accepts jobs with their keys, batches, records, tasks and lanes, in the writer's transaction.
//!
//! Each job is decided after the previous one is written, as messages are. Called by the store's `enqueue` and by
//! schedules, on the writer's thread.

use std::collections::BTreeMap;

use everhook_core::batch::{BadChange, BatchChange};
use everhook_core::id::{EnvironmentId, LaneId, TaskId};
use everhook_core::job::{Job, kind_hash};
use everhook_core::name::Name;
use everhook_core::queue::queue_id;
use everhook_core::task::Task;
use everhook_core::time::{Timestamp, micros};
use everhook_store::job::encoding::extra_json;
use everhook_store::job::{Enqueued, NewJob, due_at, judge, keys_of, new_task};
use rusqlite::{CachedStatement, params};

use crate::append::{Waits, lower_lane_due};
use crate::batch;
use crate::dedup::{self, Claims};
use crate::error::Fault;
use crate::rows::names_to_json;
use crate::writer::Tx;

const APPEND_JOB: &str = include_str!("../../queries/append_job.sql");
const APPEND_TASK_JOB: &str = include_str!("../../queries/append_task_job.sql");
const CREATE_LANE_QUEUE: &str = include_str!("../../queries/create_lane_queue.sql");

/// Accepts jobs; one answer for each.
pub(crate) fn enqueue(tx: &Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Fault> {
    let mut bulk = Bulk {
        tx,
        claims: Claims::new(tx)?,
        append_job: tx.conn.prepare_cached(APPEND_JOB)?,
        append_task: tx.conn.prepare_cached(APPEND_TASK_JOB)?,
        lanes: BTreeMap::new(),
    };
    let answers = jobs.iter().map(|new| bulk.accept(new)).collect::<Result<_, Fault>>()?;
    let Bulk { lanes, .. } = bulk;
    let mut create = tx.conn.prepare_cached(CREATE_LANE_QUEUE)?;
    for ((environment, lane), (queue, due)) in lanes {
        let feed = queue_id(environment, &queue);
        create.execute(params![environment.0, lane.as_bytes(), queue.as_str(), feed.as_bytes()])?;
        lower_lane_due(tx, environment, lane, due.as_micros(), Waits::No)?;
    }
    Ok(answers)
}

struct Bulk<'t> {
    tx: &'t Tx<'t>,
    claims: Claims<'t>,
    append_job: CachedStatement<'t>,
    append_task: CachedStatement<'t>,
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
        self.append_job.execute(params![
            environment.0,
            job.id.as_bytes(),
            job.queue.as_str(),
            job.kind.as_str(),
            job.name,
            job.priority.get(),
            job.concurrency_key,
            names_to_json(&job.tags)?,
            job.batch.as_ref().map(|batch| batch.as_bytes()),
            extra_json(job),
            tx.now.as_micros(),
            job.payload.as_deref(),
        ])?;
        self.write_task(job, &task)?;
        let lane = self.lanes.entry((environment, task.lane)).or_insert_with(|| (job.queue.clone(), due_at));
        lane.1 = lane.1.min(due_at);
        Ok(Enqueued::Accepted { created_at: tx.now, due_at })
    }

    fn write_task(&mut self, job: &Job, task: &Task) -> Result<(), Fault> {
        self.append_task.execute(params![
            task.key.environment.0,
            task.key.subject.as_bytes(),
            task.key.id.as_bytes(),
            task.lane.as_bytes(),
            task.kind.to_db(),
            task.trigger.to_db(),
            task.priority,
            task.due_at.as_micros(),
            micros(job.timeout),
            kind_hash(&job.kind),
            task.batch.as_ref().map(|batch| batch.as_bytes()),
        ])?;
        Ok(())
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
