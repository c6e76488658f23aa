//! Endpoints, with their lanes. Every change first touches the application: that tells the caches, and lets changes of one
//! application's endpoints happen one after the other.

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Locator, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::sql::rows::{json, keys_text};
use everhook_store::{fields, statement};

use super::{id_bounds, is_taken};
use crate::dedup;
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::Tx;

fields! {
    /// The fields of an endpoint that users set.
    EndpointFields<'a> {
        uid: Option<&'a str>,
        url: &'a str,
        description: &'a str,
        state: EndpointState,
        event_types: Option<String>,
        channels: Option<String>,
        headers: String,
        throttle_rate: Option<u16>,
        metadata: String,
        version: u16,
        keys: String,
    }
}

statement! {
    pub(crate) TouchApplication = "touch_application" { environment: EnvironmentId, id: ApplicationId };
    CreateEndpoint<'a> = "create_endpoint" {
        environment: EnvironmentId, id: EndpointId, application: ApplicationId, fields: EndpointFields<'a>,
    } -> Option<Endpoint>;
    CountEndpoint = "count_endpoint" { environment: EnvironmentId, application: ApplicationId, limit: usize }
        -> Option<usize>;
    CreateLane = "create_lane" { environment: EnvironmentId, id: EndpointId, application: ApplicationId, state: i16 };
    // An endpoint and when it was deleted, if it was.
    pub(crate) FindEndpoint = "find_endpoint" {
        environment: EnvironmentId, application: ApplicationId, id: EndpointId,
    } -> Option<(Endpoint, Option<Timestamp>)>;
    FindEndpointUid<'a> = "find_endpoint_uid" {
        environment: EnvironmentId, application: ApplicationId, uid: &'a str,
    } -> Option<(Endpoint, Option<Timestamp>)>;
    ListEndpoint<'a> = "list_endpoint" {
        environment: EnvironmentId, application: ApplicationId, above: &'a [u8], below: &'a [u8], limit: usize,
        order: Order,
    } -> Vec<Endpoint>;
    ReplaceEndpoint<'a> = "replace_endpoint" {
        environment: EnvironmentId, application: ApplicationId, id: EndpointId, revision: i64,
        fields: EndpointFields<'a>,
    } -> Option<Endpoint>;
    SetLaneState = "set_lane_state" { environment: EnvironmentId, id: EndpointId, state: i16 };
    // The number of endpoints that were deleted: one, or all of the application.
    pub(crate) DeleteEndpoint = "delete_endpoint" {
        environment: EnvironmentId, application: ApplicationId, id: Option<EndpointId>,
    } -> Option<u64>;
}

impl PostgresStore {
    pub(crate) async fn create_endpoint_once(
        &self,
        environment: EnvironmentId,
        new: &Endpoint,
        max: usize,
        key: Option<&DedupKey>,
    ) -> Result<Created<Endpoint>, Fault> {
        let (id, application) = (new.id, new.application);
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if let Some(key) = key
            && let Some(holder) = dedup::take_one(&tx, environment, key, new.id.0).await?
        {
            let held = EndpointId(holder.object);
            let repeated = match holder.body == key.body {
                true => find(&tx, environment, new.application, held).await?.map(Created::Repeated),
                false => Some(Created::KeyReused),
            };
            tx.roll_back().await?;
            return repeated.ok_or(Fault::Contended("what a key stands for is not there"));
        }
        if tx.run(TouchApplication { environment, id: application }).await? == 0 {
            tx.roll_back().await?;
            return Ok(Created::NoParent);
        }
        let uid = new.uid.as_ref().map(|uid| uid.as_str());
        let fields = EndpointFields::new(new);
        if let Some(created) = tx.run(CreateEndpoint { environment, id, application, fields }).await? {
            // The application's lock is held: no other creation can add to this count before the commit.
            if has_more(&tx, environment, new.application, max).await? {
                tx.roll_back().await?;
                return Ok(Created::Full);
            }
            tx.finish(CreateLane { environment, id, application, state: lane_state(new.state) }).await?;
            return Ok(Created::New(created));
        }
        let in_the_way = tx.run(uid.map(|uid| FindEndpointUid { environment, application, uid })).await?;
        let found = match in_the_way {
            Some((found, _)) => Some(found),
            None => find(&tx, environment, new.application, new.id).await?,
        };
        tx.roll_back().await?;
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
        let found = match locator {
            Locator::Id(id) => self.database.read(FindEndpoint { environment, application, id: *id }).await?,
            Locator::Uid(uid) => {
                self.database.read(FindEndpointUid { environment, application, uid: uid.as_str() }).await?
            }
        };
        Ok(found.and_then(|(found, deleted_at)| deleted_at.is_none().then_some(found)))
    }

    pub(crate) async fn list_endpoints_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        slice: &Slice<EndpointId>,
    ) -> Result<Vec<Endpoint>, Fault> {
        let (above, below) = id_bounds(slice.order, slice.after.as_ref().map(EndpointId::as_bytes));
        let (above, below, limit, order) = (above.as_slice(), below.as_slice(), slice.limit, slice.order);
        self.database.read(ListEndpoint { environment, application, above, below, limit, order }).await
    }

    pub(crate) async fn replace_endpoint_once(
        &self,
        environment: EnvironmentId,
        new: &Endpoint,
        key: Option<&DedupKey>,
    ) -> Result<Replaced<Endpoint>, Fault> {
        let (id, application) = (new.id, new.application);
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if let Some(key) = key
            && let Some(holder) = dedup::take_one(&tx, environment, key, new.id.0).await?
        {
            tx.roll_back().await?;
            return Ok(if holder.body == key.body { Replaced::Repeated } else { Replaced::KeyReused });
        }
        tx.run(TouchApplication { environment, id: application }).await?;
        let (revision, fields) = (new.revision, EndpointFields::new(new));
        let replace = ReplaceEndpoint { environment, application, id, revision, fields };
        let changed = match tx.run(replace).await {
            Err(fault) if is_taken(&fault) => return Ok(Replaced::Taken),
            changed => changed?,
        };
        let Some(changed) = changed else {
            tx.roll_back().await?;
            return Ok(Replaced::Stale);
        };
        tx.finish(SetLaneState { environment, id, state: lane_state(new.state) }).await?;
        Ok(Replaced::Done(changed))
    }

    pub(crate) async fn delete_endpoint_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: EndpointId,
    ) -> Result<bool, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let touch = TouchApplication { environment, id: application };
        let (_, deleted) = tx.run((touch, DeleteEndpoint { environment, application, id: Some(id) })).await?;
        let is_deleted = deleted.is_some_and(|deleted| deleted > 0);
        if is_deleted {
            tx.commit().await?;
        } else {
            tx.roll_back().await?;
        }
        Ok(is_deleted)
    }
}

impl<'a> EndpointFields<'a> {
    fn new(endpoint: &'a Endpoint) -> EndpointFields<'a> {
        EndpointFields {
            uid: endpoint.uid.as_ref().map(|uid| uid.as_str()),
            url: &endpoint.url,
            description: &endpoint.description,
            state: endpoint.state,
            event_types: endpoint.event_types.as_ref().map(json),
            channels: endpoint.channels.as_ref().map(json),
            headers: json(&endpoint.headers),
            throttle_rate: endpoint.throttle_rate,
            metadata: json(&endpoint.metadata),
            version: endpoint.version,
            keys: keys_text(&endpoint.keys),
        }
    }
}

/// Whether an application has more than `max` endpoints.
async fn has_more(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    max: usize,
) -> Result<bool, Fault> {
    let enough = max.saturating_add(1);
    let counted = tx.run(CountEndpoint { environment, application, limit: enough }).await?;
    Ok(counted.is_some_and(|counted| counted >= enough))
}

/// An endpoint by id, also a deleted one.
async fn find(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    id: EndpointId,
) -> Result<Option<Endpoint>, Fault> {
    Ok(tx.run(FindEndpoint { environment, application, id }).await?.map(|(found, _)| found))
}

/// Open or held, as the endpoint is.
fn lane_state(state: EndpointState) -> i16 {
    match state {
        EndpointState::Enabled => 0,
        EndpointState::Disabled | EndpointState::Gone => 1,
    }
}
