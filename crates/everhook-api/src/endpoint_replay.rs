//! Replays: messages that an endpoint gets once more, chosen by a window of time.
//!
//! Each starts a background task and answers at once. `core::background::replay` chooses the messages.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use everhook_core::background::BackgroundTask;
use everhook_core::background::replay::{AttemptedFilter, AttemptedStatus, Pick, Replay};
use everhook_core::limits::ENDPOINT_EVENT_TYPES_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::background_task::{StartedTaskOut, start};
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::limits::RECOVER_WINDOW_MAX;
use crate::routes::Routes;
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath};
use crate::state::Api;

/// The window of a recovery.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RecoverIn {
    /// Failures since this time, at most 14 days before `until`.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Failures before this time; now if it is not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// The window of a replay.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ReplayIn {
    /// Messages accepted since this time.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Messages accepted before this time; now if it is not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// The window and filters of a bulk replay. Messages must match all filters.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkReplayIn {
    /// Messages accepted since this time.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Messages accepted before this time; now if it is not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Only messages of these types.
    event_types: Option<Vec<String>>,
    /// Only messages on this channel.
    channel: Option<String>,
    /// Only messages with this tag.
    tag: Option<String>,
    /// Only messages whose last attempt ended so: 0 succeeded, 2 failed, 4 cancelled. Messages that are pending (1) or
    /// being sent (3) are never replayed.
    #[schema(minimum = 0, maximum = 4)]
    status: Option<u8>,
    /// Only messages whose last attempt got a status of this class: 0 (no response), 100, 200, 300, 400 or 500.
    #[schema(minimum = 0, maximum = 500, multiple_of = 100)]
    status_code_class: Option<u16>,
}

pub(crate) fn routes() -> Routes {
    Routes::default()
        .add(recover, __path_recover)
        .add(replay_missing, __path_replay_missing)
        .add(bulk_replay, __path_bulk_replay)
}

/// Send messages again whose deliveries to the endpoint failed for good in a window, and never succeeded.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover", operation_id = "v1.endpoint.recover",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = RecoverIn,
    responses((status = 202, body = StartedTaskOut))
)]
async fn recover(
    State(api): State<Arc<Api>>,
    at_endpoint: AtEndpoint,
    input: Input,
) -> Result<(StatusCode, Json<StartedTaskOut>), ApiError> {
    let RecoverIn { since, until } = input.json()?;
    let (since, until) = window(since, until, api.now())?;
    // A request that says "14 days ago" arrives a little later.
    const LEEWAY: Duration = Duration::from_secs(300);
    if until.since(since) > RECOVER_WINDOW_MAX + LEEWAY {
        let days = RECOVER_WINDOW_MAX.as_secs() / 86_400;
        return Err(at("since").breaks(format!("must be at most {days} days before until")).into());
    }
    replay(&api, &at_endpoint, (since, until), Pick::Failed, &input).await
}

/// Send messages that have no delivery to the endpoint and pass its filters: it is newer, was disabled, or had other
/// filters when they were accepted.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing",
    operation_id = "v1.endpoint.replay-missing", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    request_body = ReplayIn, responses((status = 202, body = StartedTaskOut))
)]
async fn replay_missing(
    State(api): State<Arc<Api>>,
    at_endpoint: AtEndpoint,
    input: Input,
) -> Result<(StatusCode, Json<StartedTaskOut>), ApiError> {
    let ReplayIn { since, until } = input.json()?;
    let window = window(since, until, api.now())?;
    replay(&api, &at_endpoint, window, Pick::Missing, &input).await
}

/// Send messages again that were attempted at the endpoint, successful ones too.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-replay",
    operation_id = "v1.endpoint.bulk-replay", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    request_body = BulkReplayIn, responses((status = 202, body = StartedTaskOut))
)]
async fn bulk_replay(
    State(api): State<Arc<Api>>,
    at_endpoint: AtEndpoint,
    input: Input,
) -> Result<(StatusCode, Json<StartedTaskOut>), ApiError> {
    let wanted: BulkReplayIn = input.json()?;
    let window = window(wanted.since, wanted.until, api.now())?;
    replay(&api, &at_endpoint, window, Pick::Attempted(wanted.filter()?), &input).await
}

async fn replay(
    api: &Api,
    at_endpoint: &AtEndpoint,
    (since, until): (Timestamp, Timestamp),
    pick: Pick,
    input: &Input,
) -> Result<(StatusCode, Json<StartedTaskOut>), ApiError> {
    let (application, endpoint) = (at_endpoint.application, at_endpoint.endpoint.id);
    let task = BackgroundTask::Replay(Replay { application, endpoint, since, until, pick });
    let started = start(api, at_endpoint.environment, task, input.key.as_ref()).await?;
    Ok((StatusCode::ACCEPTED, Json(started)))
}

/// Returns the window of a background task. It never reaches into the future, so that later messages do not keep the
/// task going.
pub(crate) fn window(
    since: Timestamp,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), Violation> {
    if until.is_some_and(|until| until < since) {
        return Err(at("until").breaks("must not be before since"));
    }
    Ok((since, until.map_or(now, |until| until.min(now))))
}

impl BulkReplayIn {
    fn filter(self) -> Result<AttemptedFilter, Violation> {
        let name = |field, text: Option<String>| at(field).check(text.map(Name::try_from).transpose());
        let status = match self.status {
            None => None,
            Some(0) => Some(AttemptedStatus::Succeeded),
            Some(1 | 3) => Some(AttemptedStatus::Open),
            Some(2) => Some(AttemptedStatus::Failed),
            Some(4) => Some(AttemptedStatus::Cancelled),
            Some(_) => return Err(at("status").breaks("must be from 0 to 4")),
        };
        if self.status_code_class.is_some_and(|class| class > 500 || class % 100 > 0) {
            return Err(at("statusCodeClass").breaks("must be 0, 100, 200, 300, 400 or 500"));
        }
        let event_types = self.event_types.unwrap_or_default();
        Ok(AttemptedFilter {
            event_types: input::names("eventTypes", event_types, ENDPOINT_EVENT_TYPES_MAX)?,
            channel: name("channel", self.channel)?,
            tag: name("tag", self.tag)?,
            status,
            status_class: self.status_code_class,
        })
    }
}
