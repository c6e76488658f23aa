//! Statistics of an endpoint: its attempts in a period, by result.
//!
//! A request reads the newest attempts of the period, up to a bound, through the index of the endpoint's attempts.

use std::time::Duration;

use axum::Json;
use everhook_core::time::{Timestamp, micros};
use everhook_store::delivery::{EndpointCounts, Period};
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::limits::{STATS_CLOCK_SKEW, STATS_PERIOD_MAX};
use crate::query::Query;
use crate::routes::{Answer, Routes};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath};

const HOUR: Duration = Duration::from_secs(3600);

/// The attempts to an endpoint in a period, and its open deliveries.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointStats {
    /// Attempts that succeeded.
    success: usize,
    /// Deliveries that wait for an attempt now. 0 if the period has ended.
    pending: usize,
    /// Deliveries that are being sent now. 0 if the period has ended.
    sending: usize,
    /// Attempts that failed.
    fail: usize,
    /// Deliveries that were cancelled.
    canceled: usize,
    /// Whether the counts are too low: only the newest 100,000 attempts are counted.
    capped: bool,
}

/// The attempts to an endpoint in a period of whole hours.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointAttemptStats {
    /// Attempts that succeeded.
    success: usize,
    /// Attempts that failed.
    fail: usize,
    /// Deliveries that were cancelled.
    canceled: usize,
    /// Whether the counts are too low: only the newest 100,000 attempts are counted.
    capped: bool,
}

/// The period of statistics.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PeriodParams {
    /// The start; the default is 28 days before the end. The period is at most 28 days long.
    #[serde(deserialize_with = "crate::query::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// The end; the default is now. It must not be in the future.
    #[serde(deserialize_with = "crate::query::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(stats, __path_stats).add(attempt_stats, __path_attempt_stats)
}

/// Count the attempts to an endpoint in a period by result, and its open deliveries.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/stats", operation_id = "v1.endpoint.get-stats",
    tag = "Endpoint", params(ApplicationPath, EndpointPath, PeriodParams),
    responses((status = 200, body = EndpointStats))
)]
async fn stats(to: AtEndpoint, Query(params): Query<PeriodParams>) -> Answer<EndpointStats> {
    let now = to.api.now();
    let period = params.period(now)?;
    let counts = count(&to, period).await?;
    let EndpointCounts { succeeded: success, failed: fail, cancelled: canceled, is_capped: capped, .. } = counts;
    let is_over = period.until.plus(STATS_CLOCK_SKEW) < now;
    let (pending, sending) = if is_over { (0, 0) } else { (counts.pending, counts.sending) };
    Ok(Json(EndpointStats { success, pending, sending, fail, canceled, capped }))
}

/// Count the attempts to an endpoint by result, in a period that is extended to whole hours.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/attempt-stats",
    operation_id = "v1.endpoint.get-attempt-stats", tag = "Endpoint",
    params(ApplicationPath, EndpointPath, PeriodParams), responses((status = 200, body = EndpointAttemptStats))
)]
async fn attempt_stats(to: AtEndpoint, Query(params): Query<PeriodParams>) -> Answer<EndpointAttemptStats> {
    let counts = count(&to, whole_hours(params.period(to.api.now())?)).await?;
    let EndpointCounts { succeeded: success, failed: fail, cancelled: canceled, is_capped: capped, .. } = counts;
    Ok(Json(EndpointAttemptStats { success, fail, canceled, capped }))
}

async fn count(to: &AtEndpoint, period: Period) -> Result<EndpointCounts, ApiError> {
    let (scope, endpoint) = (to.scope.scope(), to.endpoint.id);
    Ok(to.api.read(query::CountEndpoint { scope, endpoint, period }).await?)
}

/// Extends a period to whole hours.
fn whole_hours(period: Period) -> Period {
    let hour = micros(HOUR);
    let (since, until) = (period.since.as_micros(), period.until.as_micros());
    let until = until.saturating_add(hour - 1);
    let start = |at: i64| Timestamp::from_micros(at - at.rem_euclid(hour));
    Period { since: start(since), until: start(until) }
}

impl PeriodParams {
    fn period(&self, now: Timestamp) -> Result<Period, ApiError> {
        let until = self.until.unwrap_or(now);
        let since = self.since.unwrap_or_else(|| until.minus(STATS_PERIOD_MAX));
        let invalid = |detail: &'static str| Err(ApiError::bad_request("invalid_range", detail));
        // Clocks of clients differ from the clock of the server.
        if until > now.plus(STATS_CLOCK_SKEW) {
            return invalid("until must not be in the future.");
        }
        if since > until {
            return invalid("since must be before until.");
        }
        if until.since(since) > STATS_PERIOD_MAX + STATS_CLOCK_SKEW {
            return invalid("The period must be at most 28 days long: send a later since.");
        }
        Ok(Period { since, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_extended_to_whole_hours() {
        let at = |minutes: i64| Timestamp::from_millis(minutes * 60_000);
        let check = |from, to, want: (i64, i64)| {
            let period = whole_hours(Period { since: at(from), until: at(to) });
            assert_eq!(period, Period { since: at(want.0), until: at(want.1) });
        };
        check(61, 119, (60, 120));
        check(60, 120, (60, 120));
        check(59, 121, (0, 180));
    }

    #[test]
    fn a_period_is_bounded_and_not_in_the_future() {
        let (day, now) = (Duration::from_secs(86_400), Timestamp::from_millis(1_750_000_000_000));
        let is_valid = |since, until| PeriodParams { since, until }.period(now).is_ok();
        assert!(is_valid(None, None));
        assert!(is_valid(Some(now.minus(28 * day)), None));
        assert!(is_valid(None, Some(now.minus(60 * day))));
        assert!(!is_valid(Some(now.minus(29 * day)), None));
        assert!(!is_valid(None, Some(now.plus(day))));
        assert!(!is_valid(Some(now), Some(now.minus(day))));
    }
}
