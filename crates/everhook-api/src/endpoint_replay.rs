//! Replays: messages that an endpoint gets once more, chosen by a window of time. And commands for many deliveries:
//! waiting ones are cancelled, dead ones redriven.
//!
//! Each starts a background task and answers at once. `core::background` chooses the messages and deliveries.

use std::time::Duration;

use axum::Json;
use everhook_core::background::replay::{AttemptedFilter, AttemptedStatus, Pick, Replay};
use everhook_core::background::selection::BulkSelection;
use everhook_core::background::{Bulk, BulkAction, Effect};
use everhook_core::limits::ENDPOINT_EVENT_TYPES_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::background_task::{StartedTaskOut, start};
use crate::input::{self, Input};
use crate::limits::{RECOVER_WINDOW_MAX, REPLAY_RATE_MAX};
use crate::routes::{Routes, StatusAnswer, routes_of};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath};

/// The window of a recovery.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecoverIn {
    /// Failures since this time, at most 14 days before `until`.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Failures before this time; now if it is not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Only count the messages, in the background task `bulk.dry-run`. Its result has `messagesMatched`.
    dry_run: Option<bool>,
    /// Messages to send per second, so that new messages for the endpoint are not held up. Default: as many as other
    /// work allows.
    #[schema(minimum = 1, maximum = 10000)]
    rate_per_second: Option<u32>,
}

/// The window of a replay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayIn {
    /// Messages accepted since this time.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Messages accepted before this time; now if it is not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Only count the messages, in the background task `bulk.dry-run`. Its result has `messagesMatched`.
    dry_run: Option<bool>,
    /// Messages to send per second, so that new messages for the endpoint are not held up. Default: as many as other
    /// work allows.
    #[schema(minimum = 1, maximum = 10000)]
    rate_per_second: Option<u32>,
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
    /// Only messages whose last attempt has this status: 0 succeeded, 2 failed, 4 cancelled. Messages that are pending
    /// (1) or being sent (3) are never replayed.
    #[schema(minimum = 0, maximum = 4)]
    status: Option<u8>,
    /// Only messages whose last attempt got a status of this class: 0 (no response), 100, 200, 300, 400 or 500.
    #[schema(minimum = 0, maximum = 500, multiple_of = 100)]
    status_code_class: Option<u16>,
    /// Only count the messages, in the background task `bulk.dry-run`. Its result has `messagesMatched`.
    dry_run: Option<bool>,
    /// Messages to send per second, so that new messages for the endpoint are not held up. Default: as many as other
    /// work allows.
    #[schema(minimum = 1, maximum = 10000)]
    rate_per_second: Option<u32>,
}

/// The window and filters of a command for many deliveries. Messages must match all filters.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkSelectionIn {
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
    /// Only count the deliveries, in the background task `bulk.dry-run`. Its result has `messagesMatched`.
    dry_run: Option<bool>,
    /// Deliveries to change per second, so that other work is not held up. Default: as many as other work allows.
    #[schema(minimum = 1, maximum = 10000)]
    rate_per_second: Option<u32>,
}

/// The options of bulk work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) effect: Effect,
    pub(crate) rate: Option<u32>,
}

impl Options {
    pub(crate) fn new(dry_run: Option<bool>, rate: Option<u32>) -> Result<Options, Violation> {
        if rate.is_some_and(|rate| !(1..=REPLAY_RATE_MAX).contains(&rate)) {
            return Err(at("ratePerSecond").breaks(format!("must be from 1 to {REPLAY_RATE_MAX}")));
        }
        let effect = if dry_run == Some(true) { Effect::Count } else { Effect::Apply };
        Ok(Options { effect, rate })
    }
}

pub(crate) fn routes() -> Routes {
    routes_of![
        recover __path_recover, replay_missing __path_replay_missing, bulk_replay __path_bulk_replay,
        bulk_cancel __path_bulk_cancel, bulk_redrive __path_bulk_redrive,
    ]
}

/// Send messages again whose deliveries to the endpoint failed for good in a window, and never succeeded.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover", operation_id = "v1.endpoint.recover",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = RecoverIn,
    responses((status = 202, body = StartedTaskOut))
)]
async fn recover(at_endpoint: AtEndpoint, input: Input) -> StatusAnswer<StartedTaskOut> {
    let RecoverIn { since, until, dry_run, rate_per_second } = input.json()?;
    let (since, until) = window(since, until, at_endpoint.api.now())?;
    let options = Options::new(dry_run, rate_per_second)?;
    // A request that says "14 days ago" arrives a little later.
    const LEEWAY: Duration = Duration::from_secs(300);
    if until.since(since) > RECOVER_WINDOW_MAX + LEEWAY {
        let days = RECOVER_WINDOW_MAX.as_secs() / 86_400;
        return Err(at("since").breaks(format!("must be at most {days} days before until")).into());
    }
    replay(&at_endpoint, (since, until), Pick::Failed, options, &input).await
}

/// Send messages that have no delivery to the endpoint and pass its filters: it is newer, was disabled, or had other
/// filters when they were accepted.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing",
    operation_id = "v1.endpoint.replay-missing", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    request_body = ReplayIn, responses((status = 202, body = StartedTaskOut))
)]
async fn replay_missing(at_endpoint: AtEndpoint, input: Input) -> StatusAnswer<StartedTaskOut> {
    let ReplayIn { since, until, dry_run, rate_per_second } = input.json()?;
    let window = window(since, until, at_endpoint.api.now())?;
    replay(&at_endpoint, window, Pick::Missing, Options::new(dry_run, rate_per_second)?, &input).await
}

/// Send messages again that were attempted at the endpoint, successful ones too.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-replay",
    operation_id = "v1.endpoint.bulk-replay", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    request_body = BulkReplayIn, responses((status = 202, body = StartedTaskOut))
)]
async fn bulk_replay(at_endpoint: AtEndpoint, input: Input) -> StatusAnswer<StartedTaskOut> {
    let wanted: BulkReplayIn = input.json()?;
    let window = window(wanted.since, wanted.until, at_endpoint.api.now())?;
    let options = Options::new(wanted.dry_run, wanted.rate_per_second)?;
    replay(&at_endpoint, window, Pick::Attempted(wanted.filter()?), options, &input).await
}

/// Cancel the deliveries to the endpoint that wait or are being sent, of messages that were accepted in a window. A
/// delivery that is being sent is not tried again.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-cancel",
    operation_id = "v1.endpoint.bulk-cancel", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    request_body = BulkSelectionIn, responses((status = 202, body = StartedTaskOut))
)]
async fn bulk_cancel(at_endpoint: AtEndpoint, input: Input) -> StatusAnswer<StartedTaskOut> {
    steer(&at_endpoint, BulkAction::Cancel, &input).await
}

/// Make the dead deliveries to the endpoint pending again, of messages that were accepted in a window. Each is due now,
/// with a fresh set of attempts. A delivery without payload, or beside a resend that is open, stays dead.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-redrive",
    operation_id = "v1.endpoint.bulk-redrive", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    request_body = BulkSelectionIn, responses((status = 202, body = StartedTaskOut))
)]
async fn bulk_redrive(at_endpoint: AtEndpoint, input: Input) -> StatusAnswer<StartedTaskOut> {
    steer(&at_endpoint, BulkAction::Redrive, &input).await
}

impl AtEndpoint {
    async fn start(&self, bulk: Bulk, input: &Input) -> StatusAnswer<StartedTaskOut> {
        let started = start(&self.api, self.scope.scope(), bulk.into(), input.key.as_ref()).await?;
        Ok((StatusCode::ACCEPTED, Json(started)))
    }
}

/// Starts a command for selected deliveries to an endpoint.
async fn steer(
    at_endpoint: &AtEndpoint,
    action: fn(BulkSelection) -> BulkAction,
    input: &Input,
) -> StatusAnswer<StartedTaskOut> {
    let BulkSelectionIn { since, until, event_types, channel, tag, dry_run, rate_per_second } = input.json()?;
    let (since, until) = window(since, until, at_endpoint.api.now())?;
    let Options { effect, rate } = Options::new(dry_run, rate_per_second)?;
    let selection = BulkSelection {
        application: at_endpoint.scope.application,
        endpoint: at_endpoint.endpoint.id,
        since,
        until,
        event_types: input::names("eventTypes", event_types.unwrap_or_default(), ENDPOINT_EVENT_TYPES_MAX)?,
        channel: name("channel", channel)?,
        tag: name("tag", tag)?,
    };
    let bulk = Bulk { action: action(selection), effect, rate };
    at_endpoint.start(bulk, input).await
}

async fn replay(
    at_endpoint: &AtEndpoint,
    (since, until): (Timestamp, Timestamp),
    pick: Pick,
    Options { effect, rate }: Options,
    input: &Input,
) -> StatusAnswer<StartedTaskOut> {
    let (application, endpoint) = (at_endpoint.scope.application, at_endpoint.endpoint.id);
    let action = BulkAction::Replay(Replay { application, endpoint, since, until, pick });
    let bulk = Bulk { action, effect, rate };
    at_endpoint.start(bulk, input).await
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

fn name(field: &'static str, text: Option<String>) -> Result<Option<Name>, Violation> {
    at(field).check(text.map(Name::try_from).transpose())
}

impl BulkReplayIn {
    fn filter(self) -> Result<AttemptedFilter, Violation> {
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
