//! Resources: configured objects of five kinds, created, replaced and deleted through the same three operations.
//!
//! The enums cross the seam; [`Resources`](crate::store::Resources) gives callers the record of the kind that they
//! named.

#![allow(missing_docs, reason = "kinds and records have the names of the objects")]

use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId};
use everhook_core::name::Name;
use everhook_core::queue::Queue;

use crate::dedup::DedupKey;
use crate::queue::QueueDeleted;
use crate::schedule::ScheduleRecord;

/// A resource of any kind, as it is stored.
#[derive(Clone, Debug)]
pub enum Resource {
    Application(Application),
    Endpoint(Endpoint),
    EventType(EventType),
    Queue(Queue),
    Schedule(ScheduleRecord),
}

/// A resource to create. `created_at`, `updated_at` and `revision` are the store's to set, and the state of a schedule.
#[derive(Clone, Debug)]
pub enum NewResource {
    /// `Taken` by uid.
    Application(Application),
    /// Created with its lane. `Taken` by uid.
    Endpoint(NewEndpoint),
    /// `Taken` by name, by an event type that may be archived.
    EventType(EventType),
    /// `Taken` by name.
    Schedule(ScheduleRecord),
}

/// An endpoint to create.
#[derive(Clone, Debug)]
pub struct NewEndpoint {
    pub endpoint: Endpoint,
    /// The number of endpoints that the application may have; concurrent creations never exceed it.
    pub max: usize,
}

/// A resource to replace if its revision is still the given one.
#[derive(Clone, Debug)]
pub enum ChangedResource {
    Application(Application),
    /// Disabling the endpoint holds its lane, enabling frees it.
    Endpoint(ChangedEndpoint),
    EventType(EventType),
    /// Revision 0 configures a queue that was not configured before. The next lease obeys.
    Queue(Queue),
    /// The state of the schedule begins anew.
    Schedule(ScheduleRecord),
}

/// An endpoint to replace.
#[derive(Clone, Debug)]
pub struct ChangedEndpoint {
    pub endpoint: Endpoint,
    /// The idempotency key of the request.
    pub key: Option<DedupKey>,
}

/// The key of a resource to delete.
#[derive(Clone, Debug)]
pub enum ResourceKey {
    /// Deleted with its endpoints; frees its uid, and cancels open deliveries.
    Application(ApplicationId),
    /// Frees its uid, and cancels open deliveries.
    Endpoint(ApplicationId, EndpointId),
    EventType(Name),
    /// A queue with open jobs stays. Records of ended jobs stay, and the next job makes the queue anew, without limits.
    Queue(Name),
    /// Deleted with its history; the jobs and messages that it started stay.
    Schedule(Name),
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

impl From<QueueDeleted> for Deleted {
    fn from(deleted: QueueDeleted) -> Deleted {
        match deleted {
            QueueDeleted::Done => Deleted::Done,
            QueueDeleted::NoQueue => Deleted::NotFound,
            QueueDeleted::HasJobs => Deleted::HasJobs,
        }
    }
}

/// A value that creates a resource.
pub trait Create: Into<NewResource> + Send {
    type Record: TryFrom<Resource, Error = Resource> + Send;
}

/// A value that replaces a resource.
pub trait Change: Into<ChangedResource> + Send {
    type Record: TryFrom<Resource, Error = Resource> + Send;
}

macro_rules! resources {
    ($($kind:ident($record:ty) $(creates $new:ty,)? changes $changed:ty;)*) => {
        $(
            impl TryFrom<Resource> for $record {
                type Error = Resource;

                fn try_from(resource: Resource) -> Result<$record, Resource> {
                    match resource {
                        Resource::$kind(record) => Ok(record),
                        other => Err(other),
                    }
                }
            }

            $(
                impl From<$new> for NewResource {
                    fn from(new: $new) -> NewResource {
                        NewResource::$kind(new)
                    }
                }

                impl Create for $new {
                    type Record = $record;
                }
            )?

            impl From<$changed> for ChangedResource {
                fn from(changed: $changed) -> ChangedResource {
                    ChangedResource::$kind(changed)
                }
            }

            impl Change for $changed {
                type Record = $record;
            }
        )*
    };
}

resources! {
    Application(Application) creates Application, changes Application;
    Endpoint(Endpoint) creates NewEndpoint, changes ChangedEndpoint;
    EventType(EventType) creates EventType, changes EventType;
    Queue(Queue) changes Queue;
    Schedule(ScheduleRecord) creates ScheduleRecord, changes ScheduleRecord;
}
