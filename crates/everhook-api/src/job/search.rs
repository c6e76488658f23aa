//! The filters of job lists, and the redrive of dead jobs with the same filters.

use axum::Json;
use everhook_core::id::{BatchId, JobId};
use everhook_core::job::{JobAction, JobState, OperatorCommand};
use everhook_core::limits::{PAGE_MAX, SCAN_ROWS_MAX, SEARCH_CHARS_MAX};
use everhook_core::name::{self, Name};
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::catalog::{Order, Slice};
use everhook_store::job::JobFilter;
use everhook_store::query;
use everhook_store::steer::Steer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::input::Input;
use crate::job::response::Shown;
use crate::limits::JOB_REDRIVE_ROUNDS_MAX;
use crate::routes::StatusAnswer;
use crate::scope::InJobs;

/// The filters of a list. A job matches if it meets all conditions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct JobParams {
    /// Only jobs of this queue.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
    /// Only jobs in this state: `pending`, `leased`, `succeeded`, `dead` or `cancelled`.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    state: Option<Shown<JobState>>,
    /// Only jobs of this kind.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    kind: Option<Name>,
    /// Only jobs with this tag.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    tag: Option<Name>,
    /// Only jobs of this batch.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    batch: Option<BatchId>,
    /// Only jobs that were accepted before this time.
    #[serde(deserialize_with = "crate::query::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Timestamp>,
    /// Only jobs that were accepted at this time or later.
    #[serde(deserialize_with = "crate::query::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Timestamp>,
    /// Only jobs whose latest error contains this text, ignoring case.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    error: Option<String>,
}

impl JobParams {
    /// Returns whether the list starts at its old end: a request with only `after` wants the jobs next to that time.
    pub(crate) fn starts_after(&self) -> bool {
        self.after.is_some() && self.before.is_none()
    }

    pub(crate) fn filter(self, slice: Slice<JobId>) -> Result<JobFilter, Violation> {
        let error = self.error.filter(|text| !text.is_empty());
        if let Some(text) = &error {
            at("error").check(name::check_length(text, SEARCH_CHARS_MAX))?;
            at("error").check(name::check_text(text))?;
        }
        Ok(JobFilter {
            slice,
            queue: self.queue,
            state: self.state.map(|Shown(state)| state),
            kind: self.kind,
            tag: self.tag,
            batch: self.batch,
            before: self.before,
            after: self.after,
            error,
            scan: SCAN_ROWS_MAX,
        })
    }
}

/// The dead jobs to redrive: those that meet all conditions. Without conditions, all dead jobs.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedriveJobsIn {
    /// Only jobs of this queue.
    #[schema(value_type = Option<String>)]
    queue: Option<Name>,
    /// Only jobs of this kind.
    #[schema(value_type = Option<String>)]
    kind: Option<Name>,
    /// Only jobs with this tag.
    #[schema(value_type = Option<String>)]
    tag: Option<Name>,
    /// Only jobs of this batch.
    #[schema(value_type = Option<String>)]
    batch: Option<BatchId>,
    /// Only jobs that were accepted before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    before: Option<Timestamp>,
    /// Only jobs that were accepted at this time or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    after: Option<Timestamp>,
    /// Only jobs whose latest error contains this text, ignoring case.
    error: Option<String>,
}

/// The result of a redrive.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsRedrivenOut {
    redriven: usize,
    /// Whether all matching jobs were redriven. If false, repeat the request.
    done: bool,
}

/// Make dead jobs pending again, due now, with a fresh set of attempts.
#[utoipa::path(
    post, path = "/api/v1/job/redrive", operation_id = "v1.job.redrive", tag = "Job",
    request_body = Option<RedriveJobsIn>, responses((status = 202, body = JobsRedrivenOut))
)]
pub(crate) async fn redrive(InJobs { api, scope }: InJobs, input: Input) -> StatusAnswer<JobsRedrivenOut> {
    let wanted: RedriveJobsIn = input.json_or_default()?;
    let mut filter = wanted.filter(Slice { after: None, order: Order::Ascending, limit: PAGE_MAX })?;
    let mut out = JobsRedrivenOut { redriven: 0, done: false };
    for _ in 0..JOB_REDRIVE_ROUNDS_MAX {
        let piece = api.read(query::Jobs { scope, filter: filter.clone() }).await?;
        let ids = piece.rows.iter().map(|dead| dead.job.id).collect();
        let steer = Steer::Jobs { ids, command: OperatorCommand::Retry };
        let steered = api.node.steer(scope, steer).await?;
        out.redriven += steered.plans.iter().filter(|plan| matches!(plan, Some(JobAction::Redrive))).count();
        // The scan only moves forward. A job that dies again at once is left to the next request.
        match piece.continues_after(PAGE_MAX, |dead| dead.job.id) {
            Some(last) => filter.slice.after = Some(last),
            None => {
                out.done = true;
                break;
            }
        }
    }
    Ok((StatusCode::ACCEPTED, Json(out)))
}

impl RedriveJobsIn {
    fn filter(self, slice: Slice<JobId>) -> Result<JobFilter, Violation> {
        let RedriveJobsIn { queue, kind, tag, batch, before, after, error } = self;
        let state = Some(Shown(JobState::Dead));
        JobParams { queue, state, kind, tag, batch, before, after, error }.filter(slice)
    }
}
