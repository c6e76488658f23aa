//! Deliveries: the state of each message at each endpoint, and the reason for that state.

use axum::Json;
use everhook_core::delivery::{DeliveryKey, DeliveryState, DeliveryTally, OuterPauses, Reason};
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, MessageId};
use everhook_core::limits::{PAGE_MAX, SCAN_ROWS_MAX};
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::catalog::{Order, Slice};
use everhook_store::delivery::{DeliveryFilter, DeliveryRecord, LastAttempt};
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::attempt::millis;
use crate::error::ApiError;
use crate::message::FilterParams;
use crate::page::{Page, PageParams};
use crate::query::Query;
use crate::routes::{Answer, Routes};
use crate::scope::{
    self, ApplicationPath, AtEndpoint, EndpointPath, InApplication, InEnvironment, MessagePath, OfMessage,
};
use crate::state::Api;

/// One message for one endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryOut {
    /// The message.
    #[schema(value_type = String, example = "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    msg_id: MessageId,
    /// The endpoint. It may have been deleted in the meantime.
    #[schema(value_type = String, example = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    endpoint_id: EndpointId,
    /// The application of both.
    #[schema(value_type = String, example = "app_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    app_id: ApplicationId,
    /// The event type of the message.
    #[schema(value_type = String, example = "user.signup")]
    event_type: Name,
    /// The producer's own id of the message, if it has one.
    #[schema(value_type = Option<String>)]
    event_id: Option<Name>,
    /// The time at which the message was accepted.
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    /// `pending`, `sending`, `held`, `succeeded`, `dead` or `cancelled`.
    #[schema(value_type = String, example = "pending")]
    state: String,
    /// Why the delivery is in this state.
    reason: ReasonOut,
    /// The time of the next attempt, if the delivery waits for one. It may be in the past if the delivery waits for its
    /// turn.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt: Option<Timestamp>,
    /// Attempts that the retry policy has counted. Null once the delivery has succeeded or was cancelled.
    tries: Option<u32>,
    /// The last attempt, if there was one.
    last_attempt: Option<LastAttemptOut>,
}

/// Why a delivery is in its state.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReasonOut {
    /// The reason. While pending: `scheduled` (waits for `deliverAt`), `retry`, `backOff` (the endpoint asked for a
    /// pause or timed out), `rateLimit` (the rate limit of the endpoint is used up), `concurrencyLimit` (as many
    /// deliveries of the endpoint run as may run at the same time), `breakerOpen` (the circuit breaker of the endpoint
    /// is open), `breakerProbing` (waits for the deliveries that test the endpoint after its breaker was open),
    /// `behind` (waits for an earlier delivery of an ordered endpoint), `blocked` (an earlier delivery of an ordered
    /// endpoint is dead), `queued` (due, waits for its turn) or `cancelRequested`. While held: `endpointDisabled`,
    /// `endpointPaused`, `applicationPaused` or `environmentPaused`. While sending: `sending` or `cancelRequested`.
    /// Once dead: `exhausted` (no attempts left), `gone` (the receiver answered 410) or `crashed`. At the end:
    /// `delivered`, `cancelled` or `endpointDeleted`. Later versions may add reasons.
    #[schema(value_type = String, example = "retry")]
    kind: &'static str,
    /// The time until which the reason holds, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// The message of the earlier delivery, for `behind` and `blocked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    msg_id: Option<MessageId>,
    /// The time at which the current attempt was leased, while sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// More about the reason, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// The last attempt of a delivery.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastAttemptOut {
    /// The id of the attempt, under which its response can be read.
    #[schema(value_type = String, example = "atmpt_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: AttemptId,
    /// How it ended: `success`, `status`, `throttled`, `gone`, `dns`, `connect`, `tls`, `timeout`, `reset`, `blocked`,
    /// `abandoned`, `interrupted`, `cancelled` or `internal`.
    #[schema(value_type = String, example = "timeout")]
    class: String,
    /// The status of the response; 0 if there was none.
    status: u16,
    /// The time at which it began.
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    /// Its duration in milliseconds.
    duration_ms: u64,
}

/// A filter of deliveries by their state and last attempt.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryParams {
    /// Only deliveries in this state: `pending`, `sending`, `held`, `succeeded`, `dead` or `cancelled`.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>, pattern = "^(pending|sending|held|succeeded|dead|cancelled)$")]
    state: Option<DeliveryState>,
    /// Only deliveries to this endpoint. Within an application it may also be the uid of the endpoint.
    #[serde(deserialize_with = "crate::query::one")]
    endpoint_id: Option<String>,
    /// Only deliveries whose last attempt ended with this class, for example `timeout` or `status`.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    class: Option<Class>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list).add(list_all, __path_list_all).add(get, __path_get)
}

type Deliveries = Answer<Page<DeliveryOut>>;

/// List the deliveries of an application with their states and reasons, newest message first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/delivery", operation_id = "v1.delivery.list", tag = "Delivery",
    params(ApplicationPath, PageParams, DeliveryParams, FilterParams),
    responses((status = 200, body = Page<DeliveryOut>))
)]
async fn list(
    InApplication { api, scope, .. }: InApplication,
    Query(page): Query<PageParams>,
    Query(params): Query<DeliveryParams>,
    Query(filter): Query<FilterParams>,
) -> Deliveries {
    let endpoint = scope::some_endpoint(&api, scope, params.endpoint_id.as_deref()).await?;
    let endpoint = endpoint.map(|endpoint| endpoint.id);
    show(&api, scope.scope(), Some(scope.application), endpoint, (page, params, filter)).await
}

/// List the open deliveries of all applications of the environment, newest message first: those that wait, are being
/// sent or are dead. Deliveries that have ended are in the lists of their applications.
#[utoipa::path(
    get, path = "/api/v1/delivery", operation_id = "v1.delivery.list-all", tag = "Delivery",
    params(PageParams, DeliveryParams, FilterParams), responses((status = 200, body = Page<DeliveryOut>))
)]
async fn list_all(
    InEnvironment { api, scope }: InEnvironment,
    Query(page): Query<PageParams>,
    Query(params): Query<DeliveryParams>,
    Query(filter): Query<FilterParams>,
) -> Deliveries {
    if params.state.is_some_and(|state| !state.is_open()) {
        let rule = "must be pending, sending, held or dead: ended deliveries are in the lists of their applications";
        return Err(ApiError::in_query(at("state").breaks(rule)));
    }
    let bad = |_| ApiError::in_query(at("endpoint_id").breaks("must be the id of an endpoint"));
    let endpoint = params.endpoint_id.as_deref().map(str::parse).transpose().map_err(bad)?;
    show(&api, scope, None, endpoint, (page, params, filter)).await
}

/// Get the delivery of a message to an endpoint, with its state and reason.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}", operation_id = "v1.delivery.get",
    tag = "Delivery", params(ApplicationPath, MessagePath, EndpointPath),
    responses((status = 200, body = DeliveryOut))
)]
async fn get(of: OfMessage, to: AtEndpoint) -> Answer<DeliveryOut> {
    let record = find(&of, to.endpoint.id).await?;
    Ok(Json(DeliveryOut::new(&record, of.api.now())))
}

async fn show(
    api: &Api,
    scope: Scope,
    application: Option<ApplicationId>,
    endpoint: Option<EndpointId>,
    (page, params, filter): (PageParams, DeliveryParams, FilterParams),
) -> Deliveries {
    let cursor = filter.cursor::<DeliveryKey>(&page)?;
    let wanted = DeliveryFilter {
        pauses: pauses(api, scope).await?,
        endpoint,
        states: params.state.into_iter().collect(),
        class: params.class,
        ..filter.of_deliveries(application, cursor.slice())
    };
    let piece = api.read(query::Deliveries { scope, filter: wanted }).await?;
    let now = api.now();
    Ok(Json(cursor.page_of(piece, DeliveryRecord::key, |record| DeliveryOut::new(&record, now))))
}

/// Finds the delivery of a message to an endpoint.
pub(crate) async fn find(of: &OfMessage, endpoint: EndpointId) -> Result<DeliveryRecord, ApiError> {
    let slice = Slice { after: None, order: Order::Descending, limit: 1 };
    let filter = DeliveryFilter {
        message: Some(of.message.id),
        endpoint: Some(endpoint),
        pauses: pauses(&of.api, of.scope.scope()).await?,
        ..DeliveryFilter::of(Some(of.scope.application), slice, 1)
    };
    let found = of.api.read(query::Deliveries { scope: of.scope.scope(), filter }).await?.rows.pop();
    found.ok_or_else(|| ApiError::not_found(format_args!("delivery of {} to {endpoint}", of.message.id)))
}

/// Reads the pauses of an environment and its applications, which hold deliveries.
pub(crate) async fn pauses(api: &Api, scope: Scope) -> Result<OuterPauses, ApiError> {
    let policy = api.read(query::FindEnvironmentPolicy { scope }).await?;
    let groups = api.read(query::PausedGroups {}).await?.into_iter();
    Ok(OuterPauses {
        environment: policy.is_some_and(|policy| policy.settings.paused == Some(true)),
        applications: groups.filter(|(of, _)| *of == scope.environment).map(|(_, id)| ApplicationId(id)).collect(),
    })
}

/// Counts the deliveries of a message by state.
pub(crate) async fn tally(api: &Api, scope: AppScope, message: MessageId) -> Result<DeliveryTally, ApiError> {
    let mut tally = DeliveryTally::default();
    let mut after = None;
    let pauses = pauses(api, scope.scope()).await?;
    loop {
        let slice = Slice { after, order: Order::Ascending, limit: PAGE_MAX };
        let filter = DeliveryFilter {
            message: Some(message),
            pauses: pauses.clone(),
            ..DeliveryFilter::of(Some(scope.application), slice, SCAN_ROWS_MAX)
        };
        let found = api.read(query::Deliveries { scope: scope.scope(), filter }).await?.rows;
        for record in &found {
            tally.add(record.state, record.open.map_or(0, |open| open.task.tries));
        }
        if found.len() < PAGE_MAX {
            return Ok(tally);
        }
        after = found.last().map(DeliveryRecord::key);
    }
}

impl DeliveryOut {
    pub(crate) fn new(record: &DeliveryRecord, now: Timestamp) -> DeliveryOut {
        DeliveryOut {
            msg_id: record.message.id,
            endpoint_id: record.endpoint.id,
            app_id: record.message.application,
            event_type: record.message.event_type.clone(),
            event_id: record.message.event_id.clone(),
            timestamp: record.message.created_at,
            state: record.state.to_string(),
            reason: ReasonOut::new(record, now),
            next_attempt: record.next_attempt(),
            tries: record.open.map(|open| open.task.tries),
            last_attempt: record.last.as_ref().map(LastAttemptOut::new),
        }
    }
}

impl ReasonOut {
    fn new(record: &DeliveryRecord, now: Timestamp) -> ReasonOut {
        let reason = record.reason(now);
        let since = match reason {
            Reason::Sending { since } => Some(since),
            _ => None,
        };
        let note = record.last.as_ref().filter(|_| reason == Reason::Cancelled).map(|last| &last.note);
        let detail = note.map(|note| String::from_utf8_lossy(note).into_owned()).filter(|text| !text.is_empty());
        ReasonOut { kind: reason.kind(), until: reason.until(), msg_id: reason.message(), since, detail }
    }
}

impl LastAttemptOut {
    fn new(last: &LastAttempt) -> LastAttemptOut {
        LastAttemptOut {
            id: last.id,
            class: last.class.to_string(),
            status: last.status,
            timestamp: last.started_at,
            duration_ms: millis(last.duration),
        }
    }
}
