//! Tokens for an application's own use of the API, such as a page that the user shows to their customer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use everhook_core::id::ApplicationId;
use everhook_core::limits::FEATURE_FLAGS_MAX;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::application::{self, ApplicationIn};
use crate::auth::environments;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::routes::Routes;
use crate::scope::{self, ApplicationPath, InEnvironment, Slots};
use crate::state::Api;

/// What the token is for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppPortalAccessIn {
    /// The event types behind these flags are shown.
    feature_flags: Option<Vec<String>>,
    /// Created if there is no application of the path's uid.
    application: Option<ApplicationIn>,
}

/// A token of one application.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AppPortalAccessOut {
    /// Where the API is described.
    #[schema(value_type = String)]
    url: &'static str,
    token: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(create, __path_create)
}

/// Get a token for one application, valid for 28 days.
#[utoipa::path(
    post, path = "/api/v1/auth/app-portal-access/{app_id}",
    operation_id = "v1.authentication.app-portal-access", tag = "Authentication",
    params(ApplicationPath), request_body = AppPortalAccessIn,
    responses((status = 200, body = AppPortalAccessOut), (status = 501, description = "There is no secret to sign with."))
)]
async fn create(
    State(api): State<Arc<Api>>,
    InEnvironment { environment }: InEnvironment,
    Slots(ApplicationPath { app_id }): Slots<ApplicationPath>,
    input: Input,
) -> Result<Json<AppPortalAccessOut>, ApiError> {
    let wanted: AppPortalAccessIn = input.json()?;
    let Some(tokens) = &api.tokens else { return Err(no_secret()) };
    let flags = input::names("featureFlags", wanted.feature_flags.unwrap_or_default(), FEATURE_FLAGS_MAX)?;
    let locator = scope::locator(&app_id, ApplicationId::PREFIX)?;
    let application = application::find_or_create(&api, environment, &locator, wanted.application).await?.id;
    let org = environments::org(&*api.store, environment).await?.ok_or_else(ApiError::not_found)?;
    let token = tokens.issue(org, application, &flags, api.now()).ok_or_else(no_secret)?;
    Ok(Json(AppPortalAccessOut { url: "/docs", token }))
}

fn no_secret() -> ApiError {
    let detail = "Tokens need a secret to sign them with: set EVERHOOK_JWT_SECRET on the server.";
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", detail)
}
