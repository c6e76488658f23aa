//! Resources of every kind: one table, and one function for each operation.
//!
//! A change also writes the narrow tables that hot paths read, in the same transaction: see `resource::projection`.
//! Locks are taken in one order: an application, its lane group, its endpoints, their lanes.

mod projection;

use std::borrow::Cow;

use everhook_core::alert::Alert;
use everhook_core::application::Application;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EnvironmentId, Id};
use everhook_core::limits::{ALERTS_READ_MAX, PAGE_BYTES_MAX};
use everhook_core::name::Name;
use everhook_core::operational::{OperationalEvent, changed};
use everhook_core::resource::{OnDelete, ResourceKind};
use everhook_core::scope::AppScope;
use everhook_core::seal::SealKeyId;
use everhook_store::catalog::{ArchivedTypes, Created, Having, Locator, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::made::{Made, WithMade};
use everhook_store::piece::{IdRange, Piece, names_beyond};
use everhook_store::resource::encoding::{ARCHIVED, Columns, LimitHolds, keep_unknown};
use everhook_store::resource::{
    ChangedResource, Deleted, NewResource, Parent, Record, Resource, ResourceKey, ResourcePlace,
};
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

pub(crate) use self::projection::{ListQueueGroup, STATEMENTS as PROJECTION_STATEMENTS};
use crate::dedup;
use crate::error::Fault;
use crate::seal::{self, FindSealKey};
use crate::store::PostgresStore;
use crate::tx::{Database, Tx};

/// The number of attempts of a creation whose conflicting resource disappears.
const CREATE_TRIES_MAX: usize = 3;

statement! {
    LockResource = "lock_resource" { environment: EnvironmentId, kind: ResourceKind, parent: Parent, id: Id }
        -> Option<ResourceRow>;
    // Each row has the number of rows before the list was cut at the bytes of a page.
    ListResourceName<'a> = ["list_resource_name", RESOURCE_NAMED, RESOURCE_OF_KIND] {
        environment: EnvironmentId, kind: ResourceKind, above: &'a str, below: &'a str, state_max: i16, limit: usize,
        bytes_max: usize, order: Order,
    } -> Vec<(ResourceRow, Option<FiringRow>, usize)>;
    ListAlert = "list_alert" { limit: usize } -> Vec<ResourceRow>;
    KnownEventType<'a> = (
        "known_event_type",
        "select name from everhook.resource \
        where environment = :environment and kind = 2 and parent = '' and name = any (:names) and state = 0 \
        and deleted_at is null"
    ) { environment: EnvironmentId, names: Vec<&'a str> } -> Vec<Name>;
}

impl PostgresStore {
    pub(crate) async fn create_resource_once(
        &self,
        environment: EnvironmentId,
        new: &NewResource,
    ) -> Result<WithMade<Created<Resource>>, Fault> {
        let columns = new.resource.columns(environment);
        let tx = self.database.tx().await?;
        let sealing = tx.begin(columns.kind.has_secrets().then_some(FindSealKey {})).await?;
        let spec = self.sealed_spec(environment, &columns, sealing)?;
        if let Some(key) = &new.key
            && let Some(held) = claim(&tx, environment, &columns, key).await?
        {
            tx.roll_back().await?;
            return Ok(Made::default().with(held));
        }
        if !projection::lock_parent(&tx, environment, columns.parent).await? {
            tx.roll_back().await?;
            return Ok(Made::default().with(Created::NoParent));
        }
        for _ in 0..CREATE_TRIES_MAX {
            if let Some(row) = tx
                .run(CreateResource { fields: ResourceFields::new(environment, &columns, &spec, StoreClock::Database) })
                .await?
            {
                // The parent is locked: no other creation can change the count before the commit.
                if projection::is_over(&tx, environment, &columns, new.max).await? {
                    tx.roll_back().await?;
                    return Ok(Made::default().with(Created::Full));
                }
                let firing = projection::write(&tx, environment, &new.resource, row.updated_at).await?;
                let created = read(&row, firing.as_ref())?;
                let made = self.tell_change(&tx, environment, None, &created).await?;
                tx.commit().await?;
                return Ok(made.with(Created::New(created)));
            }
            if let Some(found) = find_in_the_way(&tx, environment, &columns).await? {
                tx.roll_back().await?;
                // A generated id can only exist because this request was written before.
                let is_own = found.0.id == columns.id && !columns.kind.is_named();
                let found = read(&found.0, found.1.as_ref())?;
                let known = if is_own { Created::Repeated(found) } else { Created::Taken(found) };
                return Ok(Made::default().with(known));
            }
        }
        Err(Fault::Contended("the name was taken and freed repeatedly"))
    }

    pub(crate) async fn replace_resource_once(
        &self,
        environment: EnvironmentId,
        changed: &ChangedResource,
    ) -> Result<WithMade<Replaced<Resource>>, Fault> {
        let mut columns = changed.resource.columns(environment);
        let Columns { kind, parent, id, .. } = columns;
        let tx = self.database.tx().await?;
        let sealing = tx.begin(kind.has_secrets().then_some(FindSealKey {})).await?;
        if let Some(key) = &changed.key
            && let Some(holder) = dedup::take_one(&tx, environment, key, id).await?
        {
            tx.roll_back().await?;
            let held = if holder.body == key.body { Replaced::Repeated } else { Replaced::KeyReused };
            return Ok(Made::default().with(held));
        }
        projection::lock_parent(&tx, environment, columns.parent).await?;
        let old = tx.run(LockResource { environment, kind, parent, id }).await?;
        let written = match &old {
            Some(old) if old.revision == columns.revision => {
                columns.spec = keep_unknown(columns.spec, &old.spec);
                columns.info = keep_unknown(columns.info, &old.info);
                let spec = self.sealed_spec(environment, &columns, sealing)?;
                let (fields, revision) =
                    (ResourceFields::new(environment, &columns, &spec, StoreClock::Database), columns.revision);
                match tx.run(ReplaceResource { fields, revision }).await {
                    Err(fault) if is_taken(&fault) => return Ok(Made::default().with(Replaced::Taken)),
                    written => written?,
                }
            }
            // Some kinds can be replaced without a row: they exist without configuration.
            None if kind.exists_by_default() && columns.revision == 0 => {
                let spec = self.sealed_spec(environment, &columns, sealing)?;
                tx.run(CreateResource {
                    fields: ResourceFields::new(environment, &columns, &spec, StoreClock::Database),
                })
                .await?
            }
            _ => None,
        };
        let Some(row) = written else {
            tx.roll_back().await?;
            return Ok(Made::default().with(Replaced::Stale));
        };
        let firing = projection::write(&tx, environment, &changed.resource, row.updated_at).await?;
        if let Some(holds) = LimitHolds::of(old.as_ref().map(|old| old.spec.as_str()), &columns) {
            projection::release_limits(&tx, environment, kind, &holds).await?;
        }
        let replaced = read(&row, firing.as_ref())?;
        let mut made = self.tell_change(&tx, environment, old.as_ref(), &replaced).await?;
        if !changed.messages.is_empty() {
            made += Made::messages(&self.append_within(&tx, changed.messages.clone()).await?);
        }
        tx.commit().await?;
        Ok(made.with(Replaced::Done(replaced)))
    }

    fn sealed_spec<'c>(
        &self,
        environment: EnvironmentId,
        columns: &'c Columns,
        key: Option<SealKeyId>,
    ) -> Result<Cow<'c, str>, Fault> {
        columns.sealed_spec(environment, &self.database.seal, key).map_err(seal::corrupt("resource"))
    }

    /// Reports the creation or change of an endpoint to the operator.
    async fn tell_change(
        &self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        old: Option<&ResourceRow>,
        new: &Resource,
    ) -> Result<Made, Fault> {
        let Resource::Endpoint(new) = new else { return Ok(Made::default()) };
        let events = match old {
            Some(old) => changed(&record(old, None)?, new),
            None => vec![OperationalEvent::EndpointCreated],
        };
        self.tell_endpoint(tx, environment, new, &events).await
    }

    pub(crate) async fn delete_resource_once(
        &self,
        environment: EnvironmentId,
        key: &ResourceKey,
    ) -> Result<WithMade<Deleted>, Fault> {
        if let ResourceKey::Queue(name) = key {
            return Ok(Made::default().with(self.delete_queue_once(environment, name).await?));
        }
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if !delete(&tx, environment, key).await? {
            tx.roll_back().await?;
            return Ok(Made::default().with(Deleted::NotFound));
        }
        let made = match key {
            ResourceKey::Endpoint(application, id) => {
                self.tell_deleted_endpoint(&tx, (environment, *application, id.0)).await?
            }
            _ => Made::default(),
        };
        tx.commit().await?;
        Ok(made.with(Deleted::Done))
    }

    pub(crate) async fn find_resource_once<R: Record>(
        &self,
        environment: EnvironmentId,
        place: ResourcePlace,
    ) -> Result<Option<R>, Fault> {
        find(&self.database, environment, &place).await
    }

    pub(crate) async fn list_applications_once(
        &self,
        environment: EnvironmentId,
        having: Having,
        slice: &Slice<ApplicationId>,
    ) -> Result<Vec<Application>, Fault> {
        let range = IdRange::beyond(slice.after.map(|id| id.0), slice.order);
        self.list_by_id(environment, Parent::NONE, having, range, (slice.order, slice.limit)).await
    }

    /// Lists the resources of a kind that an application has.
    pub(crate) async fn list_children_once<R: Record>(
        &self,
        scope: AppScope,
        slice: Slice<Id>,
    ) -> Result<Vec<R>, Fault> {
        let range = IdRange::beyond(slice.after, slice.order);
        let parent = Parent::of(scope.application);
        self.list_by_id(scope.environment, parent, Having::Anything, range, (slice.order, slice.limit)).await
    }

    async fn list_by_id<R: Record>(
        &self,
        environment: EnvironmentId,
        parent: Parent,
        having: Having,
        IdRange { above, below }: IdRange,
        (order, limit): (Order, usize),
    ) -> Result<Vec<R>, Fault> {
        let (above, below, kind) = (above.as_slice(), below.as_slice(), R::KIND);
        let list = ListResource { environment, kind, parent, above, below, limit, having, order };
        self.database.read(list).await?.iter().map(|row| record(row, None)).collect()
    }

    pub(crate) async fn list_event_types_once(
        &self,
        environment: EnvironmentId,
        archived: ArchivedTypes,
        slice: &Slice<Name>,
    ) -> Result<Piece<EventType, Name>, Fault> {
        let state_max = if archived == ArchivedTypes::Included { ARCHIVED } else { 0 };
        self.list_by_name(environment, state_max, slice).await
    }

    /// Lists the resources of a kind in the order of their names.
    pub(crate) async fn list_named_once<R: Record>(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Piece<R, Name>, Fault> {
        self.list_by_name(environment, i16::MAX, slice).await
    }

    /// Lists the alert rules of all environments.
    pub(crate) async fn list_alerts_once(&self) -> Result<Vec<(EnvironmentId, Alert)>, Fault> {
        let found = self.database.read(ListAlert { limit: ALERTS_READ_MAX }).await?;
        Ok(found.iter().filter_map(|row| Some((row.environment, readable(row, None)?))).collect())
    }

    async fn list_by_name<R: Record>(
        &self,
        environment: EnvironmentId,
        state_max: i16,
        slice: &Slice<Name>,
    ) -> Result<Piece<R, Name>, Fault> {
        let (above, below) = names_beyond(slice);
        let (kind, limit, bytes_max, order) = (R::KIND, slice.limit, PAGE_BYTES_MAX, slice.order);
        let list = ListResourceName { environment, kind, above, below, state_max, limit, bytes_max, order };
        let found = self.database.read(list).await?;
        // The list was cut at the last row that was sent, if there were more.
        let cut = found.last().filter(|(_, _, listed)| found.len() < *listed);
        let next = cut.and_then(|(row, _, _)| row.name.clone());
        let readable = found.iter().filter_map(|(row, firing, _)| readable(row, firing.as_ref()));
        Ok(Piece { rows: readable.collect(), next })
    }

    pub(crate) async fn resolve_application_once(
        &self,
        environment: EnvironmentId,
        uid: &Name,
    ) -> Result<Option<Found>, Fault> {
        let found = self.database.read(ResolveApplication { environment, uid }).await?;
        Ok(found.map(|(id, version)| Found { id, version: Some(version) }))
    }

    pub(crate) async fn unknown_event_types_once(
        &self,
        environment: EnvironmentId,
        names: &[Name],
    ) -> Result<Vec<Name>, Fault> {
        let asked = names.iter().map(Name::as_str).collect();
        let known = self.database.read(KnownEventType { environment, names: asked }).await?;
        Ok(names.iter().filter(|name| !known.contains(name)).cloned().collect())
    }
}

/// Takes the key of a creation; returns the answer if another request holds the key.
async fn claim(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    columns: &Columns,
    key: &DedupKey,
) -> Result<Option<Created<Resource>>, Fault> {
    let Some(holder) = dedup::take_one(tx, environment, key, columns.id).await? else { return Ok(None) };
    if holder.body != key.body {
        return Ok(Some(Created::KeyReused));
    }
    let Columns { kind, parent, .. } = *columns;
    if let Some((row, firing)) = tx.run(FindResource { environment, kind, parent, id: holder.object }).await? {
        return Ok(Some(Created::Repeated(read(&row, firing.as_ref())?)));
    }
    // The resource was deleted after the same request created it. It is created again, and the key now refers to the
    // new one.
    let row_key = dedup::row_key(environment, key);
    dedup::give_back(tx, [&row_key].into_iter()).await?;
    match dedup::take_one(tx, environment, key, columns.id).await? {
        None => Ok(None),
        Some(_) => Err(Fault::Contended("another request took the dedup key while it was released")),
    }
}

/// Finds the resource that already has the name or id of a new one.
async fn find_in_the_way(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    columns: &Columns,
) -> Result<Option<StoredResource>, Fault> {
    let Columns { kind, parent, id, .. } = *columns;
    let by_name = columns.name.as_ref().map(|name| FindResourceName { environment, kind, parent, name });
    let (by_name, by_id) = tx.run((by_name, FindResource { environment, kind, parent, id })).await?;
    Ok(by_name.or(by_id))
}

/// Deletes a resource of any kind except a queue; returns false if it does not exist.
async fn delete(tx: &Tx<'_>, environment: EnvironmentId, key: &ResourceKey) -> Result<bool, Fault> {
    let ResourcePlace { kind, parent, locator } = key.place();
    projection::lock_parent_of(tx, environment, parent).await?;
    let deleted = match &locator {
        Locator::Id(id) => tx
            .run(MarkResourceDeleted { environment, kind, parent, id: Some(*id), now: StoreClock::Database })
            .await?
            .pop(),
        Locator::Uid(name) => tx.run(DeleteResource { environment, kind, name }).await?,
    };
    let Some(id) = deleted else { return Ok(false) };
    match kind.on_delete() {
        OnDelete::Nothing => {}
        OnDelete::EndApplication => {
            let parent = Parent(Some(id));
            projection::delete_group(tx, environment, id).await?;
            let kind = ResourceKind::Endpoint;
            let endpoints =
                tx.run(MarkResourceDeleted { environment, kind, parent, id: None, now: StoreClock::Database }).await?;
            projection::close_lanes(tx, environment, &endpoints).await?;
            let kind = ResourceKind::Integration;
            tx.run(MarkResourceDeleted { environment, kind, parent, id: None, now: StoreClock::Database }).await?;
        }
        OnDelete::CloseLane => projection::close_lanes(tx, environment, &[id]).await?,
        OnDelete::DeleteLaneGroup => projection::delete_group(tx, environment, id).await?,
        OnDelete::DeleteSchedule => projection::delete_schedule(tx, environment, id).await?,
    }
    Ok(true)
}

/// Deletes the configuration of a queue; returns false if it has none.
pub(crate) async fn delete_queue(tx: &Tx<'_>, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
    let Some(id) = tx.run(DeleteResource { environment, kind: ResourceKind::Queue, name }).await? else {
        return Ok(false);
    };
    projection::delete_group(tx, environment, id).await?;
    Ok(true)
}

/// Finds a resource that is not deleted.
async fn find<R: Record>(
    database: &Database,
    environment: EnvironmentId,
    place: &ResourcePlace,
) -> Result<Option<R>, Fault> {
    let (kind, parent) = (place.kind, place.parent);
    let found = match &place.locator {
        Locator::Id(id) => database.read(FindResource { environment, kind, parent, id: *id }).await?,
        Locator::Uid(name) => database.read(FindResourceName { environment, kind, parent, name }).await?,
    };
    let found = found.filter(|(row, _)| row.deleted_at.is_none());
    found.map(|(row, firing)| record(&row, firing.as_ref())).transpose()
}

/// Finds a schedule by name, within a transaction.
pub(crate) async fn find_schedule(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    name: &Name,
) -> Result<Option<ScheduleRecord>, Fault> {
    let (kind, parent) = (ResourceKind::Schedule, Parent::NONE);
    let found = tx.run(FindResourceName { environment, kind, parent, name }).await?;
    found.map(|(row, firing)| record(&row, firing.as_ref())).transpose()
}

pub(crate) fn record<R: Record>(row: &ResourceRow, firing: Option<&FiringRow>) -> Result<R, Fault> {
    R::try_from(read(row, firing)?).map_err(|_| Fault::Corrupt { table: "resource", column: "kind" })
}

/// Decodes a resource, unless this binary cannot read it: a resource of a later version must not hide the others.
pub(crate) fn readable<R: Record>(row: &ResourceRow, firing: Option<&FiringRow>) -> Option<R> {
    let read = record(row, firing);
    if let Err(fault) = &read {
        warn!("a resource of kind {:?} cannot be read and is left out of the list: {fault}", row.kind);
    }
    read.ok()
}

pub(crate) fn read(row: &ResourceRow, firing: Option<&FiringRow>) -> Result<Resource, Fault> {
    Resource::read(row, firing).map_err(|column| Fault::Corrupt { table: "resource", column })
}

/// Whether a write was refused because the name is taken.
fn is_taken(fault: &Fault) -> bool {
    let (Fault::Statement(error) | Fault::Commit(error)) = fault else { return false };
    error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}
