//! Delivery policies: the settings of endpoints, applications and the environment, and the effective policy.
//!
//! A policy is replaced as a whole. Requests of clients that do not know policies keep the stored one. Unknown members
//! and settings that the server does not honour are refused by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use everhook_core::application::EnvironmentPolicy;
use everhook_core::name::Name;
use everhook_core::nearest::nearest;
use everhook_core::policy::Settings;
use everhook_core::policy::effective::{Effective, Level, ServerDefaults, Sourced};
use everhook_core::scope::Scope;
use everhook_core::violation::{Violation, at};
use everhook_store::error::StoreError;
use everhook_store::query;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_path_to_error::Segment;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::error::ApiError;
use crate::input::Input;
use crate::query::Query;
use crate::resource::{self, ApiResource};
use crate::routes::{Answer, Routes, routes_of};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath, InApplication, InEnvironment};
use crate::state::Api;

/// The delivery policy of an endpoint, of the endpoints of an application, or of all endpoints. Absent settings are
/// inherited: from the endpoint's application, then from the environment, then from the server.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeliveryPolicy, example = json!({"timeoutSeconds": 20, "retry": {"backoff": [5, 60, 600]}}))]
#[allow(dead_code, reason = "the schema of `Settings` in the core")]
pub(crate) struct PolicySchema {
    /// When a failed delivery is tried again.
    retry: Option<RetrySchema>,
    /// Seconds for the receiver to answer.
    #[schema(minimum = 1, maximum = 120)]
    timeout_seconds: Option<u64>,
    /// Settings for single event types. They outrank the other settings of this policy.
    event_types: Option<BTreeMap<String, TypeSchema>>,
    /// The number of retries that are allowed for now, for example 0 during an incident. The lowest number of endpoint,
    /// application and environment applies. Deliveries beyond it die at their next failure.
    #[schema(minimum = 0, maximum = 100)]
    retry_budget: Option<u32>,
    /// Deliveries that may start in a period, for each endpoint and over all replicas: `{"count": 10, "seconds": 1}`,
    /// or `"none"`. `throttleRate` is the same as a count per second.
    #[schema(value_type = Option<Value>)]
    rate: Option<()>,
    /// Deliveries that may run at the same time, for each endpoint and over all replicas: 1 to 10000, or `"none"`.
    #[schema(value_type = Option<Value>)]
    concurrency: Option<()>,
    /// `"endpoint"` sends the deliveries of each endpoint one after the other, in the order in which the messages were
    /// accepted: the next starts when the one before is delivered, dead or cancelled. `{"key": "/customerId"}` does so
    /// only among messages with the same value at this JSON pointer into the payload. `"none"` switches it off.
    #[schema(value_type = Option<Value>)]
    ordering: Option<()>,
    /// Only with `ordering`: `skip` (default) sends the next delivery after a dead one; `block` sends none while an
    /// earlier one is dead, until it is redriven or dismissed.
    #[schema(value_type = Option<String>, pattern = "^(skip|block)$")]
    on_dead: Option<()>,
    /// Stops the deliveries to an endpoint while it fails, over all replicas: `{"failurePercent": 50, "minAttempts":
    /// 20, "windowSeconds": 60, "openSeconds": 30, "maxOpenSeconds": 300}`, or `"none"` (default). Absent members have
    /// these values.
    #[schema(value_type = Option<Value>)]
    breaker: Option<()>,
    /// Seconds of failures alone after which the endpoint is disabled, 5 to 7776000, or `"none"` for never. Default:
    /// five days.
    #[schema(value_type = Option<Value>)]
    disable_after_seconds: Option<()>,
    /// Whether new messages are accepted and their deliveries wait, until this is false or absent. A pause of endpoint,
    /// application or environment applies.
    paused: Option<bool>,
    /// Only for endpoints: `skip` (default) leaves messages out that are accepted while the endpoint is disabled;
    /// `hold` lets their deliveries wait until it is enabled.
    #[schema(value_type = Option<String>, pattern = "^(skip|hold)$")]
    while_disabled: Option<()>,
    /// An additional signature header for receivers that migrate, or `"none"`.
    #[schema(value_type = Option<Value>)]
    legacy_signature: Option<()>,
    /// Whether the bodies of replies are stored, up to 16 KiB. Default: true. They are not if endpoint, application or
    /// environment says false.
    keep_replies: Option<bool>,
}

/// When a failed delivery is tried again.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeliveryRetry, example = json!({"backoff": [5, 60, 600], "finalStatuses": ["4xx"]}))]
#[allow(dead_code, reason = "the schema of `RetrySettings` in the core")]
pub(crate) struct RetrySchema {
    /// Seconds between attempts: a list such as `[5, 60]`, or `{"baseSeconds": 5, "capSeconds": 3600}`.
    #[schema(value_type = Option<Value>)]
    backoff: Option<()>,
    /// The number of attempts before the delivery is dead. Default: one more than `backoff` has delays, or 10.
    #[schema(minimum = 1, maximum = 101)]
    max_attempts: Option<u32>,
    /// The random part of a delay, in percent.
    #[schema(minimum = 0, maximum = 100)]
    jitter_percent: Option<u8>,
    /// Statuses such as `400`, or classes such as `"4xx"`, after which the delivery is not tried again. 408, 425 and
    /// 429 are never final, and 410 always is.
    #[schema(value_type = Option<Vec<Value>>, max_items = 32)]
    final_statuses: Option<()>,
}

/// Settings for one event type.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeliveryTypePolicy, example = json!({"timeoutSeconds": 5}))]
#[allow(dead_code, reason = "the schema of `TypeSettings` in the core")]
pub(crate) struct TypeSchema {
    /// When a failed delivery is tried again.
    retry: Option<RetrySchema>,
    /// Seconds for the receiver to answer.
    #[schema(minimum = 1, maximum = 120)]
    timeout_seconds: Option<u64>,
}

/// A setting with its origin.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EffectiveSetting)]
pub(crate) struct SettingOut {
    /// The value in force.
    value: Value,
    /// `endpoint`, `application`, `environment`, or `server` for the configuration of the server.
    #[schema(value_type = String, example = "application")]
    from: &'static str,
    /// Whether the value was set for the event type alone.
    for_event_type: bool,
}

/// The effective policy of an endpoint: each setting with its value and its origin.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EffectivePolicy)]
pub(crate) struct EffectiveOut {
    /// The event type of the request.
    #[schema(value_type = Option<String>)]
    event_type: Option<Name>,
    backoff: SettingOut,
    max_attempts: SettingOut,
    jitter_percent: SettingOut,
    final_statuses: SettingOut,
    retry_budget: SettingOut,
    timeout_seconds: SettingOut,
    rate: SettingOut,
    concurrency: SettingOut,
    ordering: SettingOut,
    on_dead: SettingOut,
    breaker: SettingOut,
    disable_after_seconds: SettingOut,
    paused: SettingOut,
    while_disabled: SettingOut,
    legacy_signature: SettingOut,
    keep_replies: SettingOut,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct EffectiveParams {
    /// The event type for which the policy is resolved. Without it, settings of single event types are left out.
    #[serde(deserialize_with = "crate::query::one")]
    event_type: Option<String>,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        effective __path_effective, get_environment __path_get_environment, put_environment __path_put_environment,
    ]
}

/// Get the effective policy of an endpoint, with the origin of each setting.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/policy", operation_id = "v1.policy.get-effective",
    tag = "Policy", params(ApplicationPath, EndpointPath, EffectiveParams),
    responses((status = 200, body = EffectiveOut))
)]
async fn effective(
    InApplication { api, application, .. }: InApplication,
    at_endpoint: AtEndpoint,
    Query(params): Query<EffectiveParams>,
) -> Answer<EffectiveOut> {
    let event_type = match params.event_type {
        Some(text) => Some(Name::try_from(text).map_err(|bad| ApiError::invalid(["query", "event_type"], bad))?),
        None => None,
    };
    let outer = api.read(query::FindEnvironmentPolicy { scope: at_endpoint.scope.scope() }).await?;
    let endpoint = at_endpoint.endpoint.inheriting(application.inherited());
    let server = ServerDefaults { retry: api.node.retry_policy().clone(), timeout: api.config.delivery_timeout };
    let levels = endpoint.levels(outer.as_ref().map(|policy| &policy.settings));
    let effective = levels.effective(event_type.as_ref(), &server);
    Ok(Json(EffectiveOut::new(effective, event_type)))
}

/// Get the delivery policy of the environment.
#[utoipa::path(
    get, path = "/api/v1/environment/policy", operation_id = "v1.policy.get", tag = "Policy",
    responses((status = 200, body = PolicySchema))
)]
async fn get_environment(InEnvironment { api, scope }: InEnvironment) -> Answer<Settings> {
    let found = api.read(query::FindEnvironmentPolicy { scope }).await?;
    Ok(Json(found.unwrap_or_default().settings))
}

/// Replace the delivery policy of the environment. It applies on every replica within five seconds.
#[utoipa::path(
    put, path = "/api/v1/environment/policy", operation_id = "v1.policy.put", tag = "Policy",
    request_body = PolicySchema, responses((status = 200, body = PolicySchema))
)]
async fn put_environment(InEnvironment { api, scope }: InEnvironment, input: Input) -> Answer<Settings> {
    let settings = read(&input.json()?, None, Level::Environment)?;
    let change = |old: EnvironmentPolicy| Ok(EnvironmentPolicy { settings: settings.clone(), ..old });
    Ok(Json(resource::change(&api, scope, &(), None, change).await?.settings))
}

impl ApiResource for EnvironmentPolicy {
    type Scope = Scope;
    type Place = ();

    const NOUN: &'static str = "a policy";

    /// Returns an empty policy if none was set.
    async fn find(api: &Api, scope: Scope, (): &()) -> Result<Option<Self>, StoreError> {
        let found = api.read(query::FindEnvironmentPolicy { scope }).await?;
        Ok(Some(found.unwrap_or_default()))
    }
}

/// Returns the policy after a request: an absent one stays, and null removes it.
pub(crate) fn changed(
    wanted: Option<Option<Value>>,
    old: Option<Arc<Settings>>,
    level: Level,
) -> Result<Option<Arc<Settings>>, Violation> {
    match wanted {
        None => Ok(old),
        Some(None) => Ok(None),
        Some(Some(value)) => {
            let settings = read(&value, Some("policy"), level)?;
            Ok((!settings.is_empty()).then(|| Arc::new(settings)))
        }
    }
}

/// Reads and checks settings. The path of a violation begins with `outer`.
fn read(value: &Value, outer: Option<&'static str>, level: Level) -> Result<Settings, Violation> {
    let mut ignored = None;
    let mut note = |path: serde_ignored::Path<'_>| {
        ignored.get_or_insert_with(|| unread(&path));
    };
    let settings = serde_ignored::Deserializer::new(value, &mut note);
    let settings: Settings = serde_path_to_error::deserialize(settings).map_err(|error| {
        let path = error.path().iter().filter_map(segment).collect();
        under(outer, Violation { path, rule: error.inner().to_string() })
    })?;
    if let Some(path) = ignored {
        let rule = not_a_setting(&path);
        return Err(under(outer, Violation { path, rule }));
    }
    settings.check().map_err(|violation| under(outer, violation))?;
    check_honoured(&settings, level).map_err(|violation| under(outer, violation))?;
    Ok(settings)
}

fn under(outer: Option<&'static str>, violation: Violation) -> Violation {
    match outer {
        Some(outer) => violation.under(at(outer)),
        None => violation,
    }
}

fn segment(segment: &Segment) -> Option<Cow<'static, str>> {
    match segment {
        Segment::Seq { index } => Some(format!("[{index}]").into()),
        Segment::Map { key } | Segment::Enum { variant: key } => Some(key.clone().into()),
        Segment::Unknown => None,
    }
}

/// Returns the path of a member that was not read.
fn unread(path: &serde_ignored::Path<'_>) -> Vec<Cow<'static, str>> {
    let (parent, last): (_, Cow<'static, str>) = match path {
        serde_ignored::Path::Root => return Vec::new(),
        serde_ignored::Path::Seq { parent, index } => (parent, format!("[{index}]").into()),
        serde_ignored::Path::Map { parent, key } => (parent, key.clone().into()),
        serde_ignored::Path::Some { parent }
        | serde_ignored::Path::NewtypeStruct { parent }
        | serde_ignored::Path::NewtypeVariant { parent } => return unread(parent),
    };
    let mut path = unread(parent);
    path.push(last);
    path
}

/// Returns the error text for a member that is not a setting at its place, with a suggestion.
fn not_a_setting(path: &[Cow<'static, str>]) -> String {
    let Some((name, place)) = path.split_last() else { return "is not a setting".to_owned() };
    let names = settings_at(place);
    if let Some(near) = nearest(name, names.iter().map(String::as_str)) {
        return format!("is not a setting: did you mean `{near}`?");
    }
    let everywhere = [vec![], vec!["retry".into()]].map(|place| settings_at(&place)).concat();
    let is_elsewhere = everywhere.iter().any(|known| known == name);
    if is_elsewhere { "is a setting, but not at this place" } else { "is not a setting" }.to_owned()
}

/// The names of the settings in one object of a policy.
fn settings_at(place: &[Cow<'static, str>]) -> Vec<String> {
    let members = |schema: RefOr<Schema>| match schema {
        RefOr::T(Schema::Object(object)) => object.properties.into_keys().collect(),
        _ => Vec::new(),
    };
    let listed = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    match place.iter().map(|name| &**name).collect::<Vec<_>>()[..] {
        [] => members(PolicySchema::schema()),
        ["eventTypes", _] => members(TypeSchema::schema()),
        [.., "retry"] => members(RetrySchema::schema()),
        ["breaker"] => listed(&["failurePercent", "minAttempts", "windowSeconds", "openSeconds", "maxOpenSeconds"]),
        ["rate"] => listed(&["count", "seconds"]),
        ["legacySignature"] => listed(&["header", "encoding", "signedText", "value"]),
        _ => Vec::new(),
    }
}

/// Refuses settings without effect.
fn check_honoured(settings: &Settings, level: Level) -> Result<(), Violation> {
    // A level that is not an endpoint is never disabled.
    if level != Level::Endpoint && settings.while_disabled.is_some() {
        return Err(at("whileDisabled").breaks("is a setting of endpoints: set it there"));
    }
    Ok(())
}

impl EffectiveOut {
    pub(crate) fn new(effective: Effective, event_type: Option<Name>) -> EffectiveOut {
        EffectiveOut {
            event_type,
            backoff: effective.backoff.into(),
            max_attempts: effective.max_attempts.into(),
            jitter_percent: effective.jitter_percent.into(),
            final_statuses: effective.final_statuses.into(),
            retry_budget: effective.retry_budget.into(),
            timeout_seconds: effective.timeout.map(|timeout| timeout.as_secs()).into(),
            rate: effective.rate.into(),
            concurrency: effective.concurrency.into(),
            ordering: effective.ordering.into(),
            on_dead: effective.on_dead.into(),
            breaker: effective.breaker.into(),
            disable_after_seconds: effective.disable_after.map(|after| after.map(|after| after.as_secs())).into(),
            paused: effective.paused.into(),
            while_disabled: effective.while_disabled.into(),
            legacy_signature: effective.legacy_signature.into(),
            keep_replies: effective.keep_replies.into(),
        }
    }
}

impl<T: Serialize> From<Sourced<T>> for SettingOut {
    fn from(Sourced { value, origin }: Sourced<T>) -> SettingOut {
        let from = match origin.level {
            Level::Endpoint => "endpoint",
            Level::Application => "application",
            Level::Environment => "environment",
            Level::Server => "server",
        };
        let value = serde_json::to_value(value).unwrap_or_default();
        SettingOut { value, from, for_event_type: origin.for_type }
    }
}
