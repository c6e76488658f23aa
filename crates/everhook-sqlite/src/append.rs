//! Accepts messages with their keys and deliveries, in the writer's transaction.
//!
//! Each message is decided after the previous one is written. Two messages of one batch that share a key are therefore
//! treated like two batches. Called by the store's `append`, on the writer's thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{ApplicationId, EnvironmentId, LaneId, MessageId, SessionId};
use everhook_core::lane::{HoldKind, LaneState};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::policy::limit::Hold;
use everhook_core::task::{Task, TaskKey, TaskKind, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::{PlannedTask, TakesPosition, accepted, judge, kept_by_suppressed, plan, plan_polled};
use everhook_store::cache::EndpointSet;
use everhook_store::capacity::Slot;
use everhook_store::lease::{Append, Appended, FastPath, NewMessage};
use everhook_store::once::{Suppression, Suppressions};
use everhook_store::sql::rows::names;
use everhook_store::statement;

use crate::dedup::{self, Claims};
use crate::endpoints::Applications;
use crate::error::Fault;
use crate::lease::book_lane;
use crate::once;
use crate::order;
use crate::poll::AppendPolled;
use crate::sql::{Prepared, prepare, run};
use crate::writer::Tx;

statement! {
    pub(crate) FindGroupVersion = "find_group_version" { environment: EnvironmentId, id: ApplicationId } -> Option<i64>;
    AppendMessage<'a> = "append_message" {
        environment: EnvironmentId, application: ApplicationId, id: MessageId, event_type: &'a Name,
        event_id: Option<&'a Name>, channels: Option<String>, tags: Option<String>, payload: Option<&'a [u8]>,
        created_at: Timestamp, rest: Option<String>,
    };
    AppendPayloadExpiry = "append_payload_expiry" {
        due_at: Timestamp, environment: EnvironmentId, application: ApplicationId, message: MessageId,
    };
    AppendTask = "append_task" {
        key: TaskKey, lane: LaneId, kind: TaskKind, trigger: Trigger, priority: i16, due_at: Timestamp, epoch: u32,
        owner: Option<SessionId>, state: TaskState,
    };
    LowerLaneDue = "lower_lane_due" { environment: EnvironmentId, lane: LaneId, due_at: Timestamp, waits: bool };
    // Returns the state, whether new deliveries wait, and the end of the hold.
    FindLane = "find_lane" { environment: EnvironmentId, id: LaneId } -> Option<(LaneState, bool, Timestamp)>;
}

/// Appends messages; one answer for each.
pub(crate) fn append(tx: &Tx<'_>, append: Append) -> Result<Vec<Appended>, Fault> {
    let mut batch = AppendBatch {
        tx,
        fast: append.fast,
        claims: Claims::new(tx)?,
        append_message: prepare::<AppendMessage<'_>>(tx.conn)?,
        append_task: prepare::<AppendTask>(tx.conn)?,
        applications: Applications::default(),
        lanes: BTreeMap::new(),
        booked: BTreeMap::new(),
        suppressed: Suppressions::default(),
    };
    let answers = append.messages.into_iter().map(|new| batch.append(new)).collect::<Result<_, Fault>>()?;
    for ((environment, lane), hold_until) in &batch.booked {
        book_lane(tx, (*environment, *lane), Hold { until: *hold_until, kind: HoldKind::RateLimit })?;
    }
    once::log(tx, &batch.suppressed)?;
    Ok(answers)
}

/// Writes a message, and when to erase its payload.
pub(crate) fn write_message(tx: &Tx<'_>, environment: EnvironmentId, message: &Message) -> Result<(), Fault> {
    write_message_with(&mut prepare::<AppendMessage<'_>>(tx.conn)?, tx, environment, message)
}

fn write_message_with(
    append_message: &mut Prepared<'_>,
    tx: &Tx<'_>,
    environment: EnvironmentId,
    message: &Message,
) -> Result<(), Fault> {
    let (application, id) = (message.application, message.id);
    append_message.run(AppendMessage {
        environment,
        application,
        id,
        event_type: &message.event_type,
        event_id: message.event_id.as_ref(),
        channels: names(&message.channels),
        tags: names(&message.tags),
        payload: message.payload.as_deref(),
        created_at: message.created_at,
        rest: message.rest.to_json(),
    })?;
    if let Some(due_at) = message.rest.payload_until {
        run(tx.conn, AppendPayloadExpiry { due_at, environment, application, message: id })?;
    }
    Ok(())
}

impl AppendTask {
    /// A new task, leased to `owner` or pending.
    fn new(task: &Task, owner: Option<SessionId>) -> AppendTask {
        let Task { key, lane, kind, trigger, priority, due_at, epoch, .. } = *task;
        let state = if owner.is_some() { TaskState::Leased } else { TaskState::Pending };
        AppendTask { key, lane, kind, trigger, priority, due_at, epoch, owner, state }
    }
}

/// Adds a pending task, and lowers the due time of its lane.
pub(crate) fn add_pending(tx: &Tx<'_>, task: &Task) -> Result<(), Fault> {
    let placed = order::placed(tx, task, TakesPosition::Behind)?;
    run(tx.conn, AppendTask::new(&placed, None))?;
    lower_lane_due(tx, task.key.environment, task.lane, task.due_at, Waits::No)
}

/// Whether later deliveries must wait behind a pending task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The task is new, and the node had no slot for it.
    Yes,
    /// Later deliveries may overtake it.
    No,
}

/// Lowers the due time of a lane to `due_at`.
pub(crate) fn lower_lane_due(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    lane: LaneId,
    due_at: Timestamp,
    waits: Waits,
) -> Result<(), Fault> {
    run(tx.conn, LowerLaneDue { environment, lane, due_at, waits: waits == Waits::Yes }).map(drop)
}

/// The state of a lane for the rest of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchLane {
    /// Tasks may be inserted already leased. A rate limit raises the hold.
    Free { hold_until: Timestamp },
    /// The lane is held, or new deliveries wait in it, which no later one may overtake.
    Busy,
    /// Like `Busy`, and its due time is already lowered.
    Touched,
}

struct AppendBatch<'t> {
    tx: &'t Tx<'t>,
    fast: Option<FastPath>,
    claims: Claims<'t>,
    append_message: Prepared<'t>,
    append_task: Prepared<'t>,
    applications: Applications,
    lanes: BTreeMap<(EnvironmentId, LaneId), BatchLane>,
    /// Lanes whose permits were taken, with their holds.
    booked: BTreeMap<(EnvironmentId, LaneId), Timestamp>,
    suppressed: Suppressions,
}

impl AppendBatch<'_> {
    fn append(&mut self, new: NewMessage) -> Result<Appended, Fault> {
        let tx = self.tx;
        let mut taken = Vec::new();
        for key in &new.keys {
            if let Some(holder) = self.claims.claim(new.environment, key, new.message.id.0)? {
                taken.push((key, holder));
            }
        }
        let refused = match judge(&taken) {
            Some(refused) => refused,
            None => match self.admit(&new)? {
                Ok(endpoints) => return self.write(new, &endpoints),
                Err(refused) => refused,
            },
        };
        // A refused message must not keep the keys that it took.
        for key in new.keys.iter().filter(|key| !taken.iter().any(|(other, _)| other == key)) {
            dedup::release(tx, new.environment, key, new.message.id.0)?;
        }
        if let Appended::Suppressed(winner) = &refused {
            for key in kept_by_suppressed(&new.keys) {
                self.claims.claim(new.environment, key, winner.0)?;
            }
        }
        Ok(refused)
    }

    /// Returns the endpoints for a message whose keys are free, or the refusal: no application, or a once-slot of
    /// another message.
    fn admit(&mut self, new: &NewMessage) -> Result<Result<Arc<EndpointSet>, Appended>, Fault> {
        let (tx, environment, application) = (self.tx, new.environment, new.message.application);
        let is_same = |set: &Arc<EndpointSet>| new.version.is_none_or(|found_at| found_at == set.version);
        let Some(endpoints) = self.applications.endpoints(tx, environment, application)?.filter(is_same) else {
            return Ok(Err(Appended::NoApplication));
        };
        let Some(claim) = &new.once else { return Ok(Ok(endpoints)) };
        let Some(winner) = once::take(tx, environment, &new.message, claim)? else { return Ok(Ok(endpoints)) };
        self.suppressed.add(Suppression { environment, application, key: claim.key.clone(), winner });
        Ok(Err(Appended::Suppressed(winner)))
    }

    fn write(&mut self, new: NewMessage, endpoints: &EndpointSet) -> Result<Appended, Fault> {
        let tx = self.tx;
        let addressing = new.addressing();
        let NewMessage { environment, message, .. } = new;
        let message = Arc::new(Message { created_at: tx.now, ..message });
        write_message_with(&mut self.append_message, tx, environment, &message)?;
        let (mut fault, group) = (None, GroupId { environment, id: message.application.0 });
        let planned = plan(environment, &message, endpoints, tx.ids, tx.now, addressing, |endpoint| {
            self.take_slot(GroupedLane { group, lane: endpoint.id.lane() }, endpoint).unwrap_or_else(|failed| {
                fault = Some(failed);
                None
            })
        });
        if let Some(fault) = fault {
            return Err(fault);
        }
        for planned in &planned {
            let PlannedTask { task, slot, .. } = planned;
            let owner = self.fast.as_ref().filter(|_| slot.is_some()).map(|fast| fast.session);
            if planned.takes_position(tx.now) {
                order::append(tx, task, planned.place)?;
            } else {
                self.append_task.run(AppendTask::new(task, owner))?;
            }
            if slot.is_none() && self.must_touch(task) {
                // A task that is due later does not make due tasks wait.
                let waits = if task.due_at > tx.now { Waits::No } else { Waits::Yes };
                lower_lane_due(tx, environment, task.lane, task.due_at, waits)?;
            }
        }
        for (endpoint, due_at) in plan_polled(&message, endpoints, tx.now, addressing) {
            run(tx.conn, AppendPolled { environment, endpoint, message: message.id, due_at })?;
        }
        Ok(accepted(message, planned))
    }

    /// Whether the due time of the task's lane must be lowered. Once per batch is enough for tasks that are due now.
    fn must_touch(&mut self, task: &Task) -> bool {
        task.due_at > self.tx.now
            || self.lanes.insert((task.key.environment, task.lane), BatchLane::Touched) != Some(BatchLane::Touched)
    }

    /// Reserves a slot of this node, if the task overtakes no other in its lane.
    fn take_slot(&mut self, grouped: GroupedLane, endpoint: &Endpoint) -> Result<Option<Slot>, Fault> {
        let Some(fast) = &self.fast else { return Ok(None) };
        let (environment, lane) = (grouped.group.environment, grouped.lane);
        let state = match self.lanes.get(&(environment, lane)) {
            Some(state) => *state,
            None => {
                let state = find_lane(self.tx, environment, lane)?;
                self.lanes.insert((environment, lane), state);
                state
            }
        };
        let BatchLane::Free { hold_until: held_until } = state else { return Ok(None) };
        let mut hold_until = held_until;
        let slot = fast.reserve(grouped, endpoint, &mut hold_until, self.tx.now);
        if slot.is_none() {
            // This task waits, so every later task of the batch must wait behind it.
            self.lanes.insert((environment, lane), BatchLane::Busy);
        } else if hold_until != held_until {
            self.lanes.insert((environment, lane), BatchLane::Free { hold_until });
            self.booked.insert((environment, lane), hold_until);
        }
        Ok(slot)
    }
}

fn find_lane(tx: &Tx<'_>, environment: EnvironmentId, lane: LaneId) -> Result<BatchLane, Fault> {
    let found = run(tx.conn, FindLane { environment, id: lane })?;
    let (state, waiting, hold_until) = found.ok_or(Fault::Corrupt { table: "lane", column: "id" })?;
    let free = state == LaneState::Open && !waiting && hold_until <= tx.now;
    Ok(if free { BatchLane::Free { hold_until } } else { BatchLane::Busy })
}
