//! What users configure: environments, keys, applications, endpoints, event types.
//!
//! Changes are compare-and-set by revision: read, change, replace; on `Stale` read again. So two concurrent changes never
//! undo each other, and the rules for a change live in one place above the stores.

use async_trait::async_trait;
use everhook_core::api_key::{ApiKeyHash, KeyRecord, KeyScope};
use everhook_core::application::{Application, Environment};
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, KeyId, OrgId};
use everhook_core::name::Name;

use crate::dedup::DedupKey;
use crate::error::StoreError;
use crate::piece::Piece;

/// How a user names an object: by our id or by their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator<I> {
    /// Our id.
    Id(I),
    /// Their uid.
    Uid(Name),
}

/// The direction of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first.
    Ascending,
    /// Largest key first.
    Descending,
}

/// A piece of a list: rows strictly beyond `after` in this direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice<K> {
    /// Where the piece before ended.
    pub after: Option<K>,
    /// Which way.
    pub order: Order,
    /// Rows at most.
    pub limit: usize,
}

/// The bytes of an event type that a page counts.
pub fn event_type_bytes(event_type: &EventType) -> usize {
    event_type.description.len() + event_type.schemas.as_ref().map_or(0, String::len)
}

/// What became of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created<T> {
    /// It is new.
    New(T),
    /// The same request created it before.
    Repeated(T),
    /// Its uid or name is taken, by this one.
    Taken(T),
    /// The idempotency key was used with another body.
    KeyReused,
    /// What it would belong to does not exist.
    NoParent,
    /// What it would belong to has as many of its kind as it may have.
    Full,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced<T> {
    /// As it is now.
    Done(T),
    /// The same request changed it before.
    Repeated,
    /// Someone changed or deleted it meanwhile: read again.
    Stale,
    /// The new uid is taken.
    Taken,
    /// The idempotency key was used with another body.
    KeyReused,
}

/// A key to keep.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its handle.
    pub id: KeyId,
    /// What is kept of it.
    pub hash: ApiKeyHash,
    /// To recognise it.
    pub hint: String,
    /// What it may do.
    pub scope: KeyScope,
}

/// Everything that is configured.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// The environment with this public id; created with `name` if new.
    async fn ensure_environment(&self, org: OrgId, name: &str) -> Result<Environment, StoreError>;

    /// Every environment, oldest first.
    async fn list_environments(&self) -> Result<Vec<Environment>, StoreError>;

    /// Keeps a key.
    async fn create_key(&self, key: &NewKey) -> Result<(), StoreError>;

    /// Every key, revoked ones too, oldest first.
    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// Stops a key for ever; false if there is none that works.
    async fn revoke_key(&self, key: KeyId) -> Result<bool, StoreError>;

    /// What a key may do; none if it is unknown or revoked.
    async fn find_key(&self, hash: &ApiKeyHash) -> Result<Option<KeyScope>, StoreError>;

    /// Creates an application. `created_at`, `updated_at` and `revision` are the store's to set; so for all creations.
    async fn create_application(
        &self,
        environment: EnvironmentId,
        application: &Application,
        key: Option<&DedupKey>,
    ) -> Result<Created<Application>, StoreError>;

    /// Finds an application.
    async fn find_application(
        &self,
        environment: EnvironmentId,
        locator: &Locator<ApplicationId>,
    ) -> Result<Option<Application>, StoreError>;

    /// Lists applications by id.
    async fn list_applications(
        &self,
        environment: EnvironmentId,
        having: Having,
        slice: &Slice<ApplicationId>,
    ) -> Result<Vec<Application>, StoreError>;

    /// Replaces an application whose revision is still the given one.
    async fn replace_application(
        &self,
        environment: EnvironmentId,
        application: &Application,
    ) -> Result<Replaced<Application>, StoreError>;

    /// Deletes an application with its endpoints, freeing its uid; open deliveries are cancelled. False if there is none.
    async fn delete_application(&self, environment: EnvironmentId, id: ApplicationId) -> Result<bool, StoreError>;

    /// Creates an endpoint and its lane, as one of at most `max` of its application: concurrent creations never exceed it.
    async fn create_endpoint(
        &self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        max: usize,
        key: Option<&DedupKey>,
    ) -> Result<Created<Endpoint>, StoreError>;

    /// Finds an endpoint of an application.
    async fn find_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<EndpointId>,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Lists an application's endpoints by id.
    async fn list_endpoints(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        slice: &Slice<EndpointId>,
    ) -> Result<Vec<Endpoint>, StoreError>;

    /// Replaces an endpoint whose revision is still the given one; disabling holds its lane, enabling frees it.
    async fn replace_endpoint(
        &self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        key: Option<&DedupKey>,
    ) -> Result<Replaced<Endpoint>, StoreError>;

    /// Deletes an endpoint, freeing its uid; open deliveries are cancelled. False if there is none.
    async fn delete_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
    ) -> Result<bool, StoreError>;

    /// Creates an event type. `Taken` answers the existing one, archived or not.
    async fn create_event_type(
        &self,
        environment: EnvironmentId,
        event_type: &EventType,
        key: Option<&DedupKey>,
    ) -> Result<Created<EventType>, StoreError>;

    /// Finds an event type, archived or not.
    async fn find_event_type(&self, environment: EnvironmentId, name: &Name) -> Result<Option<EventType>, StoreError>;

    /// Lists event types by name.
    async fn list_event_types(
        &self,
        environment: EnvironmentId,
        archived: ArchivedTypes,
        slice: &Slice<Name>,
    ) -> Result<Piece<EventType, Name>, StoreError>;

    /// Replaces an event type whose revision is still the given one.
    async fn replace_event_type(
        &self,
        environment: EnvironmentId,
        event_type: &EventType,
    ) -> Result<Replaced<EventType>, StoreError>;

    /// Removes an event type for good. False if there is none.
    async fn delete_event_type(&self, environment: EnvironmentId, name: &Name) -> Result<bool, StoreError>;

    /// Which of these names are not event types that an endpoint may ask for (unknown or archived).
    async fn unknown_event_types(&self, environment: EnvironmentId, names: &[Name]) -> Result<Vec<Name>, StoreError>;
}

/// Which applications a list has, by their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Having {
    /// Whatever they have.
    Anything,
    /// At least one endpoint.
    Endpoints,
    /// At least one endpoint that is enabled.
    EnabledEndpoints,
    /// An endpoint that is enabled, or none at all.
    NotOnlyDisabledEndpoints,
}

impl Having {
    /// The number that stands for it in statements.
    pub const fn to_db(self) -> i16 {
        match self {
            Having::Anything => 0,
            Having::Endpoints => 1,
            Having::EnabledEndpoints => 2,
            Having::NotOnlyDisabledEndpoints => 3,
        }
    }
}

/// Whether a list has archived event types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchivedTypes {
    /// It does.
    Included,
    /// It does not.
    Excluded,
}
