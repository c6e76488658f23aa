//! Resources of all kinds, and the lanes, lane groups and states that depend on them.

use std::sync::Arc;

use everhook_core::application::{Application, EnvironmentPolicy};
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, LaneId};
use everhook_core::lane::HoldKind;
use everhook_core::name::Metadata;
use everhook_core::policy::Settings;
use everhook_core::policy::breaker::Breaker;
use everhook_core::queue::{Queue, QueueState};
use everhook_core::resource::ResourceKind;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Locator, Order, Replaced, Slice};
use everhook_store::queue::LaneGroup;
use everhook_store::resource::encoding::{self, Columns, LimitHolds};
use everhook_store::resource::{ChangedResource, NewResource, Parent, Projection, Record, Resource, ResourcePlace};
use everhook_store::schedule::ScheduleRecord;

use crate::mem::MemStore;
use crate::mem::tables::{LaneRow, LaneState, ResourceEntry, Tables};

impl MemStore {
    /// Creates an application without a name.
    pub fn put_application(&self, environment: EnvironmentId, id: ApplicationId) {
        let (mut tables, now) = self.lock();
        let application = Application {
            id,
            uid: None,
            name: String::new(),
            throttle_rate: None,
            policy: None,
            metadata: Default::default(),
            created_at: now,
            updated_at: now,
            revision: 1,
        };
        write(&mut tables, environment, application.into(), now);
    }

    /// Creates or replaces an endpoint with its lane.
    pub fn put_endpoint(&self, environment: EnvironmentId, endpoint: Endpoint) {
        let (mut tables, now) = self.lock();
        write(&mut tables, environment, endpoint.into(), now);
    }

    /// Disables an endpoint; its open tasks are held.
    pub fn disable_endpoint(&self, environment: EnvironmentId, id: EndpointId) {
        set_endpoint_state(&mut self.lock().0, environment, id, EndpointState::Disabled);
    }

    /// Enables an endpoint; its held tasks continue.
    pub fn enable_endpoint(&self, environment: EnvironmentId, id: EndpointId) {
        set_endpoint_state(&mut self.lock().0, environment, id, EndpointState::Enabled);
    }

    /// Creates a resource; returns none if the store does not keep its kind, or for a request with a key.
    pub(super) fn create_resource_now(&self, scope: Scope, new: NewResource) -> Option<Created<Resource>> {
        let (mut tables, now) = self.lock();
        let resource = stamped(new.resource, now, now, 1).filter(|_| new.key.is_none())?;
        Some(create(&mut tables, scope.environment, (resource, new.max), now))
    }

    /// Replaces a resource; returns none if the store does not keep its kind, or for a request with a key.
    pub(super) fn replace_resource_now(&self, scope: Scope, changed: ChangedResource) -> Option<Replaced<Resource>> {
        let (mut tables, now) = self.lock();
        if changed.key.is_some() {
            return None;
        }
        replace(&mut tables, scope.environment, changed, now)
    }

    /// Deletes an endpoint; returns whether it existed.
    pub(super) fn delete_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
    ) -> bool {
        let (mut tables, _) = self.lock();
        let Some(entry) = tables.resources.get_mut(&(environment, ResourceKind::Endpoint, id.0)) else { return false };
        if entry.deleted || entry.parent != Parent::of(application) {
            return false;
        }
        entry.deleted = true;
        tables.endpoint_sets.clear();
        touch_group(&mut tables, environment, application);
        close_lane(&mut tables, environment, id);
        true
    }

    pub(super) fn find_resource<R: Record>(&self, scope: Scope, place: &ResourcePlace) -> Option<R> {
        find(&self.lock().0, scope.environment, place)
    }

    pub(super) fn list_environment_policies(&self) -> Vec<(EnvironmentId, EnvironmentPolicy)> {
        let (tables, _) = self.lock();
        let all = tables.resources.iter();
        all.filter_map(|(key, entry)| Some((key.0, entry.resource.clone().try_into().ok()?))).collect()
    }

    pub(super) fn list_paused_groups(&self) -> Vec<(EnvironmentId, Id)> {
        let (tables, _) = self.lock();
        let is_paused = |group: &LaneGroup| group.state == QueueState::Paused;
        tables.groups.iter().filter(|(_, group)| is_paused(group)).map(|(key, _)| *key).collect()
    }
}

fn create(
    tables: &mut Tables,
    environment: EnvironmentId,
    (resource, max): (Resource, usize),
    now: Timestamp,
) -> Created<Resource> {
    let columns = resource.columns(environment);
    let Columns { kind, id, .. } = columns;
    // The store reports no operational events: the hidden application has no group here, and gets no endpoints.
    if let Parent(Some(application)) = columns.parent
        && !tables.has_application(environment, ApplicationId(application))
    {
        return Created::NoParent;
    }
    if let Some(found) = in_the_way(tables, environment, &columns) {
        // A random id can only exist because this request was committed before.
        let is_own = found.columns(environment).id == id && !kind.is_named();
        return if is_own { Created::Repeated(found) } else { Created::Taken(found) };
    }
    let siblings = open_entries(tables, environment, kind).filter(|entry| entry.parent == columns.parent);
    if siblings.count() >= max {
        return Created::Full;
    }
    Created::New(write(tables, environment, resource, now))
}

fn replace(
    tables: &mut Tables,
    environment: EnvironmentId,
    changed: ChangedResource,
    now: Timestamp,
) -> Option<Replaced<Resource>> {
    let columns = changed.resource.columns(environment);
    let known = tables.resources.get(&(environment, columns.kind, columns.id));
    let known = known.filter(|entry| !entry.deleted && entry.parent == columns.parent);
    let known = known.map(|entry| entry.resource.clone());
    let created_at = known.as_ref().and_then(created_at).unwrap_or(now);
    let resource = stamped(changed.resource, created_at, now, columns.revision + 1)?;
    let revision = known.as_ref().map(|known| known.columns(environment).revision);
    // Some kinds exist without a row, with the default configuration.
    let revision = revision.or(columns.kind.exists_by_default().then_some(0));
    if revision != Some(columns.revision) {
        return Some(Replaced::Stale);
    }
    if by_name(tables, environment, &columns).is_some_and(|found| found.columns(environment).id != columns.id) {
        return Some(Replaced::Taken);
    }
    let old = known.as_ref().map(|known| known.columns(environment).spec);
    if let Some(holds) = LimitHolds::of(old.as_deref(), &columns) {
        release_limits(tables, environment, &holds);
    }
    Some(Replaced::Done(write(tables, environment, resource, now)))
}

/// Ends the holds of limits that have changed.
fn release_limits(tables: &mut Tables, environment: EnvironmentId, holds: &LimitHolds) {
    let is_of = |lane: LaneId, row: &LaneRow| holds.has(lane, row.application);
    let lanes = tables.lanes.iter_mut().filter(|((of, lane), row)| *of == environment && is_of(*lane, row));
    for (_, row) in lanes {
        if holds.ends(row.hold_kind) {
            (row.hold_until, row.hold_kind) = (Timestamp::default(), HoldKind::BackOff);
        }
        if holds.breaker {
            row.breaker = Breaker::default();
        }
    }
}

/// Stores a resource and everything that depends on it.
pub(super) fn write(
    tables: &mut Tables,
    environment: EnvironmentId,
    mut resource: Resource,
    now: Timestamp,
) -> Resource {
    match resource.projection(environment) {
        None => {}
        Some(Projection::LaneGroup(id, group)) => put_group(tables, environment, id, group, now),
        Some(Projection::Lane(endpoint)) => {
            touch_group(tables, environment, endpoint.application);
            put_lane(tables, environment, endpoint);
        }
        Some(Projection::Schedule(record)) => {
            let state = record.begin(now);
            resource = ScheduleRecord { state, ..record.clone() }.into();
        }
    }
    keep(tables, environment, resource.clone());
    resource
}

/// Stores a record unchanged.
pub(super) fn keep(tables: &mut Tables, environment: EnvironmentId, resource: Resource) {
    let Columns { kind, parent, id, name, .. } = resource.columns(environment);
    tables.endpoint_sets.clear();
    tables.resources.insert((environment, kind, id), ResourceEntry { parent, name, resource, deleted: false });
}

/// Finds a resource that is not deleted.
pub(super) fn find<R: Record>(tables: &Tables, environment: EnvironmentId, place: &ResourcePlace) -> Option<R> {
    let is_it = |(id, entry): &(Id, &ResourceEntry)| match &place.locator {
        Locator::Id(wanted) => id == wanted,
        Locator::Uid(name) => entry.name.as_ref() == Some(name),
    };
    let all = tables.resources.iter().filter(|(key, _)| (key.0, key.1) == (environment, place.kind));
    let mut all = all.map(|(key, entry)| (key.2, entry)).filter(|(_, entry)| !entry.deleted);
    let (_, entry) = all.find(|found| found.1.parent == place.parent && is_it(found))?;
    R::try_from(entry.resource.clone()).ok()
}

/// Returns all resources of a kind that are not deleted, by id.
pub(super) fn records<R: Record>(tables: &Tables, environment: EnvironmentId, parent: Parent) -> Vec<R> {
    let all = open_entries(tables, environment, R::KIND).filter(|entry| entry.parent == parent);
    all.filter_map(|entry| R::try_from(entry.resource.clone()).ok()).collect()
}

fn open_entries(
    tables: &Tables,
    environment: EnvironmentId,
    kind: ResourceKind,
) -> impl Iterator<Item = &ResourceEntry> {
    let all =
        tables.resources.iter().filter(move |(key, entry)| (key.0, key.1) == (environment, kind) && !entry.deleted);
    all.map(|(_, entry)| entry)
}

/// Returns the requested part of a list.
pub(super) fn cut<R, K: Ord + Clone>(mut all: Vec<R>, key: impl Fn(&R) -> K, slice: &Slice<K>) -> Vec<R> {
    all.sort_by_key(&key);
    if slice.order == Order::Descending {
        all.reverse();
    }
    all.retain(|record| match (&slice.after, slice.order) {
        (None, _) => true,
        (Some(after), Order::Ascending) => key(record) > *after,
        (Some(after), Order::Descending) => key(record) < *after,
    });
    all.truncate(slice.limit);
    all
}

fn in_the_way(tables: &Tables, environment: EnvironmentId, columns: &Columns) -> Option<Resource> {
    let by_id = tables.resources.get(&(environment, columns.kind, columns.id)).map(|entry| entry.resource.clone());
    by_name(tables, environment, columns).or(by_id)
}

fn by_name(tables: &Tables, environment: EnvironmentId, columns: &Columns) -> Option<Resource> {
    let name = columns.name.as_ref()?;
    let mut all = open_entries(tables, environment, columns.kind);
    let found = all.find(|entry| entry.parent == columns.parent && entry.name.as_ref() == Some(name));
    found.map(|entry| entry.resource.clone())
}

/// Returns an endpoint without the texts that deliveries do not need.
pub(super) fn delivered(endpoint: Endpoint, inherited: Option<Arc<Settings>>) -> Endpoint {
    Endpoint { description: String::new(), metadata: Metadata::default(), ..endpoint }.inheriting(inherited)
}

/// Returns the settings that the endpoints of an application inherit.
pub(super) fn inherited(
    tables: &Tables,
    environment: EnvironmentId,
    application: ApplicationId,
) -> Option<Arc<Settings>> {
    let place = ResourcePlace::application(&Locator::Id(application));
    let application: Option<Application> = find(tables, environment, &place);
    let outer: Option<EnvironmentPolicy> = find(tables, environment, &ResourcePlace::environment_policy());
    let has_none = |it: &Application| it.policy.is_none() && it.throttle_rate.is_none();
    if outer.is_none() && application.as_ref().is_none_or(has_none) {
        return None;
    }
    let spec = |resource: Resource| resource.columns(environment).spec;
    let (application, outer) = (application.map(|it| spec(it.into())), outer.map(|it| spec(it.into())));
    encoding::inherited(application.as_deref(), outer.as_deref())
}

/// Closes a lane: the next leases return all its pending tasks, which are then cancelled.
fn close_lane(tables: &mut Tables, environment: EnvironmentId, id: EndpointId) {
    if let Some(lane) = tables.lane(environment, id.lane()) {
        lane.state = LaneState::Closing;
        // The lane is ready at once; the lease finds out whether it has tasks.
        lane.next_due = Timestamp::default();
    }
}

/// Changes the state of an endpoint that is not deleted. Returns whether it exists.
pub(super) fn set_endpoint_state(
    tables: &mut Tables,
    environment: EnvironmentId,
    id: EndpointId,
    state: EndpointState,
) -> bool {
    let Some((endpoint, false)) = tables.endpoint(environment, id) else { return false };
    let endpoint = Endpoint { state, ..endpoint.clone() };
    touch_group(tables, environment, endpoint.application);
    put_lane(tables, environment, &endpoint);
    keep(tables, environment, endpoint.into());
    true
}

fn put_lane(tables: &mut Tables, environment: EnvironmentId, endpoint: &Endpoint) {
    let state = endpoint.lane_state();
    let new = LaneRow::new(endpoint.application, state);
    let lane = tables.lanes.entry((environment, endpoint.id.lane())).or_insert(new);
    if lane.state != LaneState::Closing {
        lane.state = state;
    }
}

/// Stores a lane group. A new group starts with the time as its version; an existing one keeps the use of its rate.
fn put_group(tables: &mut Tables, environment: EnvironmentId, id: Id, group: LaneGroup, now: Timestamp) {
    let known = tables.groups.get(&(environment, id));
    let version = known.map_or(now.as_micros(), |known| known.version + 1);
    let booked_until = known.map_or(Timestamp::default(), |known| known.booked_until);
    tables.groups.insert((environment, id), LaneGroup { version, booked_until, ..group });
}

fn touch_group(tables: &mut Tables, environment: EnvironmentId, application: ApplicationId) {
    tables.groups.entry((environment, application.0)).and_modify(|group| group.version += 1);
}

fn created_at(resource: &Resource) -> Option<Timestamp> {
    match resource {
        Resource::Application(application) => Some(application.created_at),
        Resource::Endpoint(endpoint) => Some(endpoint.created_at),
        Resource::Schedule(record) => Some(record.created_at),
        _ => None,
    }
}

/// Returns the resource as it is stored; none if the store does not keep its kind.
fn stamped(resource: Resource, created_at: Timestamp, updated_at: Timestamp, revision: i64) -> Option<Resource> {
    match resource {
        Resource::Application(record) => Some(Application { created_at, updated_at, revision, ..record }.into()),
        Resource::Endpoint(record) => Some(Endpoint { created_at, updated_at, revision, ..record }.into()),
        Resource::Queue(record) => Some(Queue { updated_at, revision, ..record }.into()),
        Resource::Schedule(record) => Some(ScheduleRecord { created_at, updated_at, revision, ..record }.into()),
        Resource::EnvironmentPolicy(record) => Some(EnvironmentPolicy { updated_at, revision, ..record }.into()),
        _ => None,
    }
}
