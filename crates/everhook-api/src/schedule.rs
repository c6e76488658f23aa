//! Schedules: cron rules and intervals that create jobs or messages.
//!
//! Schedules whose names begin with `everhook.` are the server's own maintenance. An admin key can list, pause and run
//! them, but no key can change or delete them. This file only stores schedules; every node starts due schedules.

use axum::Json;
use everhook_core::id::{SERVER_ENVIRONMENT, ScheduleId};
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_store::catalog::Order;
use everhook_store::query;
use everhook_store::resource::ResourceKey;
use everhook_store::schedule::ScheduleRecord;

use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::auth::Rights;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::limits::RUNS_SHOWN;
use crate::merge::Members;
use crate::page::{Cursor, Listing, OrderParams, Page, PageParams};
use crate::query::Query;
use crate::resource::{self, Place};
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::schedule::request::{Checks, ScheduleIn};
use crate::schedule::response::{RunOut, ScheduleOut, StartsWhat};
use crate::scope::{InSchedules, PathParams};
use crate::state::Api;

mod request;
mod response;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SchedulePath {
    /// The schedule's name.
    schedule: String,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct BuiltInParams {
    /// List the server's own schedules instead of those of the environment. Requires an admin key.
    #[serde(deserialize_with = "crate::query::one")]
    builtin: Option<bool>,
}

/// The schedule that a path names, if the caller may access it.
struct Named {
    scope: Scope,
    name: Name,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, patch __path_patch, delete __path_delete,
        pause __path_pause, resume __path_resume, run __path_run,
    ]
}

/// List schedules, ordered by name.
#[utoipa::path(
    get, path = "/api/v1/schedule", operation_id = "v1.schedule.list", tag = "Schedule",
    params(PageParams, OrderParams, BuiltInParams), responses((status = 200, body = Page<ScheduleOut>))
)]
async fn list(
    caller: InSchedules,
    listing: Listing,
    Query(BuiltInParams { builtin }): Query<BuiltInParams>,
) -> Answer<Page<ScheduleOut>> {
    let scope = if builtin.unwrap_or(false) { caller.built_in()? } else { caller.scope };
    let cursor: Cursor<Name> = listing.cursor(Order::Ascending)?;
    let piece = caller.api.read(query::Schedules { scope, slice: cursor.slice() }).await?;
    let now = caller.api.now();
    Ok(Json(cursor.page_of(piece, |row| row.name.clone(), |row| ScheduleOut::new(row, now))))
}

/// Create a schedule, which starts a job or a message at its times.
#[utoipa::path(
    post, path = "/api/v1/schedule", operation_id = "v1.schedule.create", tag = "Schedule", request_body = ScheduleIn,
    responses((status = 201, body = ScheduleOut))
)]
async fn create(caller: InSchedules, input: Input) -> StatusAnswer<ScheduleOut> {
    let mut wanted: ScheduleIn<'_> = input.json()?;
    let now = caller.api.now();
    let starts = wanted.take_starts(&caller.api, caller.scope).await?;
    let new = wanted.check(Checks { id: ScheduleId(caller.api.new_id()), now, starts }, None)?;
    let new = resource::create(&caller.api, caller.scope, new, input.key.as_ref()).await?.done()?;
    Ok((StatusCode::CREATED, Json(ScheduleOut::new(new, now))))
}

/// Get a schedule with its next five run times and its latest runs.
#[utoipa::path(
    get, path = "/api/v1/schedule/{schedule}", operation_id = "v1.schedule.get", tag = "Schedule",
    params(SchedulePath), responses((status = 200, body = ScheduleOut))
)]
async fn get(caller: InSchedules, path: PathParams<SchedulePath>) -> Answer<ScheduleOut> {
    let Named { scope, name } = caller.named(&path)?;
    show(&caller.api, scope, resource::get(&caller.api, scope, &name).await?).await
}

/// Change a schedule. Absent members keep their values. Its next run time is computed again.
#[utoipa::path(
    patch, path = "/api/v1/schedule/{schedule}", operation_id = "v1.schedule.patch", tag = "Schedule",
    params(SchedulePath), request_body = ScheduleIn, responses((status = 200, body = ScheduleOut))
)]
async fn patch(caller: InSchedules, path: PathParams<SchedulePath>, input: Input) -> Answer<ScheduleOut> {
    let named = caller.named(&path)?.own()?;
    let starts = input.json::<ScheduleIn<'_>>()?.take_starts(&caller.api, named.scope).await?;
    let change_all = |old: ScheduleRecord| {
        let base = Members::of::<ScheduleIn<'_>>(&old);
        let checks = Checks { id: old.schedule.id, now: caller.api.now(), starts: starts.clone() };
        Ok(input.merged::<ScheduleIn<'_>>(&base)?.check(checks, Some(old))?)
    };
    change(&caller.api, &named, change_all).await
}

/// Delete a schedule with its history. The jobs and messages that it created are kept.
#[utoipa::path(
    delete, path = "/api/v1/schedule/{schedule}", operation_id = "v1.schedule.delete", tag = "Schedule",
    params(SchedulePath), responses((status = 204))
)]
async fn delete(caller: InSchedules, path: PathParams<SchedulePath>) -> EmptyAnswer {
    let Named { scope, name } = caller.named(&path)?.own()?;
    let key = ResourceKey::Schedule(name.clone());
    resource::delete::<ScheduleRecord>(&caller.api, scope, &name, key).await
}

/// Pause a schedule: nothing runs until it is resumed. Runs that fall into the pause are not made up for.
#[utoipa::path(
    post, path = "/api/v1/schedule/{schedule}/pause", operation_id = "v1.schedule.pause", tag = "Schedule",
    params(SchedulePath), responses((status = 200, body = ScheduleOut))
)]
async fn pause(caller: InSchedules, path: PathParams<SchedulePath>) -> Answer<ScheduleOut> {
    change(&caller.api, &caller.named(&path)?, |old| Ok(ScheduleRecord { paused: true, ..old })).await
}

/// Resume a schedule. Its next run time is computed from now.
#[utoipa::path(
    post, path = "/api/v1/schedule/{schedule}/resume", operation_id = "v1.schedule.resume", tag = "Schedule",
    params(SchedulePath), responses((status = 200, body = ScheduleOut))
)]
async fn resume(caller: InSchedules, path: PathParams<SchedulePath>) -> Answer<ScheduleOut> {
    change(&caller.api, &caller.named(&path)?, |old| Ok(ScheduleRecord { paused: false, ..old })).await
}

/// Run a schedule now, even if it is paused. Its run times do not change.
#[utoipa::path(
    post, path = "/api/v1/schedule/{schedule}/run", operation_id = "v1.schedule.run", tag = "Schedule",
    params(SchedulePath), responses((status = 202, body = RunOut))
)]
async fn run(caller: InSchedules, path: PathParams<SchedulePath>) -> StatusAnswer<RunOut> {
    let Named { scope, name } = caller.named(&path)?;
    let found: ScheduleRecord = resource::get(&caller.api, scope, &name).await?;
    let run = caller.api.node.run_schedule(scope, name.clone()).await?;
    let run = run.ok_or_else(|| name.missing("schedule"))?;
    Ok((StatusCode::ACCEPTED, Json(RunOut::new(run, StartsWhat::of(&found.starts)))))
}

/// Changes a schedule, and shows it.
async fn change(
    api: &Api,
    Named { scope, name }: &Named,
    change: impl Fn(ScheduleRecord) -> Result<ScheduleRecord, ApiError>,
) -> Answer<ScheduleOut> {
    show(api, *scope, resource::change(api, *scope, name, None, change).await?).await
}

/// Shows a schedule with all details.
async fn show(api: &Api, scope: Scope, schedule: ScheduleRecord) -> Answer<ScheduleOut> {
    let runs = api.read(query::Runs { scope, id: schedule.schedule.id, limit: RUNS_SHOWN }).await?;
    let what = StartsWhat::of(&schedule.starts);
    let mut shown = ScheduleOut::new(schedule, api.now());
    shown.history = Some(runs.into_iter().map(|run| RunOut::new(run, what)).collect());
    Ok(Json(shown))
}

impl InSchedules {
    /// Returns the environment of the server's own schedules, or fails without an admin key.
    fn built_in(&self) -> Result<Scope, ApiError> {
        match self.rights {
            Rights::Admin => Ok(Scope::of(SERVER_ENVIRONMENT)),
            Rights::Environment(_) | Rights::Application { .. } => Err(ApiError::not_admin()),
        }
    }

    /// Finds the environment of a schedule by its name. A malformed name is not found.
    fn named(&self, path: &SchedulePath) -> Result<Named, ApiError> {
        let not_found = |_| ApiError::not_found(format_args!("schedule {:?}", path.schedule));
        let name: Name = path.schedule.parse().map_err(not_found)?;
        let scope = if input::is_built_in(&name) { self.built_in()? } else { self.scope };
        Ok(Named { scope, name })
    }
}

impl Named {
    /// Refuses the server's own schedules.
    fn own(self) -> Result<Named, ApiError> {
        if !input::is_built_in(&self.name) {
            return Ok(self);
        }
        let detail = "This schedule is the server's own: it can only be paused, resumed and run. Change it in the server's configuration.";
        Err(ApiError::new(StatusCode::CONFLICT, "built_in", detail))
    }
}
