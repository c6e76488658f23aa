//! Applications: the customers of the user.

use std::sync::Arc;

use axum::Json;
use everhook_core::application::Application;
use everhook_core::id::ApplicationId;
use everhook_core::limits::TITLE_CHARS_MAX;
use everhook_core::name::{Metadata, Name};
use everhook_core::policy::Settings;
use everhook_core::policy::effective::Level;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::Violation;
use everhook_store::catalog::{Having, Locator, Order};
use everhook_store::query;
use everhook_store::resource::ResourceKey;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::{self, Input};
use crate::merge::Form;
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::policy;
use crate::query::Query;
use crate::resource::{self, Creation};
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, ApplicationPath, AtPath, InApplication, InEnvironment};
use crate::state::Api;

/// An application to create, or the new content of an existing application.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationIn {
    /// The display name.
    #[schema(min_length = 1)]
    name: String,
    /// Your own id for the application, unique in the environment.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    pub(crate) uid: Option<Option<String>>,
    /// Deliveries per second of each of its endpoints, over all replicas. A `rate` in a policy outranks it.
    #[schema(minimum = 1)]
    throttle_rate: Option<u16>,
    /// The older name of `throttleRate`.
    #[schema(minimum = 1, deprecated)]
    rate_limit: Option<u16>,
    /// Your own data. Everhook does not interpret it.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
    /// The delivery policy of its endpoints. Absent: an existing application keeps its policy. Null: its endpoints
    /// inherit every setting from the environment.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<policy::PolicySchema>)]
    policy: Option<Option<serde_json::Value>>,
}

/// An application.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationOut {
    #[schema(value_type = String, example = "app_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: ApplicationId,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    uid: Option<Name>,
    /// Deliveries per second of each of its endpoints.
    throttle_rate: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(deprecated)]
    rate_limit: Option<u16>,
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The delivery policy of its endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<policy::PolicySchema>)]
    policy: Option<Settings>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct CreateParams {
    /// If an application with the uid exists, return it instead of a conflict.
    #[serde(deserialize_with = "crate::query::one")]
    get_if_exists: Option<bool>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExcludeParams {
    /// Exclude applications without endpoints.
    #[serde(deserialize_with = "crate::query::one")]
    exclude_apps_with_no_endpoints: Option<bool>,
    /// Exclude applications whose endpoints are all disabled.
    #[serde(deserialize_with = "crate::query::one")]
    exclude_apps_with_disabled_endpoints: Option<bool>,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, put __path_put, patch __path_patch,
        delete __path_delete,
    ]
}

/// List applications.
#[utoipa::path(
    get, path = "/api/v1/app", operation_id = "v1.application.list", tag = "Application",
    params(PageParams, OrderParams, ExcludeParams),
    responses((status = 200, body = Page<ApplicationOut>))
)]
async fn list(
    InEnvironment { api, scope }: InEnvironment,
    listing: Listing,
    Query(exclude): Query<ExcludeParams>,
) -> Answer<Page<ApplicationOut>> {
    let query = |slice| query::Applications { scope, having: exclude.having(), slice };
    listing.answer(&api, Order::Ascending, query, |row| row.id).await
}

/// Create an application.
#[utoipa::path(
    post, path = "/api/v1/app", operation_id = "v1.application.create", tag = "Application",
    params(CreateParams), request_body = ApplicationIn,
    responses(
        (status = 201, body = ApplicationOut),
        (status = 200, body = ApplicationOut, description = "The application already exists."),
    )
)]
async fn create(
    InEnvironment { api, scope }: InEnvironment,
    Query(params): Query<CreateParams>,
    input: Input,
) -> StatusAnswer<ApplicationOut> {
    let application = input.json::<ApplicationIn>()?.check(&api, None)?;
    match resource::create(&api, scope, application, input.key.as_ref()).await? {
        Creation::Taken(old) if params.get_if_exists == Some(true) => Ok((StatusCode::OK, Json(old.into()))),
        creation => creation.answer(),
    }
}

/// Get an application.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}", operation_id = "v1.application.get", tag = "Application",
    params(ApplicationPath), responses((status = 200, body = ApplicationOut))
)]
async fn get(InApplication { application, .. }: InApplication) -> Json<ApplicationOut> {
    Json(application.into())
}

/// Replace the application with this id or uid, or create an application with this uid.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}", operation_id = "v1.application.update", tag = "Application",
    params(ApplicationPath), request_body = ApplicationIn,
    responses(
        (status = 200, body = ApplicationOut),
        (status = 201, body = ApplicationOut, description = "The application was created."),
    )
)]
async fn put(AtPath { api, scope, path }: AtPath<ApplicationPath>, input: Input) -> StatusAnswer<ApplicationOut> {
    let locator = scope::application(&path.app_id)?;
    let mut wanted = input.json::<ApplicationIn>()?;
    scope::fill_uid(&mut wanted.uid, &locator);
    let check = |old| Ok(wanted.clone().check(&api, old)?);
    resource::put(&api, scope, &locator, |old| check(Some(old)), || check(None)).await
}

/// Change an application. Absent members keep their values.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}", operation_id = "v1.application.patch", tag = "Application",
    params(ApplicationPath), request_body(content = ref("#/components/schemas/ApplicationPatch")),
    responses((status = 200, body = ApplicationOut))
)]
async fn patch(AtPath { api, scope, path }: AtPath<ApplicationPath>, input: Input) -> Answer<ApplicationOut> {
    let locator = scope::application(&path.app_id)?;
    let change = |old| Ok(input.patched::<ApplicationIn>(&old)?.check(&api, Some(old))?);
    Ok(Json(resource::change(&api, scope, &locator, None, change).await?.into()))
}

/// Delete an application with its endpoints. Its open deliveries are cancelled.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}", operation_id = "v1.application.delete", tag = "Application",
    params(ApplicationPath), responses((status = 204))
)]
async fn delete(
    InEnvironment { api, scope }: InEnvironment,
    InApplication { application, .. }: InApplication,
) -> EmptyAnswer {
    let (place, key) = (Locator::Id(application.id), ResourceKey::Application(application.id));
    resource::delete::<Application>(&api, scope, &place, key).await
}

/// Finds the application at `locator`. If there is none, creates `wanted`, whose uid must be the uid of the locator.
pub(crate) async fn find_or_create(
    api: &Api,
    scope: Scope,
    locator: &Locator<ApplicationId>,
    wanted: Option<ApplicationIn>,
) -> Result<Application, ApiError> {
    check_uid(wanted.as_ref(), locator)?;
    if let Some(found) = api.read(query::FindApplication { scope, locator: locator.clone() }).await? {
        return Ok(found);
    }
    let (Some(wanted), Locator::Uid(_)) = (wanted, locator) else { return Err(scope::missing("application", locator)) };
    let wanted = wanted.check(api, None)?;
    // If another request has created the application meanwhile, both requests use that application.
    Ok(resource::create(api, scope, wanted, None).await?.any())
}

/// Checks that an application in the body of another request has the uid of the path.
pub(crate) fn check_uid(wanted: Option<&ApplicationIn>, locator: &Locator<ApplicationId>) -> Result<(), ApiError> {
    let (Some(wanted), Locator::Uid(uid)) = (wanted, locator) else { return Ok(()) };
    let loc = ["body", "application", "uid"];
    match &wanted.uid {
        Some(Some(text)) if text == uid.as_str() => Ok(()),
        Some(Some(_)) => Err(ApiError::invalid_as("application_uid_mismatch", loc, "is not the uid of the path")),
        Some(None) | None => Err(ApiError::invalid_as("application_uid_missing", loc, "must be the uid of the path")),
    }
}

impl ExcludeParams {
    fn having(&self) -> Having {
        match (self.exclude_apps_with_disabled_endpoints, self.exclude_apps_with_no_endpoints) {
            (Some(true), Some(true)) => Having::EnabledEndpoints,
            // This filter also excludes applications without endpoints.
            (Some(true), _) => Having::NotOnlyDisabledEndpoints,
            (_, Some(true)) => Having::Endpoints,
            (_, _) => Having::Anything,
        }
    }
}

impl Form for ApplicationIn {
    type Record = Application;

    const ALIASES: &'static [(&'static str, &'static str)] = &[("rateLimit", "throttleRate")];

    fn of(application: &Application) -> ApplicationIn {
        ApplicationIn {
            name: application.name.clone(),
            uid: Some(application.uid.as_ref().map(ToString::to_string)),
            throttle_rate: application.throttle_rate,
            rate_limit: None,
            metadata: Some(application.metadata.clone()),
            policy: None,
        }
    }
}

impl ApplicationIn {
    /// Builds a new application, or the replacement of `old`.
    fn check(self, api: &Api, old: Option<Application>) -> Result<Application, Violation> {
        let uid = input::uid(self.uid.flatten(), ApplicationId::PREFIX)?;
        let name = input::some_text("name", self.name, TITLE_CHARS_MAX)?;
        let throttle_rate = input::throttle_rate(self.throttle_rate.or(self.rate_limit))?;
        let metadata = input::metadata(self.metadata.unwrap_or_default())?;
        let policy = policy::changed(self.policy, old.as_ref().and_then(|old| old.policy.clone()), Level::Application)?;
        if let Some(old) = old {
            return Ok(Application { uid, name, throttle_rate, policy, metadata, ..old });
        }
        let (id, now) = (ApplicationId(api.new_id()), api.now());
        let (created_at, updated_at, revision) = (now, now, 0);
        Ok(Application { id, uid, name, throttle_rate, policy, metadata, created_at, updated_at, revision })
    }
}

impl From<Application> for ApplicationOut {
    fn from(application: Application) -> ApplicationOut {
        ApplicationOut {
            id: application.id,
            name: application.name,
            uid: application.uid,
            throttle_rate: application.throttle_rate,
            rate_limit: application.throttle_rate,
            metadata: application.metadata,
            created_at: application.created_at,
            updated_at: application.updated_at,
            policy: application.policy.map(Arc::unwrap_or_clone),
        }
    }
}
