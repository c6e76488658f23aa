//! Alert rules: numbers of the environment that are watched, and the pages that tell its operator.
//!
//! This file stores rules and shows their states; a node evaluates them (`engine::alerts`). Pages go to operational
//! endpoints, so that the rules for URLs and chat hosts are theirs. Application tokens cannot use these routes.

use axum::Json;
use everhook_core::alert::Alert;
use everhook_core::id::{AlertId, EndpointId};
use everhook_core::limits::ALERTS_MAX;
use everhook_core::name::Name;
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::scope::Scope;
use everhook_core::violation::at;
use everhook_store::catalog::Order;
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::resource::{New, ResourceKey};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::alert::request::AlertIn;
use crate::alert::response::{AlertHistoryOut, AlertOut, AlertTestOut};
use crate::error::ApiError;
use crate::input::Input;
use crate::page::{Cursor, Listing, OrderParams, Page, PageParams};
use crate::resource::{self, ApiResource};
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, AtPath, InEnvironment};
use crate::state::Api;

mod request;
mod response;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct AlertPath {
    /// The name of the alert.
    alert: String,
}

impl AlertPath {
    /// A malformed name is not found.
    fn name(&self) -> Result<Name, ApiError> {
        self.alert.parse().map_err(|_| ApiError::not_found(format_args!("alert {:?}", self.alert)))
    }
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, put __path_put, patch __path_patch,
        delete __path_delete, list_pages __path_list_pages, test __path_test,
    ]
}

/// List alerts with their states, ordered by name.
#[utoipa::path(
    get, path = "/api/v1/alert", operation_id = "v1.alert.list", tag = "Alert", params(PageParams, OrderParams),
    responses((status = 200, body = Page<AlertOut>))
)]
async fn list(InEnvironment { api, scope }: InEnvironment, listing: Listing) -> Answer<Page<AlertOut>> {
    let cursor: Cursor<Name> = listing.cursor(Order::Ascending)?;
    let piece = api.read(query::Alerts { scope, slice: cursor.slice() }).await?;
    Ok(Json(cursor.page_of(piece, |row| row.name.clone(), AlertOut::from)))
}

/// Create an alert. Its first page is sent when its condition has held for `forSeconds`.
#[utoipa::path(
    post, path = "/api/v1/alert", operation_id = "v1.alert.create", tag = "Alert",
    request_body(content = AlertIn, example = json!({"name": "dead-letters", "signal": "dead", "threshold": 100})),
    responses((status = 201, body = AlertOut))
)]
async fn create(InEnvironment { api, scope }: InEnvironment, input: Input) -> StatusAnswer<AlertOut> {
    let wanted: AlertIn = input.json()?;
    check_places(&api, scope, &wanted).await?;
    let alert = wanted.check(AlertId(api.new_id()), None)?;
    let new = New { record: alert, max: ALERTS_MAX };
    resource::create(&api, scope, new, input.key.as_ref()).await?.answer()
}

/// Get an alert with its state.
#[utoipa::path(
    get, path = "/api/v1/alert/{alert}", operation_id = "v1.alert.get", tag = "Alert", params(AlertPath),
    responses((status = 200, body = AlertOut))
)]
async fn get(AtPath { api, scope, path }: AtPath<AlertPath>) -> Answer<AlertOut> {
    Ok(Json(resource::get::<Alert>(&api, scope, &path.name()?).await?.into()))
}

/// Replace an alert, or create it. Absent members get their defaults. A triggered alert stays triggered until its new
/// condition does not hold.
#[utoipa::path(
    put, path = "/api/v1/alert/{alert}", operation_id = "v1.alert.update", tag = "Alert", params(AlertPath),
    request_body(content = AlertIn, example = json!({"signal": "oldest-due-age", "threshold": 300, "forSeconds": 120})),
    responses((status = 200, body = AlertOut), (status = 201, body = AlertOut, description = "The alert is new."))
)]
async fn put(AtPath { api, scope, path }: AtPath<AlertPath>, input: Input) -> StatusAnswer<AlertOut> {
    let name = path.name()?;
    let wanted = input.json::<AlertIn>()?.named(&name)?;
    check_places(&api, scope, &wanted).await?;
    let change = |old: Alert| Ok(wanted.clone().check(old.id, Some(old))?);
    let new = || Ok(New { record: wanted.clone().check(AlertId(api.new_id()), None)?, max: ALERTS_MAX });
    resource::put(&api, scope, &name, change, new).await
}

/// Change an alert. Absent members keep their values, and null resets a member to its default.
#[utoipa::path(
    patch, path = "/api/v1/alert/{alert}", operation_id = "v1.alert.patch", tag = "Alert", params(AlertPath),
    request_body(content = AlertIn, example = json!({"threshold": 50})), responses((status = 200, body = AlertOut))
)]
async fn patch(AtPath { api, scope, path }: AtPath<AlertPath>, input: Input) -> Answer<AlertOut> {
    let name = path.name()?;
    let wanted: AlertIn = input.json()?;
    resource::get::<Alert>(&api, scope, &name).await?;
    check_places(&api, scope, &wanted).await?;
    let change = |old: Alert| Ok(input.patched::<AlertIn>(&old)?.named(&name)?.check(old.id, Some(old))?);
    Ok(Json(resource::change(&api, scope, &name, None, change).await?.into()))
}

/// Delete an alert with its history. A triggered alert sends no further page.
#[utoipa::path(
    delete, path = "/api/v1/alert/{alert}", operation_id = "v1.alert.delete", tag = "Alert", params(AlertPath),
    responses((status = 204))
)]
async fn delete(AtPath { api, scope, path }: AtPath<AlertPath>) -> EmptyAnswer {
    let name = path.name()?;
    resource::delete::<Alert>(&api, scope, &name, ResourceKey::Alert(name.clone())).await
}

/// List the latest pages of an alert, newest first; at most 50.
#[utoipa::path(
    get, path = "/api/v1/alert/{alert}/page", operation_id = "v1.alert.list-pages", tag = "Alert", params(AlertPath),
    responses((status = 200, body = AlertHistoryOut))
)]
async fn list_pages(AtPath { api, scope, path }: AtPath<AlertPath>) -> Answer<AlertHistoryOut> {
    Ok(Json(AlertHistoryOut::of(resource::get::<Alert>(&api, scope, &path.name()?).await?)))
}

/// Send a test page to all destinations of an alert, also those of its escalation. The state of the alert stays.
#[utoipa::path(
    post, path = "/api/v1/alert/{alert}/test", operation_id = "v1.alert.test", tag = "Alert", params(AlertPath),
    responses((status = 202, body = AlertTestOut))
)]
async fn test(AtPath { api, scope, path }: AtPath<AlertPath>) -> StatusAnswer<AlertTestOut> {
    let alert = resource::get::<Alert>(&api, scope, &path.name()?).await?;
    let messages = api.node.test_alert(scope, &alert).await?;
    if messages.is_empty() {
        let detail = "No enabled operational endpoint gets the pages of this alert: create one that wants `alert.triggered`, or change `destinations`.";
        return Err(ApiError::bad_request("no_destination", detail));
    }
    Ok((StatusCode::ACCEPTED, Json(AlertTestOut::of(&messages))))
}

/// Checks that the destinations of a request are operational endpoints, and that the watched endpoint exists.
async fn check_places(api: &Api, scope: Scope, wanted: &AlertIn) -> Result<(), ApiError> {
    for (field, destination) in wanted.destinations() {
        let found = match scope::locator("endpoint", destination, EndpointId::PREFIX) {
            Ok(locator) => {
                let scope = scope.application(OPERATIONAL_APPLICATION);
                api.read(query::FindEndpoint { scope, locator }).await?
            }
            // A malformed id names nothing.
            Err(_) => None,
        };
        if found.is_none() {
            return Err(field.breaks("must be the id or uid of an operational endpoint").into());
        }
    }
    if let Some(endpoint) = wanted.endpoint()
        && api.read(query::FindEndpoints { scope, ids: vec![endpoint] }).await?.is_empty()
    {
        return Err(at("endpointId").breaks("must be the id of an endpoint of the environment").into());
    }
    Ok(())
}

impl ApiResource for Alert {
    type Scope = Scope;
    type Place = Name;

    const NOUN: &'static str = "an alert";
    const SKIPS_EQUAL: bool = true;

    async fn find(api: &Api, scope: Scope, place: &Name) -> Result<Option<Self>, StoreError> {
        api.read(query::FindAlert { scope, name: place.clone() }).await
    }

    fn taken() -> ApiError {
        ApiError::conflict("An alert with this name already exists.")
    }

    fn full(_: &Api) -> ApiError {
        ApiError::limit_reached(format!("An environment has at most {ALERTS_MAX} alerts: delete one first."))
    }
}
