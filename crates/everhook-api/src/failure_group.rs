//! Failure groups: the dead deliveries to one endpoint that failed in the same way.
//!
//! The groups are read from the dead deliveries. Only what an operator notes about a group is stored.

use axum::Json;
use everhook_core::background::replay::{Pick, Replay};
use everhook_core::background::{Bulk, BulkAction, Effect};
use everhook_core::failure_group::{FailureGroup, GroupKey, GroupState};
use everhook_core::id::{ApplicationId, EndpointId};
use everhook_core::limits::{FAILURES_COUNTED_MAX, FAILURES_LISTED_MAX, NOTE_CHARS_MAX};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::directory::PlacedEndpoint;
use everhook_store::failure::FailureNote;
use everhook_store::query;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::background_task::{StartedTaskOut, start};
use crate::directory;
use crate::endpoint_replay::Options;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::page::Page;
use crate::query::Query;
use crate::routes::{Answer, Routes, StatusAnswer, routes_of};
use crate::scope::{AtPath, InEnvironment, named};
use crate::state::Api;

/// Dead deliveries to one endpoint that failed in the same way.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailureGroupOut {
    /// The endpoint and the class.
    #[schema(value_type = String, example = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2.timeout")]
    id: String,
    #[schema(value_type = String)]
    app_id: ApplicationId,
    /// The name of the application.
    app_name: String,
    #[schema(value_type = String)]
    endpoint_id: EndpointId,
    url: String,
    /// `4xx`, `5xx` or `429`; `status` for other statuses; or the class of the last attempt, such as `timeout`.
    #[schema(value_type = String)]
    class: &'static str,
    /// Dead deliveries among the newest 1000 of the endpoint; of one group, among the newest 10000.
    count: u64,
    /// The time of the first death among the counted deliveries.
    #[schema(value_type = String, format = DateTime)]
    first_died_at: Timestamp,
    /// The time of the last death.
    #[schema(value_type = String, format = DateTime)]
    last_died_at: Timestamp,
    /// The deaths in each of the last 24 hours among the counted deliveries, oldest first. The last is the current
    /// hour.
    #[schema(min_items = 24, max_items = 24)]
    last_day: Vec<u64>,
    /// `open`, `acknowledged` or `resolved`. A resolved group is open again after another delivery has died.
    #[schema(value_type = String)]
    state: &'static str,
    /// The latest note of an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The time of the latest note.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    noted_at: Option<Timestamp>,
}

/// A note about a group.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailureNoteIn {
    /// A text for other operators.
    #[schema(max_length = 1000)]
    note: Option<String>,
}

/// The options of a redrive.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FailureRedriveIn {
    /// Only count the dead deliveries, and redrive none.
    dry_run: Option<bool>,
    /// Messages to send per second. Default: as many as other work allows.
    #[schema(minimum = 1, maximum = 10000)]
    rate_per_second: Option<u32>,
}

/// The size of a redrive, and its background task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailureRedriveOut {
    /// Dead deliveries of the group, among the newest 10000 of the endpoint. The background task visits all of them.
    count: u64,
    /// The background task that sends the messages again; absent after a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<StartedTaskOut>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct FailureGroupParams {
    /// The `iterator` of the previous page. Default: the first page.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    iterator: Option<EndpointId>,
    /// Only groups in this state: `open`, `acknowledged` or `resolved`.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>, pattern = "^(open|acknowledged|resolved)$")]
    state: Option<GroupState>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct FailureGroupPath {
    /// The group's id: an endpoint id, a dot and a class.
    group_id: String,
}

type AtGroup = AtPath<FailureGroupPath>;

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, get __path_get, acknowledge __path_acknowledge, resolve __path_resolve,
        reopen __path_reopen, redrive __path_redrive,
    ]
}

/// List the groups of dead deliveries, ordered by endpoint.
///
/// A page has all groups of up to 50 endpoints. It can be empty and not be the last.
#[utoipa::path(
    get, path = "/api/v1/failure-group", operation_id = "v1.failure-group.list", tag = "Failure Group",
    params(FailureGroupParams), responses((status = 200, body = Page<FailureGroupOut>))
)]
async fn list(
    InEnvironment { api, scope }: InEnvironment,
    Query(params): Query<FailureGroupParams>,
) -> Answer<Page<FailureGroupOut>> {
    let found = api.read(query::ListFailures { scope, after: params.iterator }).await?;
    let is_wanted = |group: &FailureGroup| params.state.is_none_or(|state| group.state() == state);
    let groups: Vec<FailureGroup> = found.groups.into_iter().filter(is_wanted).collect();
    let data = place(&api, scope, groups).await?;
    let done = found.next.is_none();
    let last = data.last().map(|group| group.endpoint_id).or(params.iterator);
    let iterator = found.next.or(last).map(|id| id.to_string());
    Ok(Json(Page { data, iterator, prev_iterator: None, done }))
}

/// Get a group of dead deliveries.
#[utoipa::path(
    get, path = "/api/v1/failure-group/{group_id}", operation_id = "v1.failure-group.get", tag = "Failure Group",
    params(FailureGroupPath), responses((status = 200, body = FailureGroupOut))
)]
async fn get(at: AtGroup) -> Answer<FailureGroupOut> {
    at.find().await.map(Json)
}

/// Acknowledge a group: an operator knows about it. It stays acknowledged when more deliveries die.
#[utoipa::path(
    post, path = "/api/v1/failure-group/{group_id}/acknowledge", operation_id = "v1.failure-group.acknowledge",
    tag = "Failure Group", params(FailureGroupPath), request_body = Option<FailureNoteIn>,
    responses((status = 200, body = FailureGroupOut))
)]
async fn acknowledge(at: AtGroup, input: Input) -> Answer<FailureGroupOut> {
    at.mark(GroupState::Acknowledged, &input).await
}

/// Resolve a group: its cause is gone. It opens again when another delivery dies. Its dead deliveries stay.
#[utoipa::path(
    post, path = "/api/v1/failure-group/{group_id}/resolve", operation_id = "v1.failure-group.resolve",
    tag = "Failure Group", params(FailureGroupPath), request_body = Option<FailureNoteIn>,
    responses((status = 200, body = FailureGroupOut))
)]
async fn resolve(at: AtGroup, input: Input) -> Answer<FailureGroupOut> {
    at.mark(GroupState::Resolved, &input).await
}

/// Open a group again that was acknowledged or resolved.
#[utoipa::path(
    post, path = "/api/v1/failure-group/{group_id}/reopen", operation_id = "v1.failure-group.reopen",
    tag = "Failure Group", params(FailureGroupPath), request_body = Option<FailureNoteIn>,
    responses((status = 200, body = FailureGroupOut))
)]
async fn reopen(at: AtGroup, input: Input) -> Answer<FailureGroupOut> {
    at.mark(GroupState::Open, &input).await
}

/// Send the messages of a group again, in a background task. With `dryRun`, only count them. Messages that arrived in
/// the meantime are left out.
#[utoipa::path(
    post, path = "/api/v1/failure-group/{group_id}/redrive", operation_id = "v1.failure-group.redrive",
    tag = "Failure Group", params(FailureGroupPath), request_body = Option<FailureRedriveIn>,
    responses(
        (status = 202, body = FailureRedriveOut),
        (status = 200, body = FailureRedriveOut, description = "The count of a dry run."),
    )
)]
async fn redrive(at: AtGroup, input: Input) -> StatusAnswer<FailureRedriveOut> {
    let FailureRedriveIn { dry_run, rate_per_second } = input.json_or_default()?;
    let options = Options::new(dry_run, rate_per_second)?;
    let (group, key) = (at.find().await?, at.path.key()?);
    if options.effect == Effect::Count {
        return Ok((StatusCode::OK, Json(FailureRedriveOut { count: group.count, task: None })));
    }
    let replay = Replay {
        application: group.app_id,
        endpoint: key.endpoint,
        since: Timestamp::default(),
        until: at.api.now(),
        pick: Pick::FailedAs(key.class),
    };
    let bulk = Bulk { action: BulkAction::Replay(replay), effect: Effect::Apply, rate: options.rate };
    let task = start(&at.api, at.scope, bulk.into(), input.key.as_ref()).await?;
    Ok((StatusCode::ACCEPTED, Json(FailureRedriveOut { count: group.count, task: Some(task) })))
}

impl AtGroup {
    async fn find(&self) -> Result<FailureGroupOut, ApiError> {
        let key = self.path.key()?;
        let found = self.api.read(query::FindFailures { scope: self.scope, endpoint: key.endpoint }).await?;
        let group = found.groups.into_iter().find(|group| group.key == key);
        let shown = place(&self.api, self.scope, group.into_iter().collect()).await?.pop();
        shown.ok_or_else(|| self.path.not_found())
    }

    async fn mark(&self, state: GroupState, input: &Input) -> Answer<FailureGroupOut> {
        let FailureNoteIn { note } = input.json_or_default()?;
        let note = input::text("note", note.unwrap_or_default(), NOTE_CHARS_MAX)?;
        self.find().await?;
        self.api.node.mark_failures(self.scope, FailureNote { key: self.path.key()?, state, note }).await?;
        self.find().await.map(Json)
    }
}

/// Adds endpoints and applications. Groups of deleted endpoints are left out: their deliveries cannot be sent.
async fn place(api: &Api, scope: Scope, groups: Vec<FailureGroup>) -> Result<Vec<FailureGroupOut>, ApiError> {
    let mut ids: Vec<EndpointId> = groups.iter().map(|group| group.key.endpoint).collect();
    ids.dedup();
    let known = directory::endpoints(api, scope, ids).await?;
    let now = api.now();
    let show = |group: FailureGroup| Some(FailureGroupOut::new(known.get(&group.key.endpoint)?, group, now));
    Ok(groups.into_iter().filter_map(show).collect())
}

impl FailureGroupPath {
    fn key(&self) -> Result<GroupKey, ApiError> {
        self.group_id.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(named("failure group", &self.group_id))
    }
}

impl FailureGroupOut {
    fn new(
        PlacedEndpoint { application, endpoint }: &PlacedEndpoint,
        group: FailureGroup,
        now: Timestamp,
    ) -> FailureGroupOut {
        let state = group.state().as_str();
        let noted_at = group.mark.as_ref().map(|mark| mark.at);
        FailureGroupOut {
            id: group.key.to_string(),
            app_id: application.id,
            app_name: application.name.clone(),
            endpoint_id: endpoint.id,
            url: endpoint.shown_url(),
            class: group.key.class.as_str(),
            count: group.dead,
            first_died_at: group.first_died_at,
            last_died_at: group.last_died_at,
            last_day: group.last_day(now).into(),
            state,
            note: group.mark.map(|mark| mark.note).filter(|note| !note.is_empty()),
            noted_at,
        }
    }
}

// The descriptions of `count` name these bounds.
const _: () = assert!(FAILURES_LISTED_MAX == 1000 && FAILURES_COUNTED_MAX == 10_000);
