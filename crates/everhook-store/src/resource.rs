//! Resources: configured objects of all kinds, created, replaced and deleted through the same three operations.
//!
//! The enum [`Resource`] crosses the seam. [`Resources`](crate::store::Resources) returns the record type of each kind.
//! Stores keep resources as rows of one table, see [`encoding`].

use everhook_core::alert::Alert;
use everhook_core::application::{Application, EnvironmentPolicy};
use everhook_core::chat_app::ChatApps;
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, Id, IntegrationId};
use everhook_core::integration::Integration;
use everhook_core::name::Name;
use everhook_core::portal::PortalSettings;
use everhook_core::queue::Queue;
use everhook_core::quota::Quota;
use everhook_core::resource::{ResourceKind, chat_apps_id, environment_policy_id, portal_settings_id};

use crate::catalog::Locator;
use crate::dedup::DedupKey;
use crate::lease::NewMessage;
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

/// A resource to create. The store sets `created_at`, `updated_at`, `revision` and the state of a schedule.
///
/// Creation fails with `Taken` if the uid or name exists. The name of an archived event type counts as taken.
#[derive(Clone, Debug)]
pub struct NewResource {
    pub resource: Resource,
    /// The number of resources of this kind that the application may have; concurrent creations never exceed it.
    pub max: usize,
}

#[derive(Clone, Debug)]
pub struct NewEndpoint {
    pub endpoint: Endpoint,
    /// The number of endpoints that the application may have; concurrent creations never exceed it.
    pub max: usize,
}

#[derive(Clone, Debug)]
pub struct NewIntegration {
    pub integration: Integration,
    /// The number of integrations that the application may have; concurrent creations never exceed it.
    pub max: usize,
}

/// An alert rule to create.
#[derive(Clone, Debug)]
pub struct NewAlert {
    pub alert: Alert,
    /// The number of alert rules that the environment may have. Concurrent creations may exceed it by their number.
    pub max: usize,
}

/// A resource to replace if its revision is still the given one.
///
/// Disabling an endpoint holds its lane, and enabling it frees the lane. Revision 0 configures a queue, or the policy of
/// an environment, for the first time. The next lease obeys the new limits. The state of a schedule starts anew.
#[derive(Clone, Debug)]
pub struct ChangedResource {
    pub resource: Resource,
    /// The idempotency key of the request.
    pub key: Option<DedupKey>,
    /// Messages of the hidden application that are accepted with the change, in the same transaction.
    pub messages: Vec<NewMessage>,
}

/// An alert to replace, with the messages of its page.
#[derive(Clone, Debug)]
pub struct ChangedAlert {
    pub alert: Alert,
    pub messages: Vec<NewMessage>,
}

#[derive(Clone, Debug)]
pub struct ChangedEndpoint {
    pub endpoint: Endpoint,
    /// The idempotency key of the request.
    pub key: Option<DedupKey>,
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
                NewResource { resource: record.into(), max: usize::MAX }
            }
        }

        impl Create for $record {
            type Record = $record;
        }
    )*};
}

creates!(Application, EventType, ScheduleRecord);

impl From<NewEndpoint> for NewResource {
    fn from(NewEndpoint { endpoint, max }: NewEndpoint) -> NewResource {
        NewResource { resource: endpoint.into(), max }
    }
}

impl Create for NewEndpoint {
    type Record = Endpoint;
}

impl From<NewIntegration> for NewResource {
    fn from(NewIntegration { integration, max }: NewIntegration) -> NewResource {
        NewResource { resource: integration.into(), max }
    }
}

impl Create for NewIntegration {
    type Record = Integration;
}

impl From<NewAlert> for NewResource {
    fn from(NewAlert { alert, max }: NewAlert) -> NewResource {
        NewResource { resource: alert.into(), max }
    }
}

impl Create for NewAlert {
    type Record = Alert;
}

macro_rules! changes {
    ($($record:ty),*) => {$(
        impl From<$record> for ChangedResource {
            fn from(record: $record) -> ChangedResource {
                ChangedResource { resource: record.into(), key: None, messages: Vec::new() }
            }
        }

        impl Change for $record {
            type Record = $record;
        }
    )*};
}

changes!(
    Alert,
    Application,
    ChatApps,
    EnvironmentPolicy,
    EventType,
    Integration,
    PortalSettings,
    Queue,
    Quota,
    ScheduleRecord
);

impl From<ChangedEndpoint> for ChangedResource {
    fn from(ChangedEndpoint { endpoint, key }: ChangedEndpoint) -> ChangedResource {
        ChangedResource { resource: endpoint.into(), key, messages: Vec::new() }
    }
}

impl Change for ChangedEndpoint {
    type Record = Endpoint;
}

impl From<ChangedAlert> for ChangedResource {
    fn from(ChangedAlert { alert, messages }: ChangedAlert) -> ChangedResource {
        ChangedResource { resource: alert.into(), key: None, messages }
    }
}

impl Change for ChangedAlert {
    type Record = Alert;
}
