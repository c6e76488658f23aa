//! Endpoints, with their lanes. Every change first touches the application: that tells the caches, and lets changes of one
//! application's endpoints happen one after the other.

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_store::catalog::{Created, Locator, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{count, id_bounds, is_taken};
use crate::error::Fault;
use crate::keys;
use crate::rows::{self, ENDPOINT_COLUMNS, json};
use crate::sql;
use crate::statement::{Params, Transaction};
use crate::store::PostgresStore;

/// What is written of an endpoint, besides its keys.
struct Columns<'a> {
    uid: Option<&'a str>,
    url: &'a str,
    description: &'a str,
    state: i16,
    event_types: Option<String>,
    channels: Option<String>,
    headers: String,
    throttle_rate: Option<i32>,
    metadata: String,
    version: i32,
    keys: String,
}

impl PostgresStore {
    pub(crate) async fn create_endpoint_once(
        &self,
        environment: EnvironmentId,
        new: &Endpoint,
        max: usize,
        key: Option<&DedupKey>,
    ) -> Result<Created<Endpoint>, Fault> {
        let (id, application) = (new.id.as_bytes().as_slice(), new.application.as_bytes().as_slice());
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        if let Some(key) = key
            && let Some(holder) = keys::take_one(&transaction, environment, key, new.id.0).await?
        {
            let held = EndpointId(holder.object);
            let repeated = match holder.body == key.body {
                true => find(&transaction, environment, new.application, held).await?.map(Created::Repeated),
                false => Some(Created::KeyReused),
            };
            transaction.roll_back().await?;
            return repeated.ok_or(Fault::Contended("what a key stands for is not there"));
        }
        if transaction.change(&sql::TOUCH_APPLICATION, &[&environment.0, &application]).await? == 0 {
            transaction.roll_back().await?;
            return Ok(Created::NoParent);
        }
        let columns = Columns::new(new);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&environment.0, &id, &application];
        params.extend(columns.params());
        if let Some(row) = transaction.rows(&sql::CREATE_ENDPOINT, &params).await?.first() {
            let created = rows::endpoint(row, 0)?;
            // The application's lock is held: no other creation can add to this count before the commit.
            if has_more(&transaction, environment, new.application, max).await? {
                transaction.roll_back().await?;
                return Ok(Created::Full);
            }
            let lane: Params<'_> = &[&environment.0, &id, &application, &lane_state(new.state)];
            transaction.change(&sql::CREATE_LANE, lane).await?;
            transaction.commit().await?;
            return Ok(Created::New(created));
        }
        let in_the_way = match columns.uid {
            Some(uid) => transaction.rows(&sql::FIND_ENDPOINT_UID, &[&environment.0, &application, &uid]).await?,
            None => Vec::new(),
        };
        let found = match in_the_way.first() {
            Some(row) => Some(rows::endpoint(row, 0)?),
            None => find(&transaction, environment, new.application, new.id).await?,
        };
        transaction.roll_back().await?;
        match found {
            // Its own id can only be there because this was written before.
            Some(found) if found.id == new.id => Ok(Created::Repeated(found)),
            Some(found) => Ok(Created::Taken(found)),
            // The application's lock keeps others from freeing a uid meanwhile.
            None => Err(Fault::Contended("what is in the way of an endpoint is not there")),
        }
    }

    pub(crate) async fn find_endpoint_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<EndpointId>,
    ) -> Result<Option<Endpoint>, Fault> {
        let application = application.as_bytes().as_slice();
        let found = match locator {
            Locator::Id(id) => {
                let params: Params<'_> = &[&environment.0, &application, &id.as_bytes().as_slice()];
                self.database.read(&sql::FIND_ENDPOINT, params).await?
            }
            Locator::Uid(uid) => {
                let params: Params<'_> = &[&environment.0, &application, &uid.as_str()];
                self.database.read(&sql::FIND_ENDPOINT_UID, params).await?
            }
        };
        found.first().filter(|row| is_present(row)).map(|row| rows::endpoint(row, 0)).transpose()
    }

    pub(crate) async fn list_endpoints_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        slice: &Slice<EndpointId>,
    ) -> Result<Vec<Endpoint>, Fault> {
        let (low, high) = id_bounds(slice.order, slice.after.as_ref().map(EndpointId::as_bytes));
        let text = sql::directed(&sql::LIST_ENDPOINT, slice.order);
        let params: Params<'_> =
            &[&environment.0, &application.as_bytes().as_slice(), &low, &high, &count(slice.limit)];
        let found = self.database.read_as(&sql::LIST_ENDPOINT, &text, params).await?;
        found.iter().map(|row| rows::endpoint(row, 0)).collect()
    }

    pub(crate) async fn replace_endpoint_once(
        &self,
        environment: EnvironmentId,
        new: &Endpoint,
        key: Option<&DedupKey>,
    ) -> Result<Replaced<Endpoint>, Fault> {
        let (id, application) = (new.id.as_bytes().as_slice(), new.application.as_bytes().as_slice());
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        if let Some(key) = key
            && let Some(holder) = keys::take_one(&transaction, environment, key, new.id.0).await?
        {
            transaction.roll_back().await?;
            return Ok(if holder.body == key.body { Replaced::Repeated } else { Replaced::KeyReused });
        }
        transaction.change(&sql::TOUCH_APPLICATION, &[&environment.0, &application]).await?;
        let columns = Columns::new(new);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&environment.0, &application, &id, &new.revision];
        params.extend(columns.params());
        let changed = match transaction.rows(&sql::REPLACE_ENDPOINT, &params).await {
            Err(fault) if is_taken(&fault) => return Ok(Replaced::Taken),
            changed => changed?,
        };
        let Some(row) = changed.first() else {
            transaction.roll_back().await?;
            return Ok(Replaced::Stale);
        };
        let changed = rows::endpoint(row, 0)?;
        transaction.change(&sql::SET_LANE_STATE, &[&environment.0, &id, &lane_state(new.state)]).await?;
        transaction.commit().await?;
        Ok(Replaced::Done(changed))
    }

    pub(crate) async fn delete_endpoint_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
    ) -> Result<bool, Fault> {
        let (id, application) = (id.as_bytes().as_slice(), application.as_bytes().as_slice());
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        transaction.change(&sql::TOUCH_APPLICATION, &[&environment.0, &application]).await?;
        let deleted = transaction.rows(&sql::DELETE_ENDPOINT, &[&environment.0, &application, &Some(id)]).await?;
        let deleted: i64 = match deleted.first() {
            Some(row) => rows::Reader::new(row, "endpoint").get("count")?,
            None => 0,
        };
        if deleted == 0 {
            transaction.roll_back().await?;
        } else {
            transaction.commit().await?;
        }
        Ok(deleted > 0)
    }
}

impl<'a> Columns<'a> {
    fn new(endpoint: &'a Endpoint) -> Columns<'a> {
        Columns {
            uid: endpoint.uid.as_ref().map(|uid| uid.as_str()),
            url: &endpoint.url,
            description: &endpoint.description,
            state: endpoint.state.to_db(),
            event_types: endpoint.event_types.as_ref().map(json),
            channels: endpoint.channels.as_ref().map(json),
            headers: json(&endpoint.headers),
            throttle_rate: endpoint.throttle_rate.map(i32::from),
            metadata: json(&endpoint.metadata),
            version: i32::from(endpoint.version),
            keys: rows::keys_text(&endpoint.keys),
        }
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 11] {
        [
            &self.uid,
            &self.url,
            &self.description,
            &self.state,
            &self.event_types,
            &self.channels,
            &self.headers,
            &self.throttle_rate,
            &self.metadata,
            &self.version,
            &self.keys,
        ]
    }
}

/// Whether an application has more than `max` endpoints.
async fn has_more(
    transaction: &Transaction,
    environment: EnvironmentId,
    application: ApplicationId,
    max: usize,
) -> Result<bool, Fault> {
    let enough = count(max).saturating_add(1);
    let params: Params<'_> = &[&environment.0, &application.as_bytes().as_slice(), &enough];
    let counted = transaction.rows(&sql::COUNT_ENDPOINT, params).await?;
    let counted: i64 = match counted.first() {
        Some(row) => rows::Reader::new(row, "endpoint").get("count")?,
        None => 0,
    };
    Ok(counted >= enough)
}

/// An endpoint by id, also a deleted one.
async fn find(
    transaction: &Transaction,
    environment: EnvironmentId,
    application: ApplicationId,
    id: EndpointId,
) -> Result<Option<Endpoint>, Fault> {
    let params: Params<'_> = &[&environment.0, &application.as_bytes().as_slice(), &id.as_bytes().as_slice()];
    let found = transaction.rows(&sql::FIND_ENDPOINT, params).await?;
    found.first().map(|row| rows::endpoint(row, 0)).transpose()
}

fn is_present(row: &Row) -> bool {
    matches!(row.try_get::<_, Option<i64>>(ENDPOINT_COLUMNS), Ok(None))
}

/// Open or held, as the endpoint is.
fn lane_state(state: EndpointState) -> i16 {
    match state {
        EndpointState::Enabled => 0,
        EndpointState::Disabled | EndpointState::Gone => 1,
    }
}
