//! Statistics of an environment, counted by background tasks.

use axum::Json;
use everhook_core::background::{ApplicationUsage, BackgroundTask};
use everhook_core::id::ApplicationId;
use everhook_core::limits::NAME_CHARS_MAX;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::query;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::background_task::{StartedTaskOut, start};
use crate::endpoint_replay::window;
use crate::error::ApiError;
use crate::input::Input;
use crate::limits::USAGE_APPLICATIONS_MAX;
use crate::routes::{Routes, StatusAnswer};
use crate::scope::{self, InEnvironment};
use crate::state::Api;

/// The applications and the window to count.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppUsageStatsIn {
    /// Messages accepted since this time.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Messages accepted before this time.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    /// Ids or uids of applications; all applications of the environment if it is not given.
    #[schema(max_items = 1000)]
    app_ids: Option<Vec<String>>,
}

/// A background task that counts, and the applications that it does not know.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppUsageStatsOut {
    #[serde(flatten)]
    task: StartedTaskOut,
    /// Those of `appIds` that are no application of the environment.
    unresolved_app_ids: Vec<String>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(applications, __path_applications).add(event_types, __path_event_types)
}

/// Count the attempts of each application, of messages that were accepted in a window. The result of the background
/// task has `appStats`.
#[utoipa::path(
    post, path = "/api/v1/stats/usage/app", operation_id = "v1.statistics.aggregate-app-stats", tag = "Statistics",
    request_body = AppUsageStatsIn, responses((status = 202, body = AppUsageStatsOut))
)]
async fn applications(InEnvironment { api, scope }: InEnvironment, input: Input) -> StatusAnswer<AppUsageStatsOut> {
    let AppUsageStatsIn { since, until, app_ids } = input.json()?;
    let (since, until) = window(since, Some(until), api.now())?;
    let (applications, unresolved_app_ids) = match app_ids {
        None => (None, Vec::new()),
        Some(names) => {
            let (found, unresolved) = resolve(&api, scope, names).await?;
            (Some(found), unresolved)
        }
    };
    let task = BackgroundTask::ApplicationUsage(ApplicationUsage { since, until, applications });
    let task = start(&api, scope, task, input.key.as_ref()).await?;
    Ok((StatusCode::ACCEPTED, Json(AppUsageStatsOut { task, unresolved_app_ids })))
}

/// List the event types that the endpoints of each application subscribe to. The result of the background task has
/// `event_types`.
#[utoipa::path(
    put, path = "/api/v1/stats/usage/event-types", operation_id = "v1.statistics.aggregate-event-types",
    tag = "Statistics", responses((status = 202, body = StartedTaskOut))
)]
async fn event_types(InEnvironment { api, scope }: InEnvironment) -> StatusAnswer<StartedTaskOut> {
    let started = start(&api, scope, BackgroundTask::EventTypeUsage, None).await?;
    Ok((StatusCode::ACCEPTED, Json(started)))
}

/// Finds applications by id or uid; also returns the names without an application. At least one must be known.
async fn resolve(api: &Api, scope: Scope, names: Vec<String>) -> Result<(Vec<ApplicationId>, Vec<String>), ApiError> {
    if names.len() > USAGE_APPLICATIONS_MAX {
        return Err(at("appIds").breaks(format!("must have at most {USAGE_APPLICATIONS_MAX} entries")).into());
    }
    let (mut found, mut unresolved) = (Vec::new(), Vec::new());
    for (index, name) in names.into_iter().enumerate() {
        if name.chars().count() > NAME_CHARS_MAX {
            let rule = format!("must have at most {NAME_CHARS_MAX} characters");
            return Err(at("appIds").index(index).breaks(rule).into());
        }
        let application = match scope::application(&name) {
            Ok(locator) => api.read(query::FindApplication { scope, locator }).await?,
            Err(_) => None,
        };
        match application {
            Some(application) if found.contains(&application.id) => {}
            Some(application) => found.push(application.id),
            None => unresolved.push(name),
        }
    }
    if found.is_empty() {
        return Err(at("appIds").breaks("must name at least one application of the environment").into());
    }
    Ok((found, unresolved))
}
