//! What jobs report besides their end: results, and how far they are.

use everhook_core::job::report::KeptResult;
use everhook_store::lease::Settlement;
use tokio_postgres::types::ToSql;

/// Results as columns.
#[derive(Default)]
pub(crate) struct Results<'a> {
    environments: Vec<i32>,
    jobs: Vec<&'a [u8]>,
    whole: Vec<Option<&'a [u8]>>,
    bytes: Vec<Option<i32>>,
}

impl<'a> Results<'a> {
    /// The results that come with settlements, at most one for a job: a task is settled once.
    pub(crate) fn new(settlements: impl Iterator<Item = &'a Settlement>) -> Results<'a> {
        let mut results = Results::default();
        for settlement in settlements {
            let Some(result) = &settlement.result else { continue };
            let (whole, bytes) = match result {
                KeptResult::Whole(whole) => (Some(&**whole), None),
                KeptResult::TooLarge { bytes } => (None, Some(i32::try_from(*bytes).unwrap_or(i32::MAX))),
            };
            results.environments.push(settlement.key.environment.0);
            results.jobs.push(settlement.key.subject.as_bytes());
            results.whole.push(whole);
            results.bytes.push(bytes);
        }
        results
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.environments, &self.jobs, &self.whole, &self.bytes]
    }
}
