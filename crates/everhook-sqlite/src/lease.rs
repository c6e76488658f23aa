//! Leasing due tasks: lanes first, in the order in which they became ready, then a bounded number of rows from each.
//!
//! Never walks rows that are not due, however many a lane has. Called by the store's `lease`, on the writer's thread.

use std::collections::HashMap;
use std::sync::Arc;

use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, LaneId, TaskId};
use everhook_core::limits::{APPEND_BATCH_BYTES_MAX, LEASE_LANES_MAX, LEASE_TASKS_MAX};
use everhook_core::message::Message;
use everhook_core::task::{PRIORITY_DEFAULT, Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::lease::{DeliveryAsk, LeaseGrant, Leased};
use rusqlite::{Row, params};

use crate::append::Applications;
use crate::error::Fault;
use crate::rows::{self, Reader};
use crate::writer::Tx;

const NEXT_LANE: &str = include_str!("../queries/next_lane.sql");
const LEASE_TASK: &str = include_str!("../queries/lease_task.sql");
const MARK_LANE_EMPTY: &str = include_str!("../queries/mark_lane_empty.sql");
const RECOMPUTE_LANE_DUE: &str = include_str!("../queries/recompute_lane_due.sql");
const FIND_MESSAGE: &str = include_str!("../queries/find_message.sql");

/// Payload bytes one lease brings; the last rows taken may exceed it.
const LEASE_BYTES_MAX: usize = APPEND_BATCH_BYTES_MAX;
/// Rows taken at once, before their payloads are counted.
const LEASE_ROWS_STEP: usize = 16;

/// Leases due tasks to the asking session.
pub(crate) fn lease(tx: &Tx<'_>, ask: &DeliveryAsk) -> Result<LeaseGrant, Fault> {
    let free_by_lane: HashMap<LaneId, usize> = ask.free_by_lane.iter().copied().collect();
    let capacity = |lane: LaneId| free_by_lane.get(&lane).copied().unwrap_or(ask.per_lane);
    let limit = ask.limit.min(LEASE_TASKS_MAX);
    let mut taking = Taking::new(tx, ask, limit);
    let ready = lanes(tx, LEASE_LANES_MAX, |lane| lane.ready_at <= tx.now, |lane| capacity(lane.id) > 0)?;
    for lane in &ready {
        if taking.is_full() {
            break;
        }
        taking.take_from(lane, capacity(lane.id))?;
    }
    let next = lanes(tx, 1, |_| true, |lane| capacity(lane.id) > 0)?;
    Ok(LeaseGrant {
        tasks: taking.tasks,
        jobs: Vec::new(),
        next_ready: next.first().map(|lane| lane.ready_at.since(tx.now)),
    })
}

/// A lane that is or becomes ready.
struct ReadyLane {
    environment: EnvironmentId,
    id: LaneId,
    application: ApplicationId,
    /// Its endpoint is deleted: everything goes out, due or not, to be cancelled.
    is_closing: bool,
    ready_at: Timestamp,
}

/// Lanes in the order in which they become ready, as long as `until` holds; only those that are wanted.
fn lanes(
    tx: &Tx<'_>,
    limit: usize,
    until: impl Fn(&ReadyLane) -> bool,
    wanted: impl Fn(&ReadyLane) -> bool,
) -> Result<Vec<ReadyLane>, Fault> {
    let mut next = tx.conn.prepare_cached(NEXT_LANE)?;
    // Lanes without room are stepped over here: only those with running tasks can have none, so that there are few.
    let mut rows = next.query([])?;
    let mut lanes = Vec::new();
    while lanes.len() < limit
        && let Some(row) = rows.next()?
    {
        let lane = read_lane(row)?;
        if !until(&lane) {
            break;
        }
        if wanted(&lane) {
            lanes.push(lane);
        }
    }
    Ok(lanes)
}

fn read_lane(row: &Row<'_>) -> Result<ReadyLane, Fault> {
    let record = Reader::new(row, "lane");
    Ok(ReadyLane {
        environment: record.environment(0)?,
        id: LaneId(record.id(1, "id")?),
        application: ApplicationId(record.id(2, "application")?),
        is_closing: record.get::<i16>(3, "state")? == 2,
        ready_at: record.time(4, "ready_at")?,
    })
}

/// How a look at a lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanEnd {
    /// It gave all it was asked for and may have more.
    Filled,
    /// The lease is full before the lane was.
    CutOff,
    /// It gave all that is due.
    Drained,
}

/// A lease that is being filled.
struct Taking<'t> {
    tx: &'t Tx<'t>,
    ask: &'t DeliveryAsk,
    limit: usize,
    tasks: Vec<Leased>,
    payload_bytes: usize,
    applications: Applications,
    /// One message may go to many lanes.
    messages: HashMap<(EnvironmentId, Id), Option<Arc<Message>>>,
}

impl<'t> Taking<'t> {
    fn new(tx: &'t Tx<'t>, ask: &'t DeliveryAsk, limit: usize) -> Taking<'t> {
        Taking {
            tx,
            ask,
            limit,
            tasks: Vec::new(),
            payload_bytes: 0,
            applications: Applications::default(),
            messages: HashMap::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.tasks.len() >= self.limit || self.payload_bytes >= LEASE_BYTES_MAX
    }

    /// Leases what is due in a lane, up to its room, and says when it is to be looked at again.
    fn take_from(&mut self, lane: &ReadyLane, capacity: usize) -> Result<(), Fault> {
        let key = (lane.environment.0, lane.id.as_bytes());
        match self.look(lane, capacity)? {
            // It stays first in line.
            ScanEnd::CutOff => {}
            // Behind every lane that is ready already: they take turns.
            ScanEnd::Filled => {
                let next_due = if lane.is_closing { 0 } else { self.tx.now.as_micros() };
                self.tx.conn.prepare_cached(MARK_LANE_EMPTY)?.execute(params![key.0, key.1, next_due])?;
            }
            ScanEnd::Drained => {
                self.tx.conn.prepare_cached(RECOMPUTE_LANE_DUE)?.execute(params![key.0, key.1, PRIORITY_DEFAULT])?;
            }
        }
        Ok(())
    }

    fn look(&mut self, lane: &ReadyLane, capacity: usize) -> Result<ScanEnd, Fault> {
        let mut taken = 0;
        while taken < capacity {
            if self.is_full() {
                return Ok(ScanEnd::CutOff);
            }
            let wanted = (capacity - taken).min(self.limit - self.tasks.len()).min(LEASE_ROWS_STEP);
            let tasks = self.lease_tasks(lane, wanted)?;
            taken += tasks.len();
            let is_drained = tasks.len() < wanted;
            for task in tasks {
                self.add(lane, task)?;
            }
            if is_drained {
                return Ok(ScanEnd::Drained);
            }
        }
        Ok(ScanEnd::Filled)
    }

    fn lease_tasks(&self, lane: &ReadyLane, limit: usize) -> Result<Vec<Task>, Fault> {
        let due_until = if lane.is_closing { Timestamp::NEVER } else { self.tx.now };
        let mut lease = self.tx.conn.prepare_cached(LEASE_TASK)?;
        let params = params![
            lane.environment.0,
            lane.id.as_bytes(),
            PRIORITY_DEFAULT,
            due_until.as_micros(),
            i64::try_from(limit).unwrap_or(i64::MAX),
            self.ask.session.as_bytes(),
            self.tx.now.as_micros(),
        ];
        let rows = lease.query_and_then(params, |row| read_task(row, lane))?;
        let mut tasks = rows.collect::<Result<Vec<_>, Fault>>()?;
        // Rows come back in the order of their keys.
        tasks.sort_by_key(|task| (task.due_at, task.key.id));
        Ok(tasks)
    }

    fn add(&mut self, lane: &ReadyLane, task: Task) -> Result<(), Fault> {
        let message = self.message(lane, task.key.subject)?;
        let endpoints = self.applications.endpoints(self.tx, lane.environment, lane.application)?;
        let endpoint = endpoints.and_then(|set| set.find(EndpointId(lane.id.0)).cloned());
        self.tasks.push(Leased { task, message, endpoint });
        Ok(())
    }

    fn message(&mut self, lane: &ReadyLane, subject: Id) -> Result<Option<Arc<Message>>, Fault> {
        let key = (lane.environment, subject);
        if let Some(known) = self.messages.get(&key) {
            return Ok(known.clone());
        }
        let mut find = self.tx.conn.prepare_cached(FIND_MESSAGE)?;
        let mut rows = find.query(params![lane.environment.0, lane.application.as_bytes(), subject.as_bytes()])?;
        let message = match rows.next()? {
            Some(row) => Some(Arc::new(rows::message(row, lane.application)?)),
            None => None,
        };
        let payload = message.as_ref().and_then(|message| message.payload.as_ref());
        self.payload_bytes += payload.map_or(0, |payload| payload.len());
        self.messages.insert(key, message.clone());
        Ok(message)
    }
}

fn read_task(row: &Row<'_>, lane: &ReadyLane) -> Result<Task, Fault> {
    let record = Reader::new(row, "task");
    let key =
        TaskKey { environment: lane.environment, subject: record.id(0, "subject")?, id: TaskId(record.id(1, "id")?) };
    Ok(Task {
        key,
        lane: lane.id,
        kind: record.variant(2, "kind", TaskKind::from_db)?,
        trigger: record.variant(3, "trigger", Trigger::from_db)?,
        priority: PRIORITY_DEFAULT,
        due_at: record.time(4, "due_at")?,
        tries: record.get(5, "tries")?,
        crashes: record.get(6, "crashes")?,
        epoch: record.get(7, "epoch")?,
        cancel: record.get(8, "cancel")?,
        batch: None,
    })
}
