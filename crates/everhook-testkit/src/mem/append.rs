//! Appends messages with their deliveries.

use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{ApplicationId, EnvironmentId, Id};
use everhook_core::lane::HoldKind;
use everhook_core::message::Message;
use everhook_core::time::Timestamp;
use everhook_store::append::{
    KeyHolder, PlannedTask, TakesPosition, accepted, judge, kept_by_suppressed, plan, plan_polled,
};
use everhook_store::cache::EndpointSet;
use everhook_store::dedup::DedupKey;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, Appended, FastPath, NewMessage};
use everhook_store::resource::Parent;

use crate::mem::tables::{KeyRow, Tables, TaskPlace, TaskRow};
use crate::mem::{once, resource};

/// Appends messages one after the other. Each sees the rows of earlier ones, in the same transaction too.
pub(super) fn append(tables: &mut Tables, ids: &Ids, now: Timestamp, append: Append) -> Vec<Appended> {
    let fast = append.fast.as_ref();
    append.messages.into_iter().map(|message| append_one(tables, ids, now, fast, message)).collect()
}

pub(super) fn append_one(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    fast: Option<&FastPath>,
    new: NewMessage,
) -> Appended {
    let addressing = new.addressing();
    let NewMessage { environment, message, keys, version, once, .. } = new;
    let taken: Vec<_> = keys.iter().filter_map(|key| Some((key, holder(tables, environment, key, now)?))).collect();
    if let Some(refusal) = judge(&taken) {
        return refusal;
    }
    let group = tables.groups.get(&(environment, message.application.0));
    if group.is_none_or(|group| version.is_some_and(|found_at| found_at != group.version)) {
        return Appended::NoApplication;
    }
    if let Some(winner) = once.and_then(|claim| once::take(tables, environment, &message, claim, now)) {
        for key in kept_by_suppressed(&keys) {
            keep_key(tables, environment, key, winner.0, now);
        }
        return Appended::Suppressed(winner);
    }
    for key in &keys {
        keep_key(tables, environment, key, message.id.0, now);
    }
    let message = Arc::new(Message { created_at: now, ..message });
    tables.messages.insert((environment, message.application, message.id), Arc::clone(&message));
    let endpoints = endpoints_of(tables, environment, message.application);
    let group = GroupId { environment, id: message.application.0 };
    let take_slot = |endpoint: &Endpoint| {
        let lane = GroupedLane { group, lane: endpoint.id.lane() };
        let row = tables.lanes.get_mut(&(environment, lane.lane)).filter(|row| row.is_free(now))?;
        let mut hold_until = row.hold_until;
        let slot = fast?.reserve(lane, endpoint, &mut hold_until, now)?;
        if hold_until != row.hold_until {
            (row.hold_until, row.hold_kind) = (hold_until, HoldKind::RateLimit);
        }
        Some(slot)
    };
    let planned = plan(environment, &message, &endpoints, ids, now, addressing, take_slot);
    for task in &planned {
        write(tables, fast, task, now);
    }
    let polled = plan_polled(&message, &endpoints, now, addressing);
    assert!(polled.is_empty(), "the store in memory has no polled endpoints");
    accepted(message, planned)
}

fn write(tables: &mut Tables, fast: Option<&FastPath>, planned: &PlannedTask, now: Timestamp) {
    let task = planned.task;
    let place = match (&planned.slot, fast) {
        (Some(_), Some(fast)) => TaskPlace::Leased(fast.session),
        _ => TaskPlace::Pending,
    };
    let mut placed = task;
    if planned.takes_position(now)
        && let Some(lane) = tables.lane(task.key.environment, task.lane)
    {
        placed.due_at = lane.place(now, TakesPosition::Always);
    }
    if let Some(key_place) = planned.place {
        tables.key_places.insert(task.key, (placed.due_at, key_place.blocks));
        placed.due_at = Timestamp::NEVER;
    }
    tables.tasks.insert(task.key, TaskRow::new(placed, place));
    tables.promote(&task, now);
    if place == TaskPlace::Pending
        && let Some(lane) = tables.lane(task.key.environment, task.lane)
    {
        lane.touch(task.due_at);
        // From here on the lane is not free: later messages of the same batch wait behind this task.
        lane.waiting |= task.due_at <= now;
    }
}

/// Returns the endpoints of an application. As in the other stores, they are put together once for many messages.
pub(super) fn endpoints_of(
    tables: &mut Tables,
    environment: EnvironmentId,
    application: ApplicationId,
) -> Arc<EndpointSet> {
    if let Some(known) = tables.endpoint_sets.get(&(environment, application)) {
        return Arc::clone(known);
    }
    let endpoints: Vec<Endpoint> = resource::records(tables, environment, Parent::of(application));
    let inherited = resource::inherited(tables, environment, application);
    let delivered = endpoints.into_iter().map(|endpoint| resource::delivered(endpoint, inherited.clone())).collect();
    let set = Arc::new(EndpointSet::new(0, inherited, delivered));
    tables.endpoint_sets.insert((environment, application), Arc::clone(&set));
    set
}

/// Returns the holder of a key that has not expired.
pub(super) fn holder(tables: &Tables, environment: EnvironmentId, key: &DedupKey, now: Timestamp) -> Option<KeyHolder> {
    let row = tables.keys.get(&(environment, key.scope, key.hash))?;
    (row.expires_at > now).then_some(KeyHolder { object: row.object, body: row.body })
}

/// Stores the object that was accepted under a key.
pub(super) fn keep_key(tables: &mut Tables, environment: EnvironmentId, key: &DedupKey, object: Id, now: Timestamp) {
    let row = KeyRow { object, body: key.body, expires_at: now.plus(key.kept) };
    tables.keys.insert((environment, key.scope, key.hash), row);
}
