//! Enqueues jobs, one or many.

use bytes::Bytes;
use everhook_core::id::{EnvironmentId, JobId};
use everhook_core::job::{BadJob, Job, RunAt};
use everhook_core::limits::JOBS_BULK_MAX;
use everhook_core::name::BadName;
use everhook_core::time::Timestamp;
use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, NewJob};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::store::Store;

/// Concurrent transactions: one commits while the next is filled.
const WRITERS: usize = 2;

/// Enqueues jobs in one environment.
#[derive(Clone)]
pub struct Client {
    pub(crate) store: Store,
    environment: EnvironmentId,
}

/// Why a job was not enqueued. After [`EnqueueError::Store`] it may have been.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    /// The environment does not exist.
    #[error("environment {0:?} not found")]
    NoEnvironment(String),
    /// The queue or kind is not a valid name.
    #[error("invalid name {name:?}")]
    Name {
        /// The text that is not a name.
        name: String,
        /// The rule that the text breaks.
        #[source]
        source: BadName,
    },
    /// The payload cannot be serialised.
    #[error("the payload cannot be serialised as JSON")]
    Payload(#[from] serde_json::Error),
    /// A field of the job breaks a rule.
    #[error("invalid {}", .0.field())]
    Bad(#[source] BadJob),
    /// [`Client::enqueue_within`] requires a store on PostgreSQL.
    #[error("enqueue_within requires a store on PostgreSQL")]
    NotPostgres,
    /// The store failed: the job may or may not have been enqueued.
    #[error("the store could not enqueue the job")]
    Store(#[from] StoreError),
}

impl Client {
    /// Returns a client for the environment with this name.
    pub async fn new(store: &Store, environment: &str) -> Result<Client, EnqueueError> {
        let found = store.environment(environment).await?;
        let environment = found.ok_or_else(|| EnqueueError::NoEnvironment(environment.to_owned()))?;
        Ok(Client { store: store.clone(), environment })
    }

    /// Builds a job with a new id and default options, due now. Change the returned value to set others.
    pub fn job(&self, queue: &str, kind: &str, payload: &impl Serialize) -> Result<NewJob, EnqueueError> {
        let name = |text: &str| text.parse().map_err(|source| EnqueueError::Name { name: text.to_owned(), source });
        let payload = Bytes::from(serde_json::to_vec(payload)?);
        let id = JobId(self.store.ids.next(now()));
        let job = Job::new(id, name(queue)?, name(kind)?, payload);
        Ok(NewJob { environment: self.environment, job, run_at: RunAt::Now, key: None })
    }

    /// Enqueues one job. Returns when the job is durable.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, EnqueueError> {
        check(std::slice::from_ref(&job))?;
        let enqueued = self.store.inner.enqueue([job].into()).await?.pop();
        self.wake().await;
        Ok(enqueued.expect("one answer for each job"))
    }

    /// Enqueues many jobs in transactions of up to a thousand. Returns one result per job, in order, when all are
    /// durable. After an error some jobs may have been enqueued; unique keys make a repetition safe.
    pub async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, EnqueueError> {
        check(&jobs)?;
        let chunks = stream::iter(jobs.chunks(JOBS_BULK_MAX).map(|chunk| self.store.inner.enqueue(chunk.into())));
        let enqueued: Vec<Vec<Enqueued>> = chunks.buffered(WRITERS).try_collect().await?;
        self.wake().await;
        Ok(enqueued.into_iter().flatten().collect())
    }

    /// Enqueues jobs within your own transaction on the store's database. The jobs exist when you commit, and never
    /// existed if you roll back. Other producers of the same unique key wait for your commit. After an error the
    /// transaction can only be rolled back. Workers find the jobs at their next poll, or at once if you call
    /// [`Client::wake`] after the commit.
    #[cfg(feature = "postgres")]
    pub async fn enqueue_within(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, EnqueueError> {
        check(jobs)?;
        let store = self.store.postgres.as_ref().ok_or(EnqueueError::NotPostgres)?;
        Ok(store.enqueue_in(transaction, jobs).await?)
    }

    /// Wakes workers on other nodes. Without the call, they find the jobs at their next poll.
    pub async fn wake(&self) {
        if let Some(hints) = self.store.inner.hints() {
            let _ = hints.notify().await;
        }
    }
}

fn check(jobs: &[NewJob]) -> Result<(), EnqueueError> {
    let now = now();
    jobs.iter()
        .try_for_each(|new| new.job.check().and_then(|()| new.run_at.due_at(now).map(drop)))
        .map_err(EnqueueError::Bad)
}

/// The machine's clock, only for ids and bounds. Stored times come from the store's clock.
#[expect(clippy::disallowed_methods, reason = "a client has no session that returns the store's time")]
fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(everhook_core::time::micros(since))
}
