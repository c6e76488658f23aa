//! Results of jobs.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::job::report::KeptResult;
use everhook_store::lease::Settlement;
use everhook_store::{columns, statement};

columns! {
    /// Results, or the sizes of results that were too large.
    pub(crate) JobResults of JobResult<'a> {
        environment: EnvironmentId,
        job: Id,
        result: Option<&'a [u8]>,
        result_bytes: Option<u32>,
    }
}

statement! {
    pub(crate) PutJobResult<'a> = "put_job_result" { fresh: JobResults<'a> };
}

/// Returns the results of settlements. Each job has at most one, because a task is settled once.
pub(crate) fn results<'a>(settlements: impl Iterator<Item = &'a Settlement>) -> JobResults<'a> {
    let result = |settlement: &'a Settlement| {
        let (result, result_bytes) = match settlement.result.as_ref()? {
            KeptResult::Whole(whole) => (Some(&**whole), None),
            KeptResult::TooLarge { bytes } => (None, Some(u32::try_from(*bytes).unwrap_or(u32::MAX))),
        };
        Some(JobResult { environment: settlement.key.environment, job: settlement.key.subject, result, result_bytes })
    };
    settlements.filter_map(result).collect()
}
