//! Retries of database connections while the server starts.
//!
//! The database may be failing over, or starting at the same time. Only such temporary failures are retried. A wrong
//! password, a missing database or a schema of a newer version needs an operator, so the start fails at once.

use std::time::Duration;

use everhook_postgres::PostgresOpenError;
use everhook_store::error::StoreError;
use tokio::time::Instant;
use tracing::warn;

const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The deadline of a start, across all of its steps.
pub(crate) struct StartupRetry {
    until: Instant,
}

impl StartupRetry {
    #[expect(clippy::disallowed_methods, reason = "a start has its own deadline, before any other clock exists")]
    pub(crate) fn begin(wait: Duration) -> StartupRetry {
        StartupRetry { until: Instant::now() + wait }
    }

    /// Repeats `attempt` until it succeeds, fails permanently, or the deadline passes.
    pub(crate) async fn run<T, F>(&self, mut attempt: impl FnMut() -> F) -> anyhow::Result<T>
    where
        F: Future<Output = anyhow::Result<T>>,
    {
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let left = self.left();
            if left.is_zero() || !may_pass(&error) {
                return Err(error);
            }
            let seconds = left.as_secs();
            warn!(wait_seconds = seconds, "waiting for the database, at most {seconds} s: {error:#}");
            tokio::time::sleep(pause.min(left)).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a start has its own deadline, before any other clock exists")]
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

fn may_pass(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let open = cause.downcast_ref::<PostgresOpenError>().is_some_and(PostgresOpenError::may_pass);
        open || matches!(cause.downcast_ref(), Some(StoreError::Unavailable { .. } | StoreError::InDoubt { .. }))
    })
}
