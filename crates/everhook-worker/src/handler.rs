//! Typed handlers: JSON in, JSON out, errors that say what is to happen next.

use std::marker::PhantomData;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::job::report::Report;
use everhook_engine::jobs::handler::{Context, Finish, Handler};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a job was not done. Every error becomes a failure that is tried again, with `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// It failed: it is tried again when its policy says so, for as long as there are attempts.
    Failed {
        /// What went wrong.
        error: String,
        /// How long to wait at least.
        retry_after: Option<Duration>,
    },
    /// Nothing went wrong, but it is too early: it is called again later, which uses no attempt.
    Snooze(Duration),
    /// It is not to be done any more, because of this.
    Cancel(String),
}

impl JobError {
    /// It failed.
    pub fn failed(error: impl Into<String>) -> JobError {
        JobError::Failed { error: error.into(), retry_after: None }
    }

    /// It failed, and is not to be tried before this has passed.
    pub fn retry_after(after: Duration, error: impl Into<String>) -> JobError {
        JobError::Failed { error: error.into(), retry_after: Some(after) }
    }

    /// It is not to be done any more.
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
    /// With everything that lies behind it.
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
                return JobError::failed(format!("the payload is not what the handler takes: {error}")).into_finish();
            }
        };
        match (self.run)(payload, context).await {
            Err(error) => error.into_finish(),
            Ok(result) => match serde_json::to_vec(&result) {
                // Nothing is no result.
                Ok(json) if json == b"null" => Finish::completed(None),
                Ok(json) => Finish::completed(Some(Bytes::from(json))),
                // The work is done all the same.
                Err(error) => Finish { error: format!("the result is no JSON: {error}"), ..Finish::completed(None) },
            },
        }
    }
}
