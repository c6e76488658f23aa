//! Resources: configured objects of all kinds, created, replaced and deleted through the same three operations.
//!
//! The enum [`Resource`] crosses the seam. [`Resources`](crate::store::Resources) returns the record type of each kind.
//! Stores keep resources as rows of one table, see [`encoding`].

use everhook_core::alert::Alert;
use everhook_core::application::{Application, EnvironmentPolicy};
use everhook_core::chat_app::ChatApps;
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, IntegrationId};
use everhook_core::integration::Integration;
use everhook_core::name::Name;
use everhook_core::portal::PortalSettings;
use everhook_core::queue::{Queue, queue_id};
use everhook_core::quota::Quota;
use everhook_core::resource::{ResourceKind, chat_apps_id, environment_policy_id, portal_settings_id};

use crate::catalog::Locator;
use crate::dedup::DedupKey;
use crate::lease::NewMessage;
use crate::queue::LaneGroup;
use crate::schedule::ScheduleRecord;

pub mod encoding;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    Application(Application),
    Endpoint(Endpoint),
    EventType(EventType),
    Queue(Queue),
    Schedule(ScheduleRecord),
    Integration(Integration),
    EnvironmentPolicy(EnvironmentPolicy),
    PortalSettings(PortalSettings),
    ChatApps(ChatApps),
    Alert(Alert),
    Quota(Quota),
}

/// The row of a narrow table that follows from a resource: the engine reads it instead of the resource.
#[derive(Clone, Copy, Debug)]
pub enum Projection<'a> {
    LaneGroup(Id, LaneGroup),
    Lane(&'a Endpoint),
    Schedule(&'a ScheduleRecord),
}

impl Resource {
    /// Returns the narrow row of the resource; most kinds have none.
    pub fn projection(&self, environment: EnvironmentId) -> Option<Projection<'_>> {
        match self {
            Resource::Application(application) => {
                Some(Projection::LaneGroup(application.id.0, LaneGroup::of_application(application)))
            }
            Resource::Queue(queue) => {
                Some(Projection::LaneGroup(queue_id(environment, &queue.name), LaneGroup::of(queue)))
            }
            Resource::Endpoint(endpoint) => Some(Projection::Lane(endpoint)),
            Resource::Schedule(record) => Some(Projection::Schedule(record)),
            Resource::EventType(_)
            | Resource::Integration(_)
            | Resource::EnvironmentPolicy(_)
            | Resource::PortalSettings(_)
            | Resource::ChatApps(_)
            | Resource::Alert(_)
            | Resource::Quota(_) => None,
        }
    }
}

/// A resource to create. The store sets `created_at`, `updated_at`, `revision` and the state of a schedule.
///
/// Creation fails with `Taken` if the uid or name exists. The name of an archived event type counts as taken.
#[derive(Clone, Debug)]
pub struct NewResource {
    pub resource: Resource,
    /// The number of resources of this kind that the application, or the environment, may have. Concurrent creations
    /// never exceed that of an application; they may exceed that of an environment by their number.
    pub max: usize,
    /// The idempotency key of the request.
    pub key: Option<DedupKey>,
}

/// A record of one kind to create, where its number is limited.
#[derive(Clone, Debug)]
pub struct New<R> {
    pub record: R,
    /// As [`NewResource::max`].
    pub max: usize,
}

/// A resource to replace if its revision is still the given one.
///
/// Disabling an endpoint holds its lane, and enabling it frees the lane. Revision 0 configures a queue, or the policy
/// of an environment, for the first time. The next lease obeys the new limits. The state of a schedule starts anew.
#[derive(Clone, Debug)]
pub struct ChangedResource {
    pub resource: Resource,
    /// The idempotency key of the request.
    pub key: Option<DedupKey>,
    /// Messages of the hidden application that are accepted with the change, in the same transaction.
    pub messages: Vec<NewMessage>,
}

/// A record of one kind to replace, with more than itself.
#[derive(Clone, Debug)]
pub struct Changed<R> {
    pub record: R,
    /// As [`ChangedResource::key`].
    pub key: Option<DedupKey>,
    /// As [`ChangedResource::messages`].
    pub messages: Vec<NewMessage>,
}

/// The key of a resource to delete.
#[derive(Clone, Debug)]
pub enum ResourceKey {
    /// Deletes its endpoints and integrations too, frees its uid, and cancels open deliveries.
    Application(ApplicationId),
    /// Frees its uid, and cancels open deliveries.
    Endpoint(ApplicationId, EndpointId),
    EventType(Name),
    /// A queue with open jobs cannot be deleted. Records of ended jobs stay. The next job creates the queue without
    /// limits.
    Queue(Name),
    /// Deletes its history too; the jobs and messages that it started stay.
    Schedule(Name),
    /// Its key ends.
    Integration(ApplicationId, IntegrationId),
    /// Deletes its history too. Pages that were accepted are still delivered.
    Alert(Name),
}

/// The address of a resource: kind, parent application, and id or name.
#[derive(Clone, Debug)]
pub struct ResourcePlace {
    pub kind: ResourceKind,
    pub parent: Parent,
    pub locator: Locator<Id>,
}

/// The application that a resource belongs to; none if it belongs to its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parent(pub Option<Id>);

impl Parent {
    pub const NONE: Parent = Parent(None);

    pub const fn of(application: ApplicationId) -> Parent {
        Parent(Some(application.0))
    }
}

impl ResourcePlace {
    pub fn application(locator: &Locator<ApplicationId>) -> ResourcePlace {
        let locator = match locator {
            Locator::Id(id) => Locator::Id(id.0),
            Locator::Uid(uid) => Locator::Uid(uid.clone()),
        };
        ResourcePlace { kind: ResourceKind::Application, parent: Parent::NONE, locator }
    }

    pub fn endpoint(application: ApplicationId, locator: &Locator<EndpointId>) -> ResourcePlace {
        let locator = match locator {
            Locator::Id(id) => Locator::Id(id.0),
            Locator::Uid(uid) => Locator::Uid(uid.clone()),
        };
        ResourcePlace { kind: ResourceKind::Endpoint, parent: Parent::of(application), locator }
    }

    pub fn integration(application: ApplicationId, id: IntegrationId) -> ResourcePlace {
        let (kind, locator) = (ResourceKind::Integration, Locator::Id(id.0));
        ResourcePlace { kind, parent: Parent::of(application), locator }
    }

    pub fn environment_policy() -> ResourcePlace {
        let (kind, locator) = (ResourceKind::EnvironmentPolicy, Locator::Id(environment_policy_id()));
        ResourcePlace { kind, parent: Parent::NONE, locator }
    }

    pub fn portal_settings() -> ResourcePlace {
        let (kind, locator) = (ResourceKind::PortalSettings, Locator::Id(portal_settings_id()));
        ResourcePlace { kind, parent: Parent::NONE, locator }
    }

    pub fn chat_apps() -> ResourcePlace {
        let (kind, locator) = (ResourceKind::ChatApps, Locator::Id(chat_apps_id()));
        ResourcePlace { kind, parent: Parent::NONE, locator }
    }

    pub fn quota(application: Option<ApplicationId>) -> ResourcePlace {
        let (kind, locator) = (ResourceKind::Quota, Locator::Id(Quota::id(application)));
        ResourcePlace { kind, parent: Parent::NONE, locator }
    }

    pub fn named(kind: ResourceKind, name: &Name) -> ResourcePlace {
        ResourcePlace { kind, parent: Parent::NONE, locator: Locator::Uid(name.clone()) }
    }
}

impl ResourceKey {
    pub fn place(&self) -> ResourcePlace {
        match self {
            ResourceKey::Application(id) => ResourcePlace::application(&Locator::Id(*id)),
            ResourceKey::Endpoint(application, id) => ResourcePlace::endpoint(*application, &Locator::Id(*id)),
            ResourceKey::EventType(name) => ResourcePlace::named(ResourceKind::EventType, name),
            ResourceKey::Queue(name) => ResourcePlace::named(ResourceKind::Queue, name),
            ResourceKey::Schedule(name) => ResourcePlace::named(ResourceKind::Schedule, name),
            ResourceKey::Integration(application, id) => ResourcePlace::integration(*application, *id),
            ResourceKey::Alert(name) => ResourcePlace::named(ResourceKind::Alert, name),
        }
    }
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Done,
    NotFound,
    /// The queue has jobs that wait, run or are dead; nothing was changed.
    HasJobs,
}

impl Deleted {
    pub fn is_done(self) -> bool {
        self == Deleted::Done
    }
}

impl From<bool> for Deleted {
    fn from(found: bool) -> Deleted {
        if found { Deleted::Done } else { Deleted::NotFound }
    }
}

pub trait Record: TryFrom<Resource, Error = Resource> + Into<Resource> + Send {
    const KIND: ResourceKind;
}

pub trait Create: Into<NewResource> + Send {
    type Record: Record;
}

pub trait Change: Into<ChangedResource> + Send {
    type Record: Record;
}

macro_rules! records {
    ($($kind:ident($record:ty);)*) => {$(
        impl Record for $record {
            const KIND: ResourceKind = ResourceKind::$kind;
        }

        impl From<$record> for Resource {
            fn from(record: $record) -> Resource {
                Resource::$kind(record)
            }
        }

        impl TryFrom<Resource> for $record {
            type Error = Resource;

            fn try_from(resource: Resource) -> Result<$record, Resource> {
                match resource {
                    Resource::$kind(record) => Ok(record),
                    other => Err(other),
                }
            }
        }
    )*};
}

records! {
    Application(Application);
    Endpoint(Endpoint);
    EventType(EventType);
    Queue(Queue);
    Schedule(ScheduleRecord);
    Integration(Integration);
    EnvironmentPolicy(EnvironmentPolicy);
    PortalSettings(PortalSettings);
    ChatApps(ChatApps);
    Alert(Alert);
    Quota(Quota);
}

macro_rules! creates {
    ($($record:ty),*) => {$(
        impl From<$record> for NewResource {
            fn from(record: $record) -> NewResource {
                NewResource { resource: record.into(), max: usize::MAX, key: None }
            }
        }

        impl Create for $record {
            type Record = $record;
        }
    )*};
}

creates!(Application, EventType, ScheduleRecord);

impl<R: Record> From<New<R>> for NewResource {
    fn from(New { record, max }: New<R>) -> NewResource {
        NewResource { resource: record.into(), max, key: None }
    }
}

impl<R: Record> Create for New<R> {
    type Record = R;
}

impl<R: Record> From<R> for ChangedResource {
    fn from(record: R) -> ChangedResource {
        Changed { record, key: None, messages: Vec::new() }.into()
    }
}

impl<R: Record> Change for R {
    type Record = R;
}

impl<R: Record> From<Changed<R>> for ChangedResource {
    fn from(Changed { record, key, messages }: Changed<R>) -> ChangedResource {
        ChangedResource { resource: record.into(), key, messages }
    }
}

impl<R: Record> Change for Changed<R> {
    type Record = R;
}
