//! What users configure. Each kind of object has a file; this one gathers them behind the trait.

pub(crate) mod application;
pub(crate) mod endpoint;
pub(crate) mod environment;
pub(crate) mod event_type;

use async_trait::async_trait;
use everhook_core::api_key::{ApiKeyHash, KeyRecord, KeyScope};
use everhook_core::application::{Application, Environment};
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, ID_BYTES, KeyId, OrgId};
use everhook_core::name::Name;
use everhook_store::catalog::{ArchivedTypes, Catalog, Created, Having, Locator, NewKey, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::piece::Piece;

use crate::error::Fault;
use crate::store::PostgresStore;

/// Sorts behind every name: their alphabet ends before it.
const NAME_ABOVE: &str = "~";
/// How often a creation looks again when what is in its way disappears.
const LOOKS_MAX: usize = 3;

#[async_trait]
impl Catalog for PostgresStore {
    async fn ensure_environment(&self, org: OrgId, name: &str) -> Result<Environment, StoreError> {
        self.run_plain("ensure an environment", || self.ensure_environment_once(org, name)).await
    }

    async fn list_environments(&self) -> Result<Vec<Environment>, StoreError> {
        self.run_plain("list environments", || self.list_environments_once()).await
    }

    async fn create_key(&self, key: &NewKey) -> Result<(), StoreError> {
        self.run_plain("create a key", || self.create_key_once(key)).await
    }

    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.run_plain("list keys", || self.list_keys_once()).await
    }

    async fn revoke_key(&self, key: KeyId) -> Result<bool, StoreError> {
        self.run_plain("revoke a key", || self.revoke_key_once(key)).await
    }

    async fn find_key(&self, hash: &ApiKeyHash) -> Result<Option<KeyScope>, StoreError> {
        self.run_plain("find a key", || self.find_key_once(hash)).await
    }

    async fn create_application(
        &self,
        environment: EnvironmentId,
        application: &Application,
        key: Option<&DedupKey>,
    ) -> Result<Created<Application>, StoreError> {
        self.run_plain("create an application", || self.create_application_once(environment, application, key)).await
    }

    async fn find_application(
        &self,
        environment: EnvironmentId,
        locator: &Locator<ApplicationId>,
    ) -> Result<Option<Application>, StoreError> {
        self.run_plain("find an application", || self.find_application_once(environment, locator)).await
    }

    async fn list_applications(
        &self,
        environment: EnvironmentId,
        having: Having,
        slice: &Slice<ApplicationId>,
    ) -> Result<Vec<Application>, StoreError> {
        self.run_search(environment, "list applications", || self.list_applications_once(environment, having, slice))
            .await
    }

    async fn replace_application(
        &self,
        environment: EnvironmentId,
        application: &Application,
    ) -> Result<Replaced<Application>, StoreError> {
        self.run_plain("replace an application", || self.replace_application_once(environment, application)).await
    }

    async fn delete_application(&self, environment: EnvironmentId, id: ApplicationId) -> Result<bool, StoreError> {
        self.run_plain("delete an application", || self.delete_application_once(environment, id)).await
    }

    async fn create_endpoint(
        &self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        max: usize,
        key: Option<&DedupKey>,
    ) -> Result<Created<Endpoint>, StoreError> {
        self.run_plain("create an endpoint", || self.create_endpoint_once(environment, endpoint, max, key)).await
    }

    async fn find_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<EndpointId>,
    ) -> Result<Option<Endpoint>, StoreError> {
        self.run_plain("find an endpoint", || self.find_endpoint_once(environment, application, locator)).await
    }

    async fn list_endpoints(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        slice: &Slice<EndpointId>,
    ) -> Result<Vec<Endpoint>, StoreError> {
        self.run_search(environment, "list endpoints", || self.list_endpoints_once(environment, application, slice))
            .await
    }

    async fn replace_endpoint(
        &self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        key: Option<&DedupKey>,
    ) -> Result<Replaced<Endpoint>, StoreError> {
        self.run_plain("replace an endpoint", || self.replace_endpoint_once(environment, endpoint, key)).await
    }

    async fn delete_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
    ) -> Result<bool, StoreError> {
        self.run_plain("delete an endpoint", || self.delete_endpoint_once(environment, application, id)).await
    }

    async fn create_event_type(
        &self,
        environment: EnvironmentId,
        event_type: &EventType,
        key: Option<&DedupKey>,
    ) -> Result<Created<EventType>, StoreError> {
        self.run_plain("create an event type", || self.create_event_type_once(environment, event_type, key)).await
    }

    async fn find_event_type(&self, environment: EnvironmentId, name: &Name) -> Result<Option<EventType>, StoreError> {
        self.run_plain("find an event type", || self.find_event_type_once(environment, name)).await
    }

    async fn list_event_types(
        &self,
        environment: EnvironmentId,
        archived: ArchivedTypes,
        slice: &Slice<Name>,
    ) -> Result<Piece<EventType, Name>, StoreError> {
        self.run_search(environment, "list event types", || self.list_event_types_once(environment, archived, slice))
            .await
    }

    async fn replace_event_type(
        &self,
        environment: EnvironmentId,
        event_type: &EventType,
    ) -> Result<Replaced<EventType>, StoreError> {
        self.run_plain("replace an event type", || self.replace_event_type_once(environment, event_type)).await
    }

    async fn delete_event_type(&self, environment: EnvironmentId, name: &Name) -> Result<bool, StoreError> {
        self.run_plain("delete an event type", || self.delete_event_type_once(environment, name)).await
    }

    async fn unknown_event_types(&self, environment: EnvironmentId, names: &[Name]) -> Result<Vec<Name>, StoreError> {
        self.run_plain("look up event types", || self.unknown_event_types_once(environment, names)).await
    }
}

/// The bytes strictly between which the ids of a slice are: shorter than every id below, longer than every id above.
pub(crate) fn id_bounds(order: Order, after: Option<&[u8; ID_BYTES]>) -> (Vec<u8>, Vec<u8>) {
    let after = after.map(|id| id.to_vec());
    let (below, above) = (Vec::new(), vec![0xff; ID_BYTES + 1]);
    match order {
        Order::Ascending => (after.unwrap_or(below), above),
        Order::Descending => (below, after.unwrap_or(above)),
    }
}

/// The names strictly between which a piece of a list lies.
pub(crate) fn name_bounds(slice: &Slice<Name>) -> (&str, &str) {
    let after = slice.after.as_ref().map(Name::as_str);
    match slice.order {
        Order::Ascending => (after.unwrap_or(""), NAME_ABOVE),
        Order::Descending => ("", after.unwrap_or(NAME_ABOVE)),
    }
}

/// Whether a write was refused because a name is taken.
fn is_taken(fault: &Fault) -> bool {
    let (Fault::Statement(error) | Fault::Commit(error)) = fault else { return false };
    error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}
