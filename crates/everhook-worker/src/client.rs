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

/// Transactions under way at once: one commits while the next one is filled.
const WRITERS: usize = 2;

/// Enqueues jobs of one environment.
#[derive(Clone)]
pub struct Client {
    pub(crate) store: Store,
    environment: EnvironmentId,
}

/// Why a job was not enqueued, or perhaps not.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    /// There is no such environment.
    #[error("there is no environment {0:?}")]
    NoEnvironment(String),
    /// A queue or kind that cannot be.
    #[error("bad name {name:?}")]
    Name {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: BadName,
    },
    /// The payload is no JSON.
    #[error("the payload cannot be written as JSON")]
    Payload(#[from] serde_json::Error),
    /// A job does not keep the rules.
    #[error("bad {}", .0.field())]
    Bad(#[source] BadJob),
    /// Only a store on PostgreSQL has transactions to enqueue within.
    #[error("the store is not on PostgreSQL")]
    NotPostgres,
    /// The store could not tell.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl Client {
    /// For the environment of this name.
    pub async fn new(store: &Store, environment: &str) -> Result<Client, EnqueueError> {
        let found = store.environment(environment).await?;
        let environment = found.ok_or_else(|| EnqueueError::NoEnvironment(environment.to_owned()))?;
        Ok(Client { store: store.clone(), environment })
    }

    /// A job that says nothing but what is to be done, now; everything else can be set on what this returns. Its id is new.
    pub fn job(&self, queue: &str, kind: &str, payload: &impl Serialize) -> Result<NewJob, EnqueueError> {
        let name = |text: &str| text.parse().map_err(|source| EnqueueError::Name { name: text.to_owned(), source });
        let payload = Bytes::from(serde_json::to_vec(payload)?);
        let id = JobId(self.store.ids.next(now()));
        let job = Job::new(id, name(queue)?, name(kind)?, payload);
        Ok(NewJob { environment: self.environment, job, run_at: RunAt::Now, key: None })
    }

    /// Enqueues one job; returns when it is durable.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, EnqueueError> {
        check(std::slice::from_ref(&job))?;
        let enqueued = self.store.inner.enqueue([job].into()).await?.pop();
        self.wake().await;
        Ok(enqueued.expect("one answer for each job"))
    }

    /// Enqueues many jobs, in transactions of up to a thousand; an answer for each, in order, when all are durable. After an error some
    /// may have been enqueued: unique keys make it safe to repeat.
    pub async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, EnqueueError> {
        check(&jobs)?;
        let chunks = stream::iter(jobs.chunks(JOBS_BULK_MAX).map(|chunk| self.store.inner.enqueue(chunk.into())));
        let enqueued: Vec<Vec<Enqueued>> = chunks.buffered(WRITERS).try_collect().await?;
        self.wake().await;
        Ok(enqueued.into_iter().flatten().collect())
    }

    /// Enqueues within your own transaction, on the database of the store: the jobs are there when you commit, and never were if you roll
    /// back. Whoever enqueues the same unique key elsewhere waits for your commit. After an error you can only roll back. Workers find
    /// the jobs by looking, or when you call [`Client::wake`] after the commit.
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

    /// A hint to workers elsewhere; without, they find the jobs by looking.
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

/// The machine's time, for ids and for bounds. What is written is by the store's clock.
#[expect(clippy::disallowed_methods, reason = "a client has no session that would bring the store's time")]
fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(everhook_core::time::micros(since))
}
