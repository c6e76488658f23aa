//! Quotas of the environment and its applications, and how much of them is used.
//!
//! Keys that operate the environment set quotas; application tokens neither see nor change them. The node checks new
//! messages; new endpoints are checked here.

use std::borrow::Cow;

use axum::Json;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::ApplicationId;
use everhook_core::limits::STORED_MESSAGES_PAGE;
use everhook_core::policy::Switch;
use everhook_core::quota::{MessageRate, Quota, QuotaKind, QuotaLimits};
use everhook_core::scope::{AppScope, Scope};
use everhook_core::violation::at;
use everhook_engine::quotas::OverQuota;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::quota::MessageCount;
use everhook_store::resource::New;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::input::Input;
use crate::limits::USAGE_ENDPOINTS_MAX;
use crate::resource::{self, ApiResource, Creation};
use crate::routes::{Answer, Routes, routes_of};
use crate::scope::{ApplicationPath, InApplication, InEnvironment};
use crate::state::Api;

/// The limits of an application. An absent limit is inherited from `eachApplication` of the environment; `"none"` means
/// no limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = Quota, example = json!({"endpoints": 20, "messageRate": {"count": 100, "seconds": 1, "burst": 500}}))]
pub(crate) struct QuotaBody {
    /// Endpoints that may exist: a number up to 1000000, or `"none"`. Operational endpoints do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    endpoints: Option<Switch<u32>>,
    /// Messages that requests may create: `{"count": 100, "seconds": 1, "burst": 500}`, or `"none"`. Up to `burst`
    /// messages may come at once; the default is `count`. A refused request gets 429 with `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    message_rate: Option<Switch<RateBody>>,
    /// Messages that may be stored, until retention removes them: a number, or `"none"`. A refused request gets 429
    /// with `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    stored_messages: Option<Switch<u64>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with count and seconds")]
struct RateBody {
    count: u32,
    seconds: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
}

/// The limits of the environment. Those outside `eachApplication` bound all applications together.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = EnvironmentQuota, example = json!({"endpoints": 1000, "eachApplication": {"endpoints": 20}}))]
pub(crate) struct EnvironmentQuotaBody {
    /// Endpoints that may exist in all applications: a number up to 1000000, or `"none"`. Operational endpoints do not
    /// count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    endpoints: Option<Switch<u32>>,
    /// Messages that requests to all applications may create: `{"count": 100, "seconds": 1, "burst": 500}`, or
    /// `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    message_rate: Option<Switch<RateBody>>,
    /// Messages of all applications that may be stored: a number, or `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    stored_messages: Option<Switch<u64>>,
    /// The limits of each application that does not set its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    each_application: Option<QuotaBody>,
}

/// The use of a quota.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Usage)]
pub(crate) struct UsageOut {
    endpoints: UsedOut,
    stored_messages: UsedOut,
    /// The rate of new messages in force: `count` in each period of `seconds`; null without a limit.
    #[schema(value_type = Option<Value>)]
    message_rate: Option<MessageRate>,
}

/// The number of objects, and their limit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UsageCount)]
pub(crate) struct UsedOut {
    /// The number of objects, counted up to a bound.
    used: u64,
    /// Whether there may be more than `used`.
    at_least: bool,
    /// The limit in force; null without a limit.
    limit: Option<u64>,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        get_environment __path_get_environment, put_environment __path_put_environment,
        environment_usage __path_environment_usage, get_application __path_get_application,
        put_application __path_put_application, application_usage __path_application_usage,
    ]
}

/// Get the quota of the environment.
#[utoipa::path(
    get, path = "/api/v1/environment/quota", operation_id = "v1.quota.get", tag = "Quota",
    responses((status = 200, body = EnvironmentQuotaBody))
)]
async fn get_environment(InEnvironment { api, scope }: InEnvironment) -> Answer<EnvironmentQuotaBody> {
    Ok(Json(resource::get::<Quota>(&api, scope, &None).await?.into()))
}

/// Replace the quota of the environment. It applies on every replica within five seconds.
#[utoipa::path(
    put, path = "/api/v1/environment/quota", operation_id = "v1.quota.put", tag = "Quota",
    request_body = EnvironmentQuotaBody, responses((status = 200, body = EnvironmentQuotaBody))
)]
async fn put_environment(InEnvironment { api, scope }: InEnvironment, input: Input) -> Answer<EnvironmentQuotaBody> {
    let EnvironmentQuotaBody { endpoints, message_rate, stored_messages, each_application } = input.json()?;
    let limits = QuotaLimits::from(QuotaBody { endpoints, message_rate, stored_messages });
    let each = QuotaLimits::from(each_application.unwrap_or_default());
    limits.check()?;
    each.check().map_err(|violation| violation.under(at("eachApplication")))?;
    let change = |old: Quota| Ok(Quota { limits: limits.clone(), each: each.clone(), ..old });
    Ok(Json(resource::change(&api, scope, &None, None, change).await?.into()))
}

/// Get the use of the environment's quota.
#[utoipa::path(
    get, path = "/api/v1/environment/usage", operation_id = "v1.quota.get-usage", tag = "Quota",
    responses((status = 200, body = UsageOut))
)]
async fn environment_usage(InEnvironment { api, scope }: InEnvironment) -> Answer<UsageOut> {
    usage(&api, scope, None).await
}

/// Get the limits that an application sets itself.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/quota", operation_id = "v1.quota.get-application", tag = "Quota",
    params(ApplicationPath), responses((status = 200, body = QuotaBody))
)]
async fn get_application(InApplication { api, scope, .. }: InApplication) -> Answer<QuotaBody> {
    Ok(Json(resource::get::<Quota>(&api, scope.scope(), &Some(scope.application)).await?.limits.into()))
}

/// Replace the limits of an application. They apply on every replica within five seconds.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/quota", operation_id = "v1.quota.put-application", tag = "Quota",
    params(ApplicationPath), request_body = QuotaBody, responses((status = 200, body = QuotaBody))
)]
async fn put_application(InApplication { api, scope, .. }: InApplication, input: Input) -> Answer<QuotaBody> {
    let limits = QuotaLimits::from(input.json::<QuotaBody>()?);
    limits.check()?;
    let change = |old: Quota| Ok(Quota { limits: limits.clone(), ..old });
    Ok(Json(resource::change(&api, scope.scope(), &Some(scope.application), None, change).await?.limits.into()))
}

/// Get the use of an application's quota, with the limits in force.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/usage", operation_id = "v1.quota.get-application-usage", tag = "Quota",
    params(ApplicationPath), responses((status = 200, body = UsageOut))
)]
async fn application_usage(InApplication { api, scope, .. }: InApplication) -> Answer<UsageOut> {
    usage(&api, scope.scope(), Some(scope.application)).await
}

async fn usage(api: &Api, scope: Scope, application: Option<ApplicationId>) -> Answer<UsageOut> {
    let bounds = api.node.quota(scope.environment, application);
    let limit = USAGE_ENDPOINTS_MAX;
    let endpoints = api.read(query::CountEndpoints { scope, application, limit }).await?;
    let limit = STORED_MESSAGES_PAGE;
    let stored = api.read(query::CountMessages { scope, application, after: None, limit }).await?;
    let MessageCount { messages, next } = stored;
    let endpoints_used = endpoints as u64;
    Ok(Json(UsageOut {
        endpoints: UsedOut {
            used: endpoints_used,
            at_least: endpoints >= USAGE_ENDPOINTS_MAX,
            limit: bounds.endpoints.map(u64::from),
        },
        stored_messages: UsedOut { used: messages, at_least: next.is_some(), limit: bounds.stored_messages },
        message_rate: bounds.message_rate,
    }))
}

/// Creates an endpoint, if the quotas of its application and environment have room for it.
pub(crate) async fn create_endpoint(
    api: &Api,
    scope: AppScope,
    endpoint: Endpoint,
    key: Option<&DedupKey>,
) -> Result<Creation<Endpoint>, ApiError> {
    let own = api.node.quota(scope.environment, Some(scope.application)).endpoints.map(|max| max as usize);
    let whole = api.node.quota(scope.environment, None).endpoints.map(|max| max as usize);
    let is_full = match whole {
        Some(limit) => {
            let count = query::CountEndpoints { scope: scope.scope(), application: None, limit };
            api.read(count).await? >= limit
        }
        None => false,
    };
    let max = own.map_or(api.config.endpoints_max, |max| max.min(api.config.endpoints_max));
    // The store refuses a new endpoint, and still answers a repeated request.
    let new = New { record: endpoint, max: if is_full { 0 } else { max } };
    let full = || {
        let detail = match whole.filter(|_| is_full) {
            Some(max) => format!("The quota of the environment is {max} endpoints: delete one first, or raise it."),
            None => format!("An application has at most {max} endpoints: delete one first."),
        };
        if is_full || own.is_some() {
            api.node.refused_by(QuotaKind::Endpoints);
        }
        ApiError::limit_reached(detail)
    };
    resource::create_or(api, scope, new, key, full).await
}

/// The code and text for messages that a quota refuses.
pub(crate) fn refusal(refused: &OverQuota) -> (&'static str, Cow<'static, str>) {
    let owner = if refused.is_environment { "environment" } else { "application" };
    let seconds = crate::error::whole_seconds(refused.wait);
    let detail = match refused.kind {
        QuotaKind::StoredMessages => {
            format!("The {owner} stores as many messages as its quota allows: wait for their retention, or raise it.")
        }
        QuotaKind::MessageRate | QuotaKind::Endpoints => {
            format!("The {owner} exceeds the message rate of its quota: try again in {seconds} s.")
        }
    };
    ("quota_exceeded", detail.into())
}

impl ApiResource for Quota {
    type Scope = Scope;
    type Place = Option<ApplicationId>;

    const NOUN: &'static str = "a quota";

    /// Returns an empty quota if none was set.
    async fn find(api: &Api, scope: Scope, place: &Self::Place) -> Result<Option<Self>, StoreError> {
        let found = api.read(query::FindQuota { scope, application: *place }).await?;
        Ok(Some(found.unwrap_or_else(|| Quota::none(*place))))
    }
}

impl From<QuotaBody> for QuotaLimits {
    fn from(QuotaBody { endpoints, message_rate, stored_messages }: QuotaBody) -> QuotaLimits {
        let rate = |RateBody { count, seconds, burst }| MessageRate { count, seconds, burst };
        let message_rate = message_rate.map(|wanted| wanted.on().map_or(Switch::Off, |body| Switch::On(rate(body))));
        QuotaLimits { endpoints, message_rate, stored_messages }
    }
}

impl From<QuotaLimits> for QuotaBody {
    fn from(QuotaLimits { endpoints, message_rate, stored_messages }: QuotaLimits) -> QuotaBody {
        let rate = |MessageRate { count, seconds, burst }| RateBody { count, seconds, burst };
        let message_rate = message_rate.map(|set| set.on().map_or(Switch::Off, |limit| Switch::On(rate(limit))));
        QuotaBody { endpoints, message_rate, stored_messages }
    }
}

impl From<Quota> for EnvironmentQuotaBody {
    fn from(Quota { limits, each, .. }: Quota) -> EnvironmentQuotaBody {
        let each_application = (!each.is_empty()).then(|| each.into());
        let QuotaBody { endpoints, message_rate, stored_messages } = limits.into();
        EnvironmentQuotaBody { endpoints, message_rate, stored_messages, each_application }
    }
}
