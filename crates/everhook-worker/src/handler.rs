//! Typed handlers: JSON in, JSON out, and errors that decide what follows.

use std::marker::PhantomData;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::job::report::Report;
use everhook_engine::run::handler::{Context, Finish, Handler};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a handler did not finish a job. The `?` operator turns any error into a failure that is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// The attempt failed. It is retried by the job's policy while attempts are left.
    Failed {
        /// The error text of the attempt.
        error: String,
        /// Shortest delay before the retry.
        retry_after: Option<Duration>,
    },
    /// Postpones the job without using an attempt.
    Snooze(Duration),
    /// Cancels the job with this reason.
    Cancel(String),
}

impl JobError {
    /// Returns a failure with this text.
    pub fn failed(error: impl Into<String>) -> JobError {
        JobError::Failed { error: error.into(), retry_after: None }
    }

    /// Returns a failure with a minimum delay before the retry.
    pub fn retry_after(after: Duration, error: impl Into<String>) -> JobError {
        JobError::Failed { error: error.into(), retry_after: Some(after) }
    }

    /// Returns a cancellation with this reason.
    pub fn cancel(why: impl Into<String>) -> JobError {
        JobError::Cancel(why.into())
    }

    fn into_finish(self) -> Finish {
        match self {
            JobError::Failed { error, retry_after } => Finish::other(Report::Failed { retry_after }, error),
            JobError::Snooze(wait) => Finish::other(Report::Snoozed { wait }, ""),
            JobError::Cancel(why) => Finish::other(Report::Cancelled, why),
        }
    }
}

impl<E: std::error::Error> From<E> for JobError {
    /// Includes the whole chain of causes.
    fn from(error: E) -> JobError {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        JobError::failed(text)
    }
}

/// A function as a handler.
pub(crate) struct Typed<P, F> {
    run: F,
    payload: PhantomData<fn(P)>,
}

impl<P, F> Typed<P, F> {
    pub(crate) fn new(run: F) -> Typed<P, F> {
        Typed { run, payload: PhantomData }
    }
}

#[async_trait]
impl<P, F, R, T> Handler for Typed<P, F>
where
    P: DeserializeOwned + Send,
    F: Fn(P, Context) -> R + Send + Sync,
    R: Future<Output = Result<T, JobError>> + Send,
    T: Serialize + Send,
{
    async fn run(&self, context: Context) -> Finish {
        let payload = context.job().payload.clone().unwrap_or_default();
        let payload = match serde_json::from_slice(&payload) {
            Ok(payload) => payload,
            Err(error) => {
                return JobError::failed(format!("the payload does not match the handler's type: {error}"))
                    .into_finish();
            }
        };
        match (self.run)(payload, context).await {
            Err(error) => error.into_finish(),
            Ok(result) => match serde_json::to_vec(&result) {
                // A handler that returns `()` or `None` has no result.
                Ok(json) if json == b"null" => Finish::completed(None),
                Ok(json) => Finish::completed(Some(Bytes::from(json))),
                // The job has succeeded, even if its result cannot be stored.
                Err(error) => {
                    Finish { error: format!("the result cannot be serialised: {error}"), ..Finish::completed(None) }
                }
            },
        }
    }
}
