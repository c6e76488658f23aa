//! Resources of every kind: one table, and one function for each operation.
//!
//! A change also writes the narrow tables that hot paths read, in the same transaction: see `resource::projection`.

mod projection;

use std::borrow::Cow;

use everhook_core::alert::Alert;
use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id};
use everhook_core::limits::ALERTS_READ_MAX;
use everhook_core::name::Name;
use everhook_core::operational::{self as events, OPERATIONAL_APPLICATION, OperationalEvent};
use everhook_core::queue::{Queue, Target};
use everhook_core::resource::{OnDelete, ResourceKind};
use everhook_core::scope::AppScope;
use everhook_store::catalog::{ArchivedTypes, Created, Having, Locator, Order, Replaced, Slice};
use everhook_store::made::{Made, WithMade};
use everhook_store::piece::{IdRange, Piece, names_beyond};
use everhook_store::resource::encoding::{ARCHIVED, Columns, LimitHolds, keep_unknown};
use everhook_store::resource::{ChangedResource, NewResource, Parent, Record, Resource, ResourceKey, ResourcePlace};
use everhook_store::schedule::ScheduleRecord;
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::rows::{FiringRow, ResourceRow};
use everhook_store::sql::shared::{
    CreateResource, DeleteResource, FindResource, FindResourceName, ListResource, MarkResourceDeleted, RESOURCE_NAMED,
    RESOURCE_OF_KIND, ReplaceResource, ResolveApplication, ResourceFields, StoredResource,
};
use everhook_store::statement;
use everhook_store::uids::Found;
use tracing::warn;

pub(crate) use self::projection::{STATEMENTS as PROJECTION_STATEMENTS, SetLaneState, touch_group};
use crate::append::FindGroupVersion;
use crate::connection::Connection;
use crate::dedup::{Claim, claim, unclaim};
use crate::error::Fault;
use crate::operational;
use crate::seal;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    ListResourceName<'a> = ["list_resource_name", RESOURCE_NAMED, RESOURCE_OF_KIND] {
        environment: EnvironmentId, kind: ResourceKind, above: &'a str, below: &'a str, state_max: i16, limit: usize,
        order: Order,
    } -> Vec<StoredResource>;
    ListAlert = "list_alert" { limit: usize } -> Vec<ResourceRow>;
    KnownEventType<'a> = (
        "known_event_type",
        "select 1 from resource where environment = :environment and kind = 2 and parent = x'' and name = :name \
        and state = 0 and deleted_at is null"
    ) { environment: EnvironmentId, name: &'a Name } -> Option<i64>;
}

pub(crate) fn create(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    new: &NewResource,
) -> Result<WithMade<Created<Resource>>, Fault> {
    let columns = new.resource.columns(environment);
    let created = create_unreported(tx, environment, new, &columns)?;
    let made = match &created {
        Created::New(Resource::Endpoint(endpoint)) => {
            let events = [OperationalEvent::EndpointCreated];
            operational::tell_endpoint(tx, environment, endpoint, &events)?
        }
        _ => Made::default(),
    };
    Ok(made.with(created))
}

fn create_unreported(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    new: &NewResource,
    columns: &Columns,
) -> Result<Created<Resource>, Fault> {
    let key = new.key.as_ref();
    let Columns { kind, parent, id, .. } = *columns;
    match claim(tx, environment, key, id)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Created::KeyReused),
        Claim::Repeated(object) => {
            if let Some((row, firing)) = run(tx.conn, FindResource { environment, kind, parent, id: object })? {
                return Ok(Created::Repeated(read(&row, firing.as_ref())?));
            }
            // The resource was deleted after the same request created it. It is created again, and the key now refers
            // to the new one.
            unclaim(tx, environment, key, object)?;
            claim(tx, environment, key, id)?;
        }
    }
    if parent == Parent::of(OPERATIONAL_APPLICATION) {
        projection::open_group(tx, environment, OPERATIONAL_APPLICATION)?;
    }
    if let Some(refused) = refusal(tx, environment, columns, new.max)? {
        unclaim(tx, environment, key, id)?;
        return Ok(refused);
    }
    let spec = sealed_spec(tx, environment, columns)?;
    let created = run(
        tx.conn,
        CreateResource { fields: ResourceFields::new(environment, columns, &spec, StoreClock::At(tx.now)) },
    )?;
    let row = created.ok_or(Fault::Corrupt { table: "resource", column: "id" })?;
    let firing = projection::write(tx, environment, &new.resource)?;
    Ok(Created::New(read(&row, firing.as_ref())?))
}

/// Returns the reason why a resource cannot be created, if there is one.
fn refusal(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    columns: &Columns,
    max: usize,
) -> Result<Option<Created<Resource>>, Fault> {
    let Columns { kind, parent, id, .. } = *columns;
    if let Parent(Some(application)) = parent
        && !has_application(tx, environment, ApplicationId(application))?
    {
        return Ok(Some(Created::NoParent));
    }
    let by_name = match &columns.name {
        Some(name) => run(tx.conn, FindResourceName { environment, kind, parent, name })?,
        None => None,
    };
    let in_the_way = match by_name {
        Some(found) => Some(found),
        None => run(tx.conn, FindResource { environment, kind, parent, id })?,
    };
    if let Some((row, firing)) = in_the_way {
        // A generated id can only exist because this request was written before.
        let is_own = row.id == id && !kind.is_named();
        let found = read(&row, firing.as_ref())?;
        return Ok(Some(if is_own { Created::Repeated(found) } else { Created::Taken(found) }));
    }
    Ok(projection::is_full(tx, environment, columns, max)?.then_some(Created::Full))
}

pub(crate) fn replace(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    changed: &ChangedResource,
) -> Result<WithMade<Replaced<Resource>>, Fault> {
    let old = match &changed.resource {
        Resource::Endpoint(new) => find_endpoint(tx.conn, environment, new.application, new.id)?,
        _ => None,
    };
    let replaced = replace_unreported(tx, environment, changed)?;
    let mut made = Made::default();
    if let (Some(old), Replaced::Done(Resource::Endpoint(new))) = (old, &replaced) {
        made += operational::tell_endpoint(tx, environment, new, &events::changed(&old, new))?;
    }
    if let Replaced::Done(_) = replaced {
        made += operational::tell(tx, changed.messages.clone())?;
    }
    Ok(made.with(replaced))
}

fn replace_unreported(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    changed: &ChangedResource,
) -> Result<Replaced<Resource>, Fault> {
    let (columns, key) = (changed.resource.columns(environment), changed.key.as_ref());
    let id = columns.id;
    match claim(tx, environment, key, id)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Replaced::KeyReused),
        Claim::Repeated(_) => return Ok(Replaced::Repeated),
    }
    match write(tx, environment, columns)? {
        Replaced::Done(row) => {
            let firing = projection::write(tx, environment, &changed.resource)?;
            Ok(Replaced::Done(read(&row, firing.as_ref())?))
        }
        refused => {
            unclaim(tx, environment, key, id)?;
            Ok(refused.map(|_| unreachable!("what was written is above")))
        }
    }
}

/// Writes the row of a resource that is replaced.
fn write(tx: &Tx<'_>, environment: EnvironmentId, mut columns: Columns) -> Result<Replaced<ResourceRow>, Fault> {
    let Columns { kind, parent, id, revision, .. } = columns;
    let found = run(tx.conn, FindResource { environment, kind, parent, id })?.map(|(row, _)| row);
    let (written, old) = match found.filter(|row| row.deleted_at.is_none()) {
        Some(old) if old.revision == revision => {
            let holder = match &columns.name {
                Some(name) => run(tx.conn, FindResourceName { environment, kind, parent, name })?,
                None => None,
            };
            if holder.is_some_and(|(holder, _)| holder.id != id) {
                return Ok(Replaced::Taken);
            }
            columns.spec = keep_unknown(columns.spec, &old.spec);
            columns.info = keep_unknown(columns.info, &old.info);
            let spec = sealed_spec(tx, environment, &columns)?;
            let fields = ResourceFields::new(environment, &columns, &spec, StoreClock::At(tx.now));
            let written = run(tx.conn, ReplaceResource { fields, revision })?;
            (written, Some(old.0.spec))
        }
        // Some kinds can be replaced without a row: they exist without configuration.
        None if kind.exists_by_default() && revision == 0 => {
            let spec = sealed_spec(tx, environment, &columns)?;
            (
                run(
                    tx.conn,
                    CreateResource {
                        fields: ResourceFields::new(environment, &columns, &spec, StoreClock::At(tx.now)),
                    },
                )?,
                None,
            )
        }
        _ => (None, None),
    };
    if let (true, Some(holds)) = (written.is_some(), LimitHolds::of(old.as_deref(), &columns)) {
        projection::release_limits(tx, environment, kind, &holds)?;
    }
    Ok(written.map_or(Replaced::Stale, Replaced::Done))
}

/// Deletes a resource; returns false if it does not exist. The caller deletes the lanes of a queue.
pub(crate) fn delete(tx: &Tx<'_>, environment: EnvironmentId, key: &ResourceKey) -> Result<WithMade<bool>, Fault> {
    let deleted = delete_unreported(tx, environment, key)?;
    let made = match key {
        ResourceKey::Endpoint(application, id) if deleted => {
            let event = OperationalEvent::EndpointDeleted;
            operational::tell_lost_endpoint(tx, environment, *application, *id, event)?
        }
        _ => Made::default(),
    };
    Ok(made.with(deleted))
}

fn delete_unreported(tx: &Tx<'_>, environment: EnvironmentId, key: &ResourceKey) -> Result<bool, Fault> {
    let ResourcePlace { kind, parent, locator } = key.place();
    let deleted = match &locator {
        Locator::Id(id) => {
            run(tx.conn, MarkResourceDeleted { environment, kind, parent, id: Some(*id), now: StoreClock::At(tx.now) })?
                .pop()
        }
        Locator::Uid(name) => run(tx.conn, DeleteResource { environment, kind, name })?,
    };
    let Some(id) = deleted else { return Ok(false) };
    match kind.on_delete() {
        OnDelete::Nothing => {}
        OnDelete::EndApplication => {
            projection::delete_group(tx, environment, id)?;
            let (kind, parent) = (ResourceKind::Endpoint, Parent(Some(id)));
            let endpoints =
                run(tx.conn, MarkResourceDeleted { environment, kind, parent, id: None, now: StoreClock::At(tx.now) })?;
            projection::close_lanes(tx, environment, &endpoints)?;
            let kind = ResourceKind::Integration;
            run(tx.conn, MarkResourceDeleted { environment, kind, parent, id: None, now: StoreClock::At(tx.now) })?;
        }
        OnDelete::CloseLane => {
            projection::touch_parent(tx, environment, parent)?;
            projection::close_lanes(tx, environment, &[id])?;
        }
        OnDelete::DeleteLaneGroup => projection::delete_group(tx, environment, id)?,
        OnDelete::DeleteSchedule => projection::delete_schedule(tx, environment, id)?,
    }
    Ok(true)
}

/// Finds a resource that is not deleted.
pub(crate) fn find<R: Record>(
    conn: &Connection,
    environment: EnvironmentId,
    place: &ResourcePlace,
) -> Result<Option<R>, Fault> {
    let (kind, parent) = (place.kind, place.parent);
    let found = match &place.locator {
        Locator::Id(id) => run(conn, FindResource { environment, kind, parent, id: *id })?,
        Locator::Uid(name) => run(conn, FindResourceName { environment, kind, parent, name })?,
    };
    let found = found.filter(|(row, _)| row.deleted_at.is_none());
    found.map(|(row, firing)| record(&row, firing.as_ref())).transpose()
}

pub(crate) fn find_endpoint(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    id: EndpointId,
) -> Result<Option<Endpoint>, Fault> {
    find(conn, environment, &ResourcePlace::endpoint(application, &Locator::Id(id)))
}

/// Finds an endpoint whose row stays after its deletion.
pub(crate) fn find_even_deleted(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    id: EndpointId,
) -> Result<Option<Endpoint>, Fault> {
    let (kind, parent) = (ResourceKind::Endpoint, Parent::of(application));
    let found = run(tx.conn, FindResource { environment, kind, parent, id: id.0 })?;
    found.map(|(row, _)| record(&row, None)).transpose()
}

pub(crate) fn find_schedule(
    conn: &Connection,
    environment: EnvironmentId,
    name: &Name,
) -> Result<Option<ScheduleRecord>, Fault> {
    find(conn, environment, &ResourcePlace::named(ResourceKind::Schedule, name))
}

/// Finds the target of a queue, by the id of its lane group.
pub(crate) fn find_target(conn: &Connection, environment: EnvironmentId, id: Id) -> Result<Option<Target>, Fault> {
    let place = ResourcePlace { kind: ResourceKind::Queue, parent: Parent::NONE, locator: Locator::Id(id) };
    Ok(find::<Queue>(conn, environment, &place)?.and_then(|queue| queue.target))
}

/// Whether an application exists and is not deleted.
pub(crate) fn has_application(tx: &Tx<'_>, environment: EnvironmentId, id: ApplicationId) -> Result<bool, Fault> {
    run(tx.conn, FindGroupVersion { environment, id }).map(|version| version.is_some())
}

pub(crate) fn resolve_application(
    conn: &Connection,
    environment: EnvironmentId,
    uid: &Name,
) -> Result<Option<Found>, Fault> {
    let found = run(conn, ResolveApplication { environment, uid })?;
    Ok(found.map(|(id, version)| Found { id, version: Some(version) }))
}

pub(crate) fn list_applications(
    conn: &Connection,
    environment: EnvironmentId,
    having: Having,
    slice: &Slice<ApplicationId>,
) -> Result<Vec<Application>, Fault> {
    let range = IdRange::beyond(slice.after.map(|id| id.0), slice.order);
    list_by_id(conn, environment, Parent::NONE, having, &range, (slice.order, slice.limit))
}

/// Lists the resources of a kind that an application has.
pub(crate) fn list_children<R: Record>(conn: &Connection, scope: AppScope, slice: &Slice<Id>) -> Result<Vec<R>, Fault> {
    let range = IdRange::beyond(slice.after, slice.order);
    let parent = Parent::of(scope.application);
    list_by_id(conn, scope.environment, parent, Having::Anything, &range, (slice.order, slice.limit))
}

fn list_by_id<R: Record>(
    conn: &Connection,
    environment: EnvironmentId,
    parent: Parent,
    having: Having,
    IdRange { above, below }: &IdRange,
    (order, limit): (Order, usize),
) -> Result<Vec<R>, Fault> {
    let list = ListResource { environment, kind: R::KIND, parent, above, below, limit, having, order };
    run(conn, list)?.iter().map(|row| record(row, None)).collect()
}

pub(crate) fn list_event_types(
    conn: &Connection,
    environment: EnvironmentId,
    archived: ArchivedTypes,
    slice: &Slice<Name>,
) -> Result<Piece<EventType, Name>, Fault> {
    let state_max = if archived == ArchivedTypes::Included { ARCHIVED } else { 0 };
    list_by_name(conn, environment, state_max, slice)
}

/// Lists the resources of a kind in the order of their names.
pub(crate) fn list_named<R: Record>(
    conn: &Connection,
    environment: EnvironmentId,
    slice: &Slice<Name>,
) -> Result<Piece<R, Name>, Fault> {
    list_by_name(conn, environment, i16::MAX, slice)
}

/// Lists the alert rules of all environments.
pub(crate) fn list_alerts(conn: &Connection) -> Result<Vec<(EnvironmentId, Alert)>, Fault> {
    let found = run(conn, ListAlert { limit: ALERTS_READ_MAX })?;
    Ok(found.iter().filter_map(|row| Some((row.environment, readable(row, None)?))).collect())
}

fn list_by_name<R: Record>(
    conn: &Connection,
    environment: EnvironmentId,
    state_max: i16,
    slice: &Slice<Name>,
) -> Result<Piece<R, Name>, Fault> {
    let (above, below) = names_beyond(slice);
    let (kind, limit, order) = (R::KIND, slice.limit, slice.order);
    let found = run(conn, ListResourceName { environment, kind, above, below, state_max, limit, order })?;
    let bytes = |(row, _): &StoredResource| row.spec.len() + row.info.len();
    let found = Piece::gather(found.into_iter().map(Ok::<_, Fault>), limit, bytes, |(row, _)| row.name.clone(), None)?;
    let readable = found.rows.iter().filter_map(|(row, firing)| readable(row, firing.as_ref()));
    Ok(Piece { rows: readable.collect(), next: found.next.flatten() })
}

/// Returns the names that are no event types to which an endpoint can subscribe.
pub(crate) fn unknown_event_types(
    conn: &Connection,
    environment: EnvironmentId,
    names: Vec<Name>,
) -> Result<Vec<Name>, Fault> {
    let mut unknown = Vec::new();
    for name in names {
        if run(conn, KnownEventType { environment, name: &name })?.is_none() {
            unknown.push(name);
        }
    }
    Ok(unknown)
}

/// Decodes a resource, unless this binary cannot read it: a resource of a later version must not hide the others.
pub(crate) fn readable<R: Record>(row: &ResourceRow, firing: Option<&FiringRow>) -> Option<R> {
    let read = record(row, firing);
    if read.is_err() {
        let (kind, id) = (row.kind, row.id);
        warn!("could not read the {kind:?} with id {id}: a later version may have written it");
    }
    read.ok()
}

pub(crate) fn record<R: Record>(row: &ResourceRow, firing: Option<&FiringRow>) -> Result<R, Fault> {
    R::try_from(read(row, firing)?).map_err(|_| Fault::Corrupt { table: "resource", column: "kind" })
}

fn read(row: &ResourceRow, firing: Option<&FiringRow>) -> Result<Resource, Fault> {
    Resource::read(row, firing).map_err(|column| Fault::Corrupt { table: "resource", column })
}

fn sealed_spec<'c>(tx: &Tx<'_>, environment: EnvironmentId, columns: &'c Columns) -> Result<Cow<'c, str>, Fault> {
    let spec = columns.sealed_spec(environment, tx.conn.seal(), seal::current(tx.conn)?);
    spec.map_err(seal::corrupt("resource"))
}
