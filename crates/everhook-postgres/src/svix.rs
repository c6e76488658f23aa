//! Reads the database of a Svix server, for `everhook import svix`.
//!
//! Only reads, in pages by id, and converts nothing: JSON columns are returned as text. Deleted rows are left out.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::connection::{Connector, Route, address, settings};
use crate::error::PostgresOpenError;

/// Rows of one page.
const PAGE: i64 = 250;
/// Organizations to list for a choice.
const ORGANIZATIONS_MAX: i64 = 100;
/// The most time that one page may take.
const PAGE_WAIT: Duration = Duration::from_secs(60);

/// The organization of Svix's own event types.
const MANAGEMENT: &str = "org_00000000000SvixManagement00";

const ORGANIZATIONS: &str = "select org_id::text, count(*) from public.application \
    where not deleted and org_id <> $1 group by org_id order by org_id limit $2";
const APPLICATIONS: &str = "select application.id::text, uid::text, name::text, rate_limit::int4, data::text \
    from public.application left join public.applicationmetadata on applicationmetadata.id = application.id \
    where org_id = $1 and application.id > $2 and not deleted order by application.id limit $3";
const ENDPOINTS: &str = "select endpoint.id::text, app_id::text, key, url::text, description::text, \
    event_types_ids::text, version::int4, rate_limit::int4, disabled, uid::text, old_keys::text, channels::text, \
    headers::text, data::text \
    from public.endpoint left join public.endpointmetadata on endpointmetadata.id = endpoint.id \
    where app_id = any ($1) and endpoint.id > $2 and not deleted order by endpoint.id limit $3";
const EVENT_TYPES: &str = "select id::text, name::text, description::text, schemas::text, feature_flag::text, \
    deprecated from public.eventtype where org_id = $1 and id > $2 and not deleted order by id limit $3";

/// An open connection to a Svix database.
pub struct SvixDatabase {
    client: Client,
    address: String,
}

pub struct SvixOrganization {
    pub id: String,
    pub applications: i64,
}

pub struct SvixApplication {
    pub id: String,
    pub uid: Option<String>,
    pub name: String,
    pub rate_limit: Option<i32>,
    /// A JSON object.
    pub metadata: Option<String>,
}

pub struct SvixEndpoint {
    pub id: String,
    pub application: String,
    /// A marker byte and the key; see `everhook_core::svix_key`.
    pub key: Vec<u8>,
    pub url: String,
    pub description: String,
    /// A JSON list of names.
    pub event_types: Option<String>,
    pub version: i32,
    pub rate_limit: Option<i32>,
    pub disabled: bool,
    pub uid: Option<String>,
    /// A JSON list of rotated keys with their expiry.
    pub old_keys: Option<String>,
    /// A JSON list of names.
    pub channels: Option<String>,
    /// A JSON object.
    pub headers: Option<String>,
    /// A JSON object.
    pub metadata: Option<String>,
}

pub struct SvixEventType {
    /// The position in the list; Everhook's event types have no ids.
    pub id: String,
    pub name: String,
    pub description: String,
    /// A JSON object of schemas by version.
    pub schemas: Option<String>,
    pub feature_flag: Option<String>,
    pub archived: bool,
}

impl SvixDatabase {
    pub async fn connect(url: &str) -> Result<SvixDatabase, PostgresOpenError> {
        // The settings of a direct connection fix the plans of Everhook's own statements.
        let config = settings(url, Route::Pooler)?;
        let client = Connector::new(url, &config)?.open_now(&config).await?;
        Ok(SvixDatabase { client, address: address(&config) })
    }

    /// Lists the organizations that have applications.
    pub async fn organizations(&self) -> Result<Vec<SvixOrganization>, PostgresOpenError> {
        self.query(ORGANIZATIONS, &[&MANAGEMENT, &ORGANIZATIONS_MAX], |row| {
            Ok(SvixOrganization { id: row.try_get(0)?, applications: row.try_get(1)? })
        })
        .await
    }

    /// Returns the next page of applications after an id.
    pub async fn applications(&self, org: &str, after: &str) -> Result<Vec<SvixApplication>, PostgresOpenError> {
        self.query(APPLICATIONS, &[&org, &after, &PAGE], |row| {
            Ok(SvixApplication {
                id: row.try_get(0)?,
                uid: row.try_get(1)?,
                name: row.try_get(2)?,
                rate_limit: row.try_get(3)?,
                metadata: row.try_get(4)?,
            })
        })
        .await
    }

    /// Returns the next page of the endpoints of these applications after an id.
    pub async fn endpoints(&self, apps: &[String], after: &str) -> Result<Vec<SvixEndpoint>, PostgresOpenError> {
        self.query(ENDPOINTS, &[&apps, &after, &PAGE], |row| {
            Ok(SvixEndpoint {
                id: row.try_get(0)?,
                application: row.try_get(1)?,
                key: row.try_get(2)?,
                url: row.try_get(3)?,
                description: row.try_get(4)?,
                event_types: row.try_get(5)?,
                version: row.try_get(6)?,
                rate_limit: row.try_get(7)?,
                disabled: row.try_get(8)?,
                uid: row.try_get(9)?,
                old_keys: row.try_get(10)?,
                channels: row.try_get(11)?,
                headers: row.try_get(12)?,
                metadata: row.try_get(13)?,
            })
        })
        .await
    }

    /// Returns the next page of event types after an id.
    pub async fn event_types(&self, org: &str, after: &str) -> Result<Vec<SvixEventType>, PostgresOpenError> {
        self.query(EVENT_TYPES, &[&org, &after, &PAGE], |row| {
            Ok(SvixEventType {
                id: row.try_get(0)?,
                name: row.try_get(1)?,
                description: row.try_get(2)?,
                schemas: row.try_get(3)?,
                feature_flag: row.try_get(4)?,
                archived: row.try_get(5)?,
            })
        })
        .await
    }

    async fn query<T>(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
        record: impl Fn(&Row) -> Result<T, tokio_postgres::Error>,
    ) -> Result<Vec<T>, PostgresOpenError> {
        let what = "read the tables of Svix";
        let failed = |source| PostgresOpenError::Statement { address: self.address.clone(), what, source };
        let rows = timeout(PAGE_WAIT, self.client.query(statement, parameters)).await;
        let rows = rows.map_err(|late| failed(Box::new(late)))?.map_err(|error| failed(Box::new(error)))?;
        rows.iter().map(record).collect::<Result<_, _>>().map_err(|error| failed(Box::new(error)))
    }
}
