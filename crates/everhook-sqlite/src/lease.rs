//! Leasing due tasks: lanes first, in the order in which they became ready, then a bounded number of rows from each.
//!
//! Never walks rows that are not due, however many a lane has. Called by the store's `lease`, on the writer's thread.

use std::collections::HashMap;
use std::sync::Arc;

use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, LaneId, TaskId};
use everhook_core::limits::{APPEND_BATCH_BYTES_MAX, LEASE_LANES_MAX, LEASE_TASKS_MAX};
use everhook_core::message::Message;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::lease::{LeaseAsk, LeaseGrant, Leased};
use rusqlite::{OptionalExtension, params};

use crate::append::Applications;
use crate::failure::Fault;
use crate::rows::{self, Record};
use crate::writer::Tx;

const NEXT_LANE: &str = include_str!("../queries/next_lane.sql");
const NEXT_PRIORITY: &str = include_str!("../queries/next_priority.sql");
const NEXT_TASK: &str = include_str!("../queries/next_task.sql");
const LEASE_TASK: &str = include_str!("../queries/lease_task.sql");
const DRAIN_LANE: &str = include_str!("../queries/drain_lane.sql");
const FIND_MESSAGE: &str = include_str!("../queries/find_message.sql");

/// Payload bytes one lease brings; the last task may exceed it.
const LEASE_BYTES_MAX: usize = APPEND_BATCH_BYTES_MAX;

/// Leases due tasks to the asking session.
pub(crate) fn lease(tx: &Tx<'_>, ask: &LeaseAsk) -> Result<LeaseGrant, Fault> {
    let rooms: HashMap<LaneId, usize> = ask.rooms.iter().copied().collect();
    let room = |lane: LaneId| rooms.get(&lane).copied().unwrap_or(ask.per_lane);
    let limit = ask.limit.min(LEASE_TASKS_MAX);
    let mut taking = Taking::new(tx, ask, limit);
    let lanes = lanes(tx, ask.rooms.len() + LEASE_LANES_MAX)?;
    let ready = lanes.iter().take_while(|lane| lane.ready_at <= tx.now).filter(|lane| room(lane.id) > 0);
    for lane in ready.take(LEASE_LANES_MAX) {
        if taking.is_full() {
            break;
        }
        taking.take_from(lane, room(lane.id))?;
    }
    let next = self::lanes(tx, ask.rooms.len() + 1)?.into_iter().find(|lane| room(lane.id) > 0);
    Ok(LeaseGrant { tasks: taking.tasks, next_ready: next.map(|lane| lane.ready_at.since(tx.now)) })
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

fn lanes(tx: &Tx<'_>, limit: usize) -> Result<Vec<ReadyLane>, Fault> {
    let mut next = tx.conn.prepare_cached(NEXT_LANE)?;
    let mut rows = next.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut lanes = Vec::new();
    while let Some(row) = rows.next()? {
        let record = Record::new(row, "lane");
        lanes.push(ReadyLane {
            environment: record.environment(0)?,
            id: LaneId(record.id(1, "id")?),
            application: ApplicationId(record.id(2, "application")?),
            is_closing: record.get::<i16>(3, "state")? == 2,
            ready_at: record.time(4, "ready_at")?,
        });
    }
    Ok(lanes)
}

/// How a look at a lane ended.
enum Look {
    /// It gave all it was asked for and may have more.
    Filled,
    /// The lease is full before the lane was.
    CutOff,
    /// It gave all that is due; the next is due then.
    Drained(Timestamp),
}

/// A lease that is being filled.
struct Taking<'t> {
    tx: &'t Tx<'t>,
    ask: &'t LeaseAsk,
    limit: usize,
    tasks: Vec<Leased>,
    payload_bytes: usize,
    applications: Applications,
    /// One message may go to many lanes.
    messages: HashMap<(EnvironmentId, Id), Option<Arc<Message>>>,
}

impl<'t> Taking<'t> {
    fn new(tx: &'t Tx<'t>, ask: &'t LeaseAsk, limit: usize) -> Taking<'t> {
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

    fn take_from(&mut self, lane: &ReadyLane, room: usize) -> Result<(), Fault> {
        let next_due = match self.look(lane, room)? {
            Look::CutOff => return Ok(()),
            Look::Filled if lane.is_closing => Timestamp::from_micros(0),
            // Behind every lane that is ready already: they take turns.
            Look::Filled => self.tx.now,
            Look::Drained(next_due) => next_due,
        };
        let mut drain = self.tx.conn.prepare_cached(DRAIN_LANE)?;
        drain.execute(params![lane.environment.0, lane.id.as_bytes(), next_due.as_micros()])?;
        Ok(())
    }

    /// Leases what is due in a lane, priority by priority.
    fn look(&mut self, lane: &ReadyLane, room: usize) -> Result<Look, Fault> {
        let mut taken = 0;
        let mut next_due = Timestamp::NEVER;
        let mut priority = next_priority(self.tx, lane, 0)?;
        while let Some(this) = priority {
            // One more than is wanted, to learn when the next is due.
            let wanted = (room - taken).min(self.limit - self.tasks.len());
            for task in tasks(self.tx, lane, this, wanted.saturating_add(1))? {
                if task.due_at > self.tx.now && !lane.is_closing {
                    next_due = next_due.min(task.due_at);
                    break;
                }
                if self.is_full() {
                    return Ok(Look::CutOff);
                }
                self.take(lane, task)?;
                taken += 1;
                if taken == room {
                    return Ok(Look::Filled);
                }
            }
            priority = next_priority(self.tx, lane, this + 1)?;
        }
        Ok(Look::Drained(next_due))
    }

    fn take(&mut self, lane: &ReadyLane, mut task: Task) -> Result<(), Fault> {
        task.epoch += 1;
        self.tx.conn.prepare_cached(LEASE_TASK)?.execute(params![
            task.key.environment.0,
            task.key.subject.as_bytes(),
            task.key.id.as_bytes(),
            self.ask.session.as_bytes(),
            task.epoch,
        ])?;
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

fn next_priority(tx: &Tx<'_>, lane: &ReadyLane, from: i16) -> Result<Option<i16>, Fault> {
    let mut next = tx.conn.prepare_cached(NEXT_PRIORITY)?;
    Ok(next.query_row(params![lane.environment.0, lane.id.as_bytes(), from], |row| row.get(0)).optional()?)
}

fn tasks(tx: &Tx<'_>, lane: &ReadyLane, priority: i16, limit: usize) -> Result<Vec<Task>, Fault> {
    let mut next = tx.conn.prepare_cached(NEXT_TASK)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = next.query(params![lane.environment.0, lane.id.as_bytes(), priority, limit])?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next()? {
        let record = Record::new(row, "task");
        tasks.push(Task {
            key: TaskKey {
                environment: lane.environment,
                subject: record.id(0, "subject")?,
                id: TaskId(record.id(1, "id")?),
            },
            lane: lane.id,
            kind: record.variant(2, "kind", TaskKind::from_db)?,
            trigger: record.variant(3, "trigger", Trigger::from_db)?,
            priority,
            due_at: record.time(4, "due_at")?,
            tries: record.get(5, "tries")?,
            crashes: record.get(6, "crashes")?,
            epoch: record.get(7, "epoch")?,
            cancel: record.get(8, "cancel")?,
        });
    }
    Ok(tasks)
}
