//! Endpoints: the URLs that get an application's messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use everhook_core::chat::{Chat, ChatKind};
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::filter::TypePattern;
use everhook_core::id::{ApplicationId, EndpointId};
use everhook_core::limits::{
    DESCRIPTION_CHARS_MAX, ENDPOINT_CHANNELS_MAX, ENDPOINT_EVENT_TYPES_BYTES_MAX, ENDPOINT_EVENT_TYPES_MAX,
};
use everhook_core::name::{Metadata, Name};
use everhook_core::operational::OperationalEvent;
use everhook_core::policy::Settings;
use everhook_core::policy::effective::Level;
use everhook_core::poll::POLL_URL;
use everhook_core::right::Right;
use everhook_core::scope::Scope;
use everhook_core::signing::{SigningKey, SigningKeys};
use everhook_core::time::Timestamp;
use everhook_core::violation::{self, Violation};
use everhook_store::catalog::{Locator, Order};
use everhook_store::query;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::{self, Caller};
use crate::breaker::{self, BreakerOut};
use crate::chat::{self, ChatIn, ChatOut};
use crate::endpoint_auth;
use crate::endpoint_headers;
use crate::endpoint_secret;
use crate::error::ApiError;
use crate::filter;
use crate::input::{self, Input};
use crate::merge::Form;
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::policy;
use crate::quota;
use crate::resource;
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, ApplicationPath, AtEndpoint, EndpointPath, InApplication, PathParams};
use crate::state::Api;

/// An endpoint to create, or the new content of an existing endpoint. An existing endpoint keeps its headers,
/// its policy, its filter, its kind and its chat text if they are absent. Its secret cannot be changed here: use the
/// route that rotates it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointIn {
    /// The URL that deliveries are sent to. The URL `poll:` makes a polled endpoint: readers fetch its messages.
    #[schema(format = "uri")]
    pub(crate) url: String,
    /// A description for display.
    pub(crate) description: Option<String>,
    /// Whether deliveries are stopped. Open deliveries wait until the endpoint is enabled. Messages that are accepted
    /// while it is disabled are not delivered to it.
    pub(crate) disabled: Option<bool>,
    /// The event types that the endpoint gets. Without a list it gets all types. The endpoint of a message's `url` has
    /// an empty list and gets only messages with that URL; elsewhere an empty list means all types.
    pub(crate) event_types: Option<Vec<String>>,
    /// The older name of `eventTypes`.
    #[schema(deprecated)]
    pub(crate) filter_types: Option<Vec<String>>,
    /// The channels that the endpoint listens to. Without a list it listens to all channels.
    #[schema(min_items = 1, max_items = 10)]
    pub(crate) channels: Option<Vec<String>>,
    /// The secret that deliveries are signed with. Default: a random secret.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    pub(crate) secret: Option<String>,
    /// Your own id for the endpoint, unique in the application.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    pub(crate) uid: Option<Option<String>>,
    /// Deliveries per second, over all replicas. A `rate` in the policy outranks it.
    #[schema(minimum = 1)]
    pub(crate) throttle_rate: Option<u16>,
    /// The older name of `throttleRate`.
    #[schema(minimum = 1, deprecated)]
    pub(crate) rate_limit: Option<u16>,
    /// Your own data. Everhook does not interpret it.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub(crate) metadata: Option<Metadata>,
    /// Headers to add to every delivery.
    pub(crate) headers: Option<BTreeMap<String, String>>,
    /// Your own version number. Everhook does not interpret it.
    pub(crate) version: Option<u16>,
    /// The delivery policy. Absent: an existing endpoint keeps its policy. Null: the endpoint inherits every setting.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<policy::PolicySchema>)]
    pub(crate) policy: Option<Option<serde_json::Value>>,
    /// An expression (a subset of CEL) over the message, such as `payload.amount > 100`. Messages for which it is not
    /// true are not delivered to the endpoint. Absent: an existing endpoint keeps it. Null: removes it.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>, max_length = 1024, example = "payload.amount > 100")]
    pub(crate) filter: Option<Option<String>>,
    /// `http`, or the chat platform that gets a readable message: `slack`, `discord`, `teams`, `google-chat`, `feishu`,
    /// `lark`, `dingtalk` or `wecom`. The URL of a chat endpoint is a credential and is never shown again. Absent: an
    /// existing endpoint keeps its kind, and a new one is `http`. A chat endpoint without a rate gets the rate of its
    /// platform in its policy.
    pub(crate) kind: Option<String>,
    /// The text of a chat endpoint. Absent: an existing endpoint keeps it. Null: the default text.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<ChatIn>)]
    pub(crate) chat: Option<Option<ChatIn>>,
}

/// An endpoint. Separate routes return its secret and its headers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointOut {
    #[serde(flatten)]
    common: EndpointCommonOut,
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    /// The endpoint's own delivery policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<policy::PolicySchema>)]
    policy: Option<Settings>,
    /// The expression that messages for the endpoint satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// The first failure, if all attempts have failed for some time. See `disableAfterSeconds` in the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    failing_since: Option<Timestamp>,
    /// The circuit breaker, unless it is closed. Only in the answer to `GET` of this endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    breaker: Option<BreakerOut>,
    /// The text of a chat endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<ChatOut>,
}

/// The members that every representation of an endpoint has.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointCommonOut {
    #[schema(value_type = String, example = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: EndpointId,
    /// The URL; of a chat endpoint only its host, because the rest is a credential.
    url: String,
    /// The platform of a chat endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    kind: Option<ChatKind>,
    description: String,
    disabled: bool,
    #[schema(value_type = Option<String>)]
    uid: Option<Name>,
    /// Deliveries per second.
    throttle_rate: Option<u16>,
    #[schema(deprecated)]
    rate_limit: Option<u16>,
    #[schema(value_type = Option<Vec<String>>)]
    event_types: Option<Vec<TypePattern>>,
    #[schema(value_type = Option<Vec<String>>, deprecated)]
    filter_types: Option<Vec<TypePattern>>,
    #[schema(value_type = Option<Vec<String>>)]
    channels: Option<Vec<Name>>,
    version: u16,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, put __path_put, patch __path_patch,
        delete __path_delete,
    ]
}

/// List the endpoints of an application.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint", operation_id = "v1.endpoint.list", tag = "Endpoint",
    params(ApplicationPath, PageParams, OrderParams),
    responses((status = 200, body = Page<EndpointOut>))
)]
async fn list(InApplication { api, scope, .. }: InApplication, listing: Listing) -> Answer<Page<EndpointOut>> {
    listing.answer(&api, Order::Descending, |slice| query::Endpoints { scope, slice }, |row| row.id).await
}

/// Create an endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint", operation_id = "v1.endpoint.create", tag = "Endpoint",
    params(ApplicationPath), request_body = EndpointIn,
    responses((status = 201, body = EndpointOut))
)]
async fn create(InApplication { api, scope, .. }: InApplication, input: Input) -> StatusAnswer<EndpointOut> {
    let wanted = input.json::<EndpointIn>()?;
    let checks = Checks::of(&api, scope.scope(), &wanted).await?;
    let endpoint = wanted.check(&checks, scope.application, None)?;
    quota::create_endpoint(&api, scope, endpoint, input.key.as_ref()).await?.answer()
}

/// Get an endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.get", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointOut))
)]
async fn get(at: AtEndpoint) -> Answer<EndpointOut> {
    let breaker = breaker::find(&at.api, at.scope.scope(), at.endpoint.id).await?;
    Ok(Json(EndpointOut { breaker, ..at.endpoint.into() }))
}

/// Replace the endpoint with this id or uid, or create an endpoint with this uid.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.update", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), request_body = EndpointIn,
    responses(
        (status = 200, body = EndpointOut),
        (status = 201, body = EndpointOut, description = "The endpoint was created."),
    )
)]
async fn put(
    caller: Caller,
    InApplication { api, scope, .. }: InApplication,
    PathParams(EndpointPath { endpoint_id }): PathParams<EndpointPath>,
    input: Input,
) -> StatusAnswer<EndpointOut> {
    let locator = scope::locator("endpoint", &endpoint_id, EndpointId::PREFIX)?;
    let mut wanted = input.json::<EndpointIn>()?;
    scope::fill_uid(&mut wanted.uid, &locator);
    let checks = Checks::of(&api, scope.scope(), &wanted).await?;
    let change = |old: Endpoint| {
        let url = old.url.clone();
        let new = wanted.clone().check(&checks, scope.application, Some(old))?;
        auth::check_url(&caller.rights, Some(&url), Some(&new.url)).map(|()| new)
    };
    if let Some(changed) = resource::change_if_found(&api, scope, &locator, None, change).await? {
        return Ok((StatusCode::OK, Json(changed.into())));
    }
    if let Locator::Id(_) = locator {
        return Err(scope::no_endpoint(&endpoint_id));
    }
    caller.rights.need(Right::ChangeUrl)?;
    let endpoint = wanted.check(&checks, scope.application, None)?;
    quota::create_endpoint(&api, scope, endpoint, None).await?.answer()
}

/// Change an endpoint. Absent members keep their values.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.patch", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), request_body(content = ref("#/components/schemas/EndpointPatch")),
    responses((status = 200, body = EndpointOut))
)]
async fn patch(caller: Caller, at: AtEndpoint, input: Input) -> Answer<EndpointOut> {
    let wanted = input.patched::<EndpointIn>(&at.endpoint)?;
    // A success response would claim a change that this route does not make.
    if wanted.secret.is_some() {
        return Err(secret_is_rotated().into());
    }
    if wanted.headers.is_some() {
        return Err(violation::at("headers").breaks("cannot be changed here: use PATCH …/headers").into());
    }
    let checks = Checks::of(&at.api, at.scope.scope(), &wanted).await?;
    let change = |old: Endpoint| {
        let url = old.url.clone();
        let new = input.patched::<EndpointIn>(&old)?.check(&checks, at.scope.application, Some(old))?;
        auth::check_url(&caller.rights, Some(&url), Some(&new.url)).map(|()| new)
    };
    Ok(Json(at.change(None, change).await?.into()))
}

/// Delete an endpoint. Its open deliveries are cancelled.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.delete",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 204))
)]
async fn delete(at: AtEndpoint) -> EmptyAnswer {
    at.delete().await
}

/// Data from outside the request that an endpoint is checked against.
pub(crate) struct Checks<'a> {
    api: &'a Api,
    /// The event types of the request that do not exist or are archived.
    unknown: Vec<Name>,
}

impl Checks<'_> {
    /// For an endpoint without event types.
    pub(crate) fn none(api: &Api) -> Checks<'_> {
        Checks { api, unknown: Vec::new() }
    }

    /// Reads the event types that `wanted` names, before the loop that changes the endpoint.
    pub(crate) async fn of<'a>(api: &'a Api, scope: Scope, wanted: &EndpointIn) -> Result<Checks<'a>, ApiError> {
        let names = exact_names(wanted)?;
        if names.is_empty() {
            return Ok(Checks::none(api));
        }
        let unknown = api.read(query::UnknownEventTypes { scope, names }).await?;
        Ok(Checks { api, unknown })
    }

    /// Compares the event types of an operational endpoint with the operational events.
    pub(crate) fn of_operational<'a>(api: &'a Api, wanted: &EndpointIn) -> Result<Checks<'a>, ApiError> {
        let names = exact_names(wanted)?;
        let unknown = names.into_iter().filter(|name| OperationalEvent::find(name).is_none()).collect();
        Ok(Checks { api, unknown })
    }

    /// Returns a new endpoint with an identity and a signing key. The caller replaces all other fields.
    pub(crate) fn blank(&self, application: ApplicationId, secret: Option<SigningKey>) -> Endpoint {
        let now = self.api.now();
        let keys =
            SigningKeys::new(secret.unwrap_or_else(|| endpoint_secret::random(self.api.config.default_signature)));
        Endpoint { keys, ..Endpoint::new(EndpointId(self.api.new_id()), application, String::new(), now) }
    }

    /// Checks a new URL. An unchanged URL is kept, even if the current configuration does not allow it.
    fn url(&self, url: String, chat: Option<&Chat>, old: Option<&Endpoint>) -> Result<String, Violation> {
        if let Some(chat) = chat {
            return chat::checked_url(self.api, url, chat, old);
        }
        // The URL of a chat endpoint must not become readable.
        if old.is_some_and(|old| old.chat.is_some() && (old.url == url || old.shown_url() == url)) {
            return Err(violation::at("url").breaks("must be a new URL when a chat endpoint becomes http"));
        }
        if old.is_some_and(|old| old.url == url) {
            return Ok(url);
        }
        if url == POLL_URL {
            return Ok(url);
        }
        violation::at("url").check(self.api.config.egress.check_url(&url)).map(String::from)
    }

    /// Accepts event types that exist and are not archived, and all types that the endpoint already has.
    fn event_types(
        &self,
        types: Option<&[String]>,
        old: Option<&Endpoint>,
    ) -> Result<Option<Vec<TypePattern>>, Violation> {
        if types.is_some_and(<[String]>::is_empty) && old.is_some_and(Endpoint::is_direct) {
            return Ok(Some(Vec::new()));
        }
        let types = check_names(types)?;
        let had = old.and_then(|old| old.event_types.as_deref()).unwrap_or_default();
        let is_unknown = |pattern: &&TypePattern| {
            pattern.exact().is_some_and(|name| self.unknown.contains(name)) && !had.contains(pattern)
        };
        match types.iter().flatten().find(is_unknown) {
            None => Ok(types),
            Some(name) => Err(violation::at("eventTypes").breaks(format!("no event type {:?} exists", name.as_str()))),
        }
    }
}

/// Some clients send an empty list for all types.
fn check_names(types: Option<&[String]>) -> Result<Option<Vec<TypePattern>>, Violation> {
    let Some(types) = types.filter(|types| !types.is_empty()) else { return Ok(None) };
    if types.len() > ENDPOINT_EVENT_TYPES_MAX {
        return Err(violation::at("eventTypes").breaks(format!("must have at most {ENDPOINT_EVENT_TYPES_MAX} entries")));
    }
    let pattern = |(index, text): (usize, &String)| violation::at("eventTypes").index(index).check(text.parse());
    let types = types.iter().enumerate().map(pattern).collect::<Result<Vec<TypePattern>, Violation>>()?;
    if types.iter().map(|name| name.as_str().len()).sum::<usize>() > ENDPOINT_EVENT_TYPES_BYTES_MAX {
        let rule = format!("must have at most {ENDPOINT_EVENT_TYPES_BYTES_MAX} characters in all its names");
        return Err(violation::at("eventTypes").breaks(rule));
    }
    Ok(Some(types))
}

/// Returns the event types of a request that have no wildcard.
fn exact_names(wanted: &EndpointIn) -> Result<Vec<Name>, Violation> {
    let patterns = check_names(wanted.wanted_types())?.unwrap_or_default();
    Ok(patterns.iter().filter_map(TypePattern::exact).cloned().collect())
}

fn secret_is_rotated() -> Violation {
    violation::at("secret").breaks("cannot be changed here: use POST …/secret/rotate")
}

/// Returns the state after a change of `disabled`. An endpoint that the server has disabled stays gone until it is
/// enabled.
fn switched(state: EndpointState, disabled: bool) -> EndpointState {
    match (disabled, state) {
        (false, _) => EndpointState::Enabled,
        (true, EndpointState::Gone) => EndpointState::Gone,
        (true, EndpointState::Enabled | EndpointState::Disabled) => EndpointState::Disabled,
    }
}

impl Form for EndpointIn {
    type Record = Endpoint;

    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("filterTypes", "eventTypes"), ("rateLimit", "throttleRate")];

    /// Leaves out the secret, the headers, the policy, the filter, the kind and the chat text, which a change without
    /// them keeps.
    fn of(endpoint: &Endpoint) -> EndpointIn {
        let types = endpoint.event_types.as_ref();
        let channels = endpoint.channels.as_ref();
        EndpointIn {
            url: endpoint.url.clone(),
            description: Some(endpoint.description.clone()),
            disabled: Some(endpoint.state != EndpointState::Enabled),
            event_types: types.map(|types| types.iter().map(TypePattern::to_string).collect()),
            filter_types: None,
            channels: channels.map(|channels| channels.iter().map(Name::to_string).collect()),
            secret: None,
            uid: Some(endpoint.uid.as_ref().map(Name::to_string)),
            throttle_rate: endpoint.throttle_rate,
            rate_limit: None,
            metadata: Some(endpoint.metadata.clone()),
            headers: None,
            version: Some(endpoint.version),
            policy: None,
            filter: None,
            kind: None,
            chat: None,
        }
    }
}

impl EndpointIn {
    fn wanted_types(&self) -> Option<&[String]> {
        self.event_types.as_deref().or(self.filter_types.as_deref())
    }

    /// An endpoint with the URL `poll:`, whose messages readers fetch.
    pub(crate) fn polled(
        uid: Option<String>,
        event_types: Option<Vec<String>>,
        channels: Option<Vec<String>>,
    ) -> EndpointIn {
        EndpointIn { url: POLL_URL.to_owned(), uid: Some(uid), event_types, channels, ..EndpointIn::default() }
    }

    /// Builds a new endpoint of `application`, or the replacement of `old`.
    pub(crate) fn check(
        self,
        checks: &Checks<'_>,
        application: ApplicationId,
        old: Option<Endpoint>,
    ) -> Result<Endpoint, Violation> {
        let event_types = checks.event_types(self.wanted_types(), old.as_ref())?;
        let secret = self.secret.map(|text| endpoint_secret::given("secret", &text)).transpose()?;
        let headers = self.headers.map(endpoint_headers::check).transpose()?;
        let chat = chat::changed(self.kind.as_deref(), self.chat, old.as_ref())?;
        let url = checks.url(self.url, chat.as_deref(), old.as_ref())?;
        let old = match old {
            // A success response would claim a change that this route does not make.
            Some(old) if secret.as_ref().is_some_and(|secret| *secret != old.keys.current) => {
                return Err(secret_is_rotated());
            }
            Some(old) => old,
            None => checks.blank(application, secret),
        };
        if let Some(headers) = &headers {
            endpoint_auth::check_headers(headers, old.auth.as_ref())?;
        }
        let policy = policy::changed(self.policy, old.policy, Level::Endpoint)?;
        let throttle_rate = input::throttle_rate(self.throttle_rate.or(self.rate_limit))?;
        let policy = chat::with_rate(policy, throttle_rate, chat.as_deref(), old.chat.as_deref());
        let state = switched(old.state, self.disabled.unwrap_or(false));
        // Earlier failures say nothing about another URL, or about an endpoint that a user has mended and enabled.
        let is_mended = old.url != url || (old.state != state && state == EndpointState::Enabled);
        Ok(Endpoint {
            uid: input::uid(self.uid.flatten(), EndpointId::PREFIX)?,
            url,
            description: input::text("description", self.description.unwrap_or_default(), DESCRIPTION_CHARS_MAX)?,
            state,
            failing: old.failing.filter(|_| !is_mended),
            event_types,
            channels: input::some_names("channels", self.channels, ENDPOINT_CHANNELS_MAX)?,
            headers: headers.unwrap_or(old.headers),
            throttle_rate,
            metadata: input::metadata(self.metadata.unwrap_or_default())?,
            version: self.version.unwrap_or(1),
            policy,
            filter: filter::changed(self.filter, old.filter)?,
            chat,
            ..old
        })
    }
}

impl From<Endpoint> for EndpointOut {
    fn from(mut endpoint: Endpoint) -> EndpointOut {
        let metadata = std::mem::take(&mut endpoint.metadata);
        let policy = endpoint.policy.take().map(Arc::unwrap_or_clone);
        let filter = endpoint.filter.take().map(|filter| filter.as_str().to_owned());
        let failing_since = endpoint.failing.map(|failing| failing.since);
        let chat = endpoint.chat.as_deref().map(ChatOut::from);
        EndpointOut { common: endpoint.into(), metadata, policy, filter, failing_since, breaker: None, chat }
    }
}

impl From<Endpoint> for EndpointCommonOut {
    fn from(endpoint: Endpoint) -> EndpointCommonOut {
        EndpointCommonOut {
            id: endpoint.id,
            url: endpoint.shown_url(),
            kind: endpoint.chat.as_ref().map(|chat| chat.kind),
            description: endpoint.description,
            disabled: endpoint.state != EndpointState::Enabled,
            uid: endpoint.uid,
            throttle_rate: endpoint.throttle_rate,
            rate_limit: endpoint.throttle_rate,
            event_types: endpoint.event_types.clone(),
            filter_types: endpoint.event_types,
            channels: endpoint.channels,
            version: endpoint.version,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}
