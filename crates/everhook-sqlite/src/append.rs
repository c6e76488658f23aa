//! Accepts messages with their keys and deliveries, in the writer's transaction.
//!
//! Each message is decided after the previous one is written. Two messages of one batch that share a key are therefore
//! treated like two batches. Called by the store's `append`, on the writer's thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::fanout;
use everhook_core::id::{ApplicationId, EnvironmentId, Id, LaneId};
use everhook_core::lane::HoldKind;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::policy::limit::Hold;
use everhook_core::resource::environment_policy_id;
use everhook_core::scope::AppScope;
use everhook_core::task::{Task, TaskState};
use everhook_core::time::Timestamp;
use everhook_store::append::{PlannedTask, TakesPosition, accepted, judge, kept_by_suppressed, plan, plan_polled};
use everhook_store::cache::EndpointSet;
use everhook_store::capacity::Slot;
use everhook_store::lease::{Append, Appended, FastPath, NewMessage};
use everhook_store::once::{Suppression, Suppressions};
use everhook_store::resource::encoding;
use everhook_store::statement;
use rusqlite::{CachedStatement, params};

use crate::connection::Connection;
use crate::dedup::{self, Claims};
use crate::error::Fault;
use crate::lease::book_lane;
use crate::once;
use crate::order;
use crate::poll::AppendPolled;
use crate::rows::{self, Reader};
use crate::sql::run;
use crate::writer::Tx;

const APPEND_MESSAGE: &str = include_str!("../queries/append_message.sql");
const APPEND_PAYLOAD_EXPIRY: &str = include_str!("../queries/append_payload_expiry.sql");
const APPEND_TASK: &str = include_str!("../queries/append_task.sql");
const LOWER_LANE_DUE: &str = include_str!("../queries/lower_lane_due.sql");
const FIND_LANE: &str = include_str!("../queries/find_lane.sql");

statement! {
    pub(crate) FindGroupVersion = "find_group_version" { environment: EnvironmentId, id: ApplicationId } -> Option<i64>;
    ListEndpointApplication = "list_endpoint_application" {
        environment: EnvironmentId, application: ApplicationId, policy: Id,
    } -> Vec<(Endpoint, Option<String>, Option<String>)>;
}

/// Appends messages; one answer for each.
pub(crate) fn append(tx: &Tx<'_>, append: Append) -> Result<Vec<Appended>, Fault> {
    let mut batch = AppendBatch {
        tx,
        fast: append.fast,
        claims: Claims::new(tx)?,
        append_message: tx.conn.prepare_cached(APPEND_MESSAGE)?,
        append_task: tx.conn.prepare_cached(APPEND_TASK)?,
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
    write_message_with(&mut tx.conn.prepare_cached(APPEND_MESSAGE)?, tx, environment, message)
}

fn write_message_with(
    append_message: &mut CachedStatement<'_>,
    tx: &Tx<'_>,
    environment: EnvironmentId,
    message: &Message,
) -> Result<(), Fault> {
    append_message.execute(params![
        environment.0,
        message.application.as_bytes(),
        message.id.as_bytes(),
        message.event_type.as_str(),
        message.event_id.as_ref().map(|id| id.as_str()),
        rows::names_to_json(&message.channels)?,
        rows::names_to_json(&message.tags)?,
        message.payload.as_deref(),
        message.created_at.as_micros(),
        message.rest.to_json(),
    ])?;
    if let Some(due_at) = message.rest.payload_until {
        let (application, id) = (message.application.as_bytes(), message.id.as_bytes());
        let params = params![due_at.as_micros(), environment.0, application, id];
        tx.conn.prepare_cached(APPEND_PAYLOAD_EXPIRY)?.execute(params)?;
    }
    Ok(())
}

/// Writes a new task, leased to `owner` or pending.
pub(crate) fn write_task(
    append_task: &mut CachedStatement<'_>,
    task: &Task,
    owner: Option<&FastPath>,
) -> Result<(), Fault> {
    let state = if owner.is_some() { TaskState::Leased } else { TaskState::Pending };
    append_task.execute(params![
        task.key.environment.0,
        task.key.subject.as_bytes(),
        task.key.id.as_bytes(),
        task.lane.as_bytes(),
        task.kind.to_db(),
        task.trigger.to_db(),
        task.priority,
        task.due_at.as_micros(),
        task.epoch,
        owner.map(|fast| fast.session.as_bytes()),
        state.to_db(),
    ])?;
    Ok(())
}

/// Adds a pending task, and lowers the due time of its lane.
pub(crate) fn add_pending(tx: &Tx<'_>, task: &Task) -> Result<(), Fault> {
    let placed = order::placed(tx, task, TakesPosition::Behind)?;
    write_task(&mut tx.conn.prepare_cached(APPEND_TASK)?, &placed, None)?;
    lower_lane_due(tx, task.key.environment, task.lane, task.due_at.as_micros(), Waits::No)
}

/// Whether later deliveries must wait behind a pending task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The task is new, and the node had no slot for it.
    Yes,
    /// Later deliveries may overtake it.
    No,
}

/// Lowers the due time of a lane to `due`.
pub(crate) fn lower_lane_due(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    lane: LaneId,
    due: i64,
    waits: Waits,
) -> Result<(), Fault> {
    let params = params![environment.0, lane.as_bytes(), due, waits == Waits::Yes];
    tx.conn.prepare_cached(LOWER_LANE_DUE)?.execute(params)?;
    Ok(())
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
    append_message: CachedStatement<'t>,
    append_task: CachedStatement<'t>,
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
            let owner = if slot.is_some() { self.fast.as_ref() } else { None };
            if planned.takes_position(tx.now) {
                order::append(tx, task, planned.place)?;
            } else {
                write_task(&mut self.append_task, task, owner)?;
            }
            if slot.is_none() && self.must_touch(task) {
                // A task that is due later does not make due tasks wait.
                let waits = if task.due_at > tx.now { Waits::No } else { Waits::Yes };
                lower_lane_due(tx, environment, task.lane, task.due_at.as_micros(), waits)?;
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
    let mut find = tx.conn.prepare_cached(FIND_LANE)?;
    let mut rows = find.query(params![environment.0, lane.as_bytes()])?;
    let row = rows.next()?.ok_or(Fault::Corrupt { table: "lane", column: "id" })?;
    let record = Reader::new(row, "lane");
    let (state, waiting, hold_until): (i16, bool, _) =
        (record.get(0, "state")?, record.get(1, "waiting")?, record.time(2, "hold_until")?);
    let free = state == 0 && !waiting && hold_until <= tx.now;
    Ok(if free { BatchLane::Free { hold_until } } else { BatchLane::Busy })
}

/// The endpoints of applications as of this transaction. Each application is read once.
#[derive(Default)]
pub(crate) struct Applications(BTreeMap<(EnvironmentId, ApplicationId), Option<Arc<EndpointSet>>>);

impl Applications {
    /// Returns the endpoints of an application; none if it does not exist.
    pub(crate) fn endpoints(
        &mut self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        application: ApplicationId,
    ) -> Result<Option<Arc<EndpointSet>>, Fault> {
        if let Some(known) = self.0.get(&(environment, application)) {
            return Ok(known.clone());
        }
        let endpoints = read_endpoints(tx, environment, application)?;
        self.0.insert((environment, application), endpoints.clone());
        Ok(endpoints)
    }
}

/// Returns whether an endpoint of the application wants such a message.
pub(crate) fn has_subscriber(
    conn: &Connection,
    scope: AppScope,
    event_type: &Name,
    channels: &[Name],
) -> Result<bool, Fault> {
    let AppScope { environment, application } = scope;
    let policy = environment_policy_id();
    let endpoints = run(conn, ListEndpointApplication { environment, application, policy })?;
    Ok(endpoints.iter().any(|(endpoint, ..)| fanout::wants(endpoint, event_type, channels)))
}

/// Returns the endpoints of an application, from the cache if its version is current; none if it does not exist.
pub(crate) fn read_endpoints(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
) -> Result<Option<Arc<EndpointSet>>, Fault> {
    let version = run(tx.conn, FindGroupVersion { environment, id: application })?;
    let Some(version) = version else { return Ok(None) };
    if let Some(known) = tx.cache.get(environment, application, version) {
        return Ok(Some(known));
    }
    let policy = environment_policy_id();
    let endpoints = run(tx.conn, ListEndpointApplication { environment, application, policy })?;
    let specs = endpoints.first();
    let inherited = specs.and_then(|(_, spec, outer)| encoding::inherited(spec.as_deref(), outer.as_deref()));
    let endpoints = endpoints.into_iter().map(|(endpoint, ..)| endpoint).collect();
    let endpoints = Arc::new(EndpointSet::new(version, inherited, endpoints));
    tx.cache.put(environment, application, Arc::clone(&endpoints));
    Ok(Some(endpoints))
}
