//! Integrations: lasting, named keys of one application, for tools that act on its behalf.
//!
//! A key has all capabilities of an application token and the feature flags of its integration, and does not expire.
//! The server stores only its hash, so that a key is shown once, when it is rotated.

use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use everhook_core::id::IntegrationId;
use everhook_core::integration::{Integration, IntegrationKey};
use everhook_core::limits::{FEATURE_FLAGS_MAX, INTEGRATIONS_MAX, TITLE_CHARS_MAX};
use everhook_core::name::Name;
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::violation::Violation;
use everhook_store::catalog::Order;
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::resource::{New, ResourceKey};
use http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::{self, Input};
use crate::key;
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::resource::{self, ApiResource};
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, ApplicationPath, InApplication, PathParams};
use crate::state::Api;

/// An integration to create or to replace.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntegrationIn {
    /// A name for people.
    #[schema(min_length = 1, example = "No-code tool")]
    name: String,
    /// The feature flags of the key. It sees event types with these flags, and types without a flag.
    feature_flags: Option<Vec<String>>,
}

/// An integration, without its key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntegrationOut {
    #[schema(value_type = String, example = "integ_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: IntegrationId,
    /// A name for people.
    name: String,
    /// The feature flags of the key.
    #[schema(value_type = Vec<String>)]
    feature_flags: Vec<Name>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// The new key of an integration.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IntegrationKeyOut {
    /// The key, to be sent as `Authorization: Bearer <key>`. It is not shown again.
    #[schema(example = "integsk_")]
    key: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct IntegrationPath {
    /// The id of the integration.
    pub(crate) integ_id: String,
}

/// Routes of one integration of one application.
struct AtIntegration {
    api: Arc<Api>,
    scope: AppScope,
    id: IntegrationId,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, put __path_put, delete __path_delete,
        rotate_key __path_rotate_key,
    ]
}

/// List the integrations of an application.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/integration", operation_id = "v1.integration.list", tag = "Integration",
    params(ApplicationPath, PageParams, OrderParams),
    responses((status = 200, body = Page<IntegrationOut>))
)]
async fn list(InApplication { api, scope, .. }: InApplication, listing: Listing) -> Answer<Page<IntegrationOut>> {
    listing.answer(&api, Order::Descending, |slice| query::Integrations { scope, slice }, |row| row.id).await
}

/// Create an integration. It has no key until the first rotation.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/integration", operation_id = "v1.integration.create", tag = "Integration",
    params(ApplicationPath), request_body = IntegrationIn,
    responses((status = 201, body = IntegrationOut))
)]
async fn create(InApplication { api, scope, .. }: InApplication, input: Input) -> StatusAnswer<IntegrationOut> {
    let now = api.now();
    let blank = Integration {
        id: IntegrationId(api.new_id()),
        application: scope.application,
        name: String::new(),
        feature_flags: Vec::new(),
        key: None,
        created_at: now,
        updated_at: now,
        revision: 0,
    };
    let integration = input.json::<IntegrationIn>()?.check(blank)?;
    let new = New { record: integration, max: INTEGRATIONS_MAX };
    resource::create(&api, scope, new, input.key.as_ref()).await?.answer()
}

/// Get an integration.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/integration/{integ_id}", operation_id = "v1.integration.get",
    tag = "Integration", params(ApplicationPath, IntegrationPath),
    responses((status = 200, body = IntegrationOut))
)]
async fn get(at: AtIntegration) -> Answer<IntegrationOut> {
    Ok(Json(resource::get::<Integration>(&at.api, at.scope, &at.id).await?.into()))
}

/// Replace the name and the feature flags of an integration. Its key stays.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/integration/{integ_id}", operation_id = "v1.integration.update",
    tag = "Integration", params(ApplicationPath, IntegrationPath), request_body = IntegrationIn,
    responses((status = 200, body = IntegrationOut))
)]
async fn put(at: AtIntegration, input: Input) -> Answer<IntegrationOut> {
    let wanted = input.json::<IntegrationIn>()?;
    let changed = at.change(|old| Ok(wanted.clone().check(old)?)).await?;
    Ok(Json(changed.into()))
}

/// Delete an integration. Its key ends.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/integration/{integ_id}", operation_id = "v1.integration.delete",
    tag = "Integration", params(ApplicationPath, IntegrationPath),
    responses((status = 204, description = "The integration is deleted."))
)]
async fn delete(at: AtIntegration) -> EmptyAnswer {
    let key = ResourceKey::Integration(at.scope.application, at.id);
    let deleted = resource::delete::<Integration>(&at.api, at.scope, &at.id, key).await?;
    at.api.integrations.clear();
    Ok(deleted)
}

/// Give an integration a new key, and return it. The old key ends.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/integration/{integ_id}/key/rotate",
    operation_id = "v1.integration.rotate-key", tag = "Integration",
    params(ApplicationPath, IntegrationPath),
    responses((status = 200, body = IntegrationKeyOut))
)]
async fn rotate_key(at: AtIntegration) -> Answer<IntegrationKeyOut> {
    let random = key::random();
    let key_of = |integration: &Integration| IntegrationKey::generate(at.scope.environment, integration, random);
    let rotate = |old: Integration| Ok(Integration { key: Some(key_of(&old).hash()), ..old });
    let changed = at.change(rotate).await?;
    Ok(Json(IntegrationKeyOut { key: key_of(&changed).expose().to_owned() }))
}

impl AtIntegration {
    /// Changes the integration. This node obeys the change at once.
    async fn change(
        &self,
        change: impl Fn(Integration) -> Result<Integration, ApiError>,
    ) -> Result<Integration, ApiError> {
        let changed = resource::change(&self.api, self.scope, &self.id, None, change).await?;
        self.api.integrations.clear();
        Ok(changed)
    }
}

impl FromRequestParts<Arc<Api>> for AtIntegration {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<AtIntegration, ApiError> {
        let InApplication { api, scope, .. } = InApplication::from_request_parts(parts, api).await?;
        let PathParams(IntegrationPath { integ_id }) = PathParams::from_request_parts(parts, &api).await?;
        let id = integ_id.parse().map_err(|_| ApiError::not_found(scope::named("integration", &integ_id)))?;
        Ok(AtIntegration { api, scope, id })
    }
}

impl ApiResource for Integration {
    type Scope = AppScope;
    type Place = IntegrationId;

    const NOUN: &'static str = "an integration";

    async fn find(api: &Api, scope: AppScope, id: &IntegrationId) -> Result<Option<Self>, StoreError> {
        api.read(query::FindIntegration { scope, id: *id }).await
    }

    fn full(_: &Api) -> ApiError {
        ApiError::limit_reached(format!(
            "An application has at most {INTEGRATIONS_MAX} integrations: delete one first."
        ))
    }
}

impl IntegrationIn {
    /// Checks the form, and puts it in the place of `old`.
    fn check(self, old: Integration) -> Result<Integration, Violation> {
        let name = input::some_text("name", self.name, TITLE_CHARS_MAX)?;
        let feature_flags = input::names("featureFlags", self.feature_flags.unwrap_or_default(), FEATURE_FLAGS_MAX)?;
        Ok(Integration { name, feature_flags, ..old })
    }
}

impl From<Integration> for IntegrationOut {
    fn from(integration: Integration) -> IntegrationOut {
        IntegrationOut {
            id: integration.id,
            name: integration.name,
            feature_flags: integration.feature_flags,
            created_at: integration.created_at,
            updated_at: integration.updated_at,
        }
    }
}
