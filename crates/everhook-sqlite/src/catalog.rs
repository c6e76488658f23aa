//! What users configure. Writes are jobs of the writer, reads go to the readers.
//!
//! One file per kind of object; here the trait is mapped to them, and what they share.

use async_trait::async_trait;
use everhook_core::api_key::{ApiKeyHash, KeyRecord, KeyScope};
use everhook_core::application::{Application, Environment};
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, KeyId, OrgId};
use everhook_core::name::Name;
use everhook_store::catalog::{ArchivedTypes, Catalog, Created, Having, Locator, NewKey, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::piece::Piece;
use rusqlite::{Connection, ToSql};

use crate::SqliteStore;
use crate::dedup::{self, Claims};
use crate::failure::Fault;
use crate::rows::Record;
use crate::writer::Tx;

pub(crate) mod application;
pub(crate) mod endpoint;
pub(crate) mod environment;
pub(crate) mod event_type;

/// Who had a key first.
pub(crate) enum Claim {
    /// This request, or no key was sent.
    Won,
    /// The same request, for this object.
    Repeated(Id),
    /// Another request.
    Reused,
}

/// Takes the key of a request for `object`, if it has one.
pub(crate) fn claim(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: Option<&DedupKey>,
    object: Id,
) -> Result<Claim, Fault> {
    let Some(key) = key else { return Ok(Claim::Won) };
    Ok(match Claims::new(tx)?.claim(environment, key, object)? {
        None => Claim::Won,
        Some(holder) if holder.body == key.body => Claim::Repeated(holder.object),
        Some(_) => Claim::Reused,
    })
}

/// Gives the key of a request back that came to nothing.
pub(crate) fn release(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: Option<&DedupKey>,
    object: Id,
) -> Result<(), Fault> {
    key.map_or(Ok(()), |key| dedup::release(tx, environment, key, object))
}

/// Sort before and after every name.
pub(crate) const NAME_ENDS: (&str, &str) = ("", "\u{7f}");

/// A list statement in this direction; it is written for the ascending one.
pub(crate) fn directed(sql: &'static str, order: Order) -> String {
    match order {
        Order::Ascending => sql.to_owned(),
        Order::Descending => sql.replace(" asc\n", " desc\n"),
    }
}

/// What lies strictly beyond `after` in this direction, between two ends that lie outside of everything.
pub(crate) fn bounds<'k, K: ?Sized>(after: Option<&'k K>, order: Order, ends: (&'k K, &'k K)) -> (&'k K, &'k K) {
    match order {
        Order::Ascending => (after.unwrap_or(ends.0), ends.1),
        Order::Descending => (ends.0, after.unwrap_or(ends.1)),
    }
}

/// How far a search looks that looks at `scan` rows: the id of the last one, or none if there are not so many.
pub(crate) fn scan_end(
    conn: &Connection,
    sql: &'static str,
    order: Order,
    params: &[&dyn ToSql],
    scan: usize,
) -> Result<Option<Id>, Fault> {
    let offset = limit(scan.saturating_sub(1));
    let mut all = params.to_vec();
    all.push(&offset);
    let mut find = conn.prepare_cached(&directed(sql, order))?;
    let mut rows = find.query(all.as_slice())?;
    rows.next()?.map(|row| Record::new(row, "scan").id(0, "id")).transpose()
}

/// A number of rows as SQLite counts them.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

#[async_trait]
impl Catalog for SqliteStore {
    async fn ensure_environment(&self, org: OrgId, name: &str) -> Result<Environment, StoreError> {
        let name = name.to_owned();
        self.change("ensure_environment", move |tx| environment::ensure(tx, org, &name)).await
    }

    async fn list_environments(&self) -> Result<Vec<Environment>, StoreError> {
        self.read("list_environments", environment::list).await
    }

    async fn create_key(&self, key: &NewKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.change("create_key", move |tx| environment::create_key(tx, &key)).await
    }

    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.read("list_keys", environment::list_keys).await
    }

    async fn revoke_key(&self, key: KeyId) -> Result<bool, StoreError> {
        self.change("revoke_key", move |tx| environment::revoke_key(tx, key)).await
    }

    async fn find_key(&self, hash: &ApiKeyHash) -> Result<Option<KeyScope>, StoreError> {
        let hash = *hash;
        self.read("find_key", move |conn| environment::find_key(conn, &hash)).await
    }

    async fn create_application(
        &self,
        environment: EnvironmentId,
        application: &Application,
        key: Option<&DedupKey>,
    ) -> Result<Created<Application>, StoreError> {
        let (application, key) = (application.clone(), key.cloned());
        let create = move |tx: &Tx<'_>| application::create(tx, environment, &application, key.as_ref());
        self.change("create_application", create).await
    }

    async fn find_application(
        &self,
        environment: EnvironmentId,
        locator: &Locator<ApplicationId>,
    ) -> Result<Option<Application>, StoreError> {
        let locator = locator.clone();
        self.read("find_application", move |conn| application::find(conn, environment, &locator)).await
    }

    async fn list_applications(
        &self,
        environment: EnvironmentId,
        having: Having,
        slice: &Slice<ApplicationId>,
    ) -> Result<Vec<Application>, StoreError> {
        let slice = slice.clone();
        self.search(environment, "list_applications", move |conn| application::list(conn, environment, having, &slice))
            .await
    }

    async fn replace_application(
        &self,
        environment: EnvironmentId,
        application: &Application,
    ) -> Result<Replaced<Application>, StoreError> {
        let application = application.clone();
        self.change("replace_application", move |tx| application::replace(tx, environment, &application)).await
    }

    async fn delete_application(&self, environment: EnvironmentId, id: ApplicationId) -> Result<bool, StoreError> {
        self.change("delete_application", move |tx| application::delete(tx, environment, id)).await
    }

    async fn create_endpoint(
        &self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        max: usize,
        key: Option<&DedupKey>,
    ) -> Result<Created<Endpoint>, StoreError> {
        let (endpoint, key) = (endpoint.clone(), key.cloned());
        let create = move |tx: &Tx<'_>| endpoint::create(tx, environment, &endpoint, max, key.as_ref());
        self.change("create_endpoint", create).await
    }

    async fn find_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<EndpointId>,
    ) -> Result<Option<Endpoint>, StoreError> {
        let locator = locator.clone();
        self.read("find_endpoint", move |conn| endpoint::find(conn, environment, application, &locator)).await
    }

    async fn list_endpoints(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        slice: &Slice<EndpointId>,
    ) -> Result<Vec<Endpoint>, StoreError> {
        let slice = slice.clone();
        self.search(environment, "list_endpoints", move |conn| endpoint::list(conn, environment, application, &slice))
            .await
    }

    async fn replace_endpoint(
        &self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        key: Option<&DedupKey>,
    ) -> Result<Replaced<Endpoint>, StoreError> {
        let (endpoint, key) = (endpoint.clone(), key.cloned());
        let replace = move |tx: &Tx<'_>| endpoint::replace(tx, environment, &endpoint, key.as_ref());
        self.change("replace_endpoint", replace).await
    }

    async fn delete_endpoint(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
    ) -> Result<bool, StoreError> {
        self.change("delete_endpoint", move |tx| endpoint::delete(tx, environment, application, id)).await
    }

    async fn create_event_type(
        &self,
        environment: EnvironmentId,
        event_type: &EventType,
        key: Option<&DedupKey>,
    ) -> Result<Created<EventType>, StoreError> {
        let (event_type, key) = (event_type.clone(), key.cloned());
        let create = move |tx: &Tx<'_>| event_type::create(tx, environment, &event_type, key.as_ref());
        self.change("create_event_type", create).await
    }

    async fn find_event_type(&self, environment: EnvironmentId, name: &Name) -> Result<Option<EventType>, StoreError> {
        let name = name.clone();
        self.read("find_event_type", move |conn| event_type::find(conn, environment, &name)).await
    }

    async fn list_event_types(
        &self,
        environment: EnvironmentId,
        archived: ArchivedTypes,
        slice: &Slice<Name>,
    ) -> Result<Piece<EventType, Name>, StoreError> {
        let slice = slice.clone();
        self.search(environment, "list_event_types", move |conn| event_type::list(conn, environment, archived, &slice))
            .await
    }

    async fn replace_event_type(
        &self,
        environment: EnvironmentId,
        event_type: &EventType,
    ) -> Result<Replaced<EventType>, StoreError> {
        let event_type = event_type.clone();
        self.change("replace_event_type", move |tx| event_type::replace(tx, environment, &event_type)).await
    }

    async fn delete_event_type(&self, environment: EnvironmentId, name: &Name) -> Result<bool, StoreError> {
        let name = name.clone();
        self.change("delete_event_type", move |tx| event_type::delete(tx, environment, &name)).await
    }

    async fn unknown_event_types(&self, environment: EnvironmentId, names: &[Name]) -> Result<Vec<Name>, StoreError> {
        let names = names.to_vec();
        self.read("unknown_event_types", move |conn| event_type::unknown(conn, environment, names)).await
    }
}
