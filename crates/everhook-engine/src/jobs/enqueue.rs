//! Takes jobs to the store: requests that arrive while one transaction commits share the next, and those of one request stay together.

use std::sync::Arc;

use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::made::Made;
use everhook_store::store::{Op, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::accept::AcceptError;
use crate::group::{GroupQueue, QueuedRequest, WRITERS, Weigh};
use crate::metrics::Metrics;
use crate::wakeup::Wakeups;

impl Weigh for Vec<NewJob> {
    fn count(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        self.iter().filter_map(|new| new.job.payload.as_ref()).map(bytes::Bytes::len).sum()
    }
}

/// Takes jobs to the store in groups.
pub(crate) struct Enqueuer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) queue: GroupQueue<Vec<NewJob>, Vec<Enqueued>>,
}

impl Enqueuer {
    /// Writes jobs that belong together and waits for the commit.
    pub(crate) async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, AcceptError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.queue.submit(Op::Enqueue, jobs).await
    }

    /// Writes groups until `stop`, and then what waits already.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let writers: [_; WRITERS] = std::array::from_fn(|_| self.write_groups(stop));
        futures_util::future::join_all(writers).await;
    }

    async fn write_groups(&self, stop: &CancellationToken) {
        while let Some(group) = self.queue.next_group(stop).await {
            if !group.is_empty() {
                self.write(group).await;
            }
        }
    }

    async fn write(&self, group: Vec<QueuedRequest<Vec<NewJob>, Vec<Enqueued>>>) {
        let lengths: Vec<usize> = group.iter().map(|waiting| waiting.request.len()).collect();
        let (jobs, answers): (Vec<_>, Vec<_>) = group.into_iter().map(|w| (w.request, w.answer)).unzip();
        let jobs: Arc<[NewJob]> = jobs.into_iter().flatten().collect();
        match self.store(Arc::clone(&jobs)).await {
            Ok(enqueued) => {
                let mut enqueued = enqueued.into_iter();
                for (length, answer) in lengths.into_iter().zip(answers) {
                    // Nobody waiting is no reason to stop: the jobs are committed.
                    let _ = answer.send(Ok(enqueued.by_ref().take(length).collect()));
                }
            }
            Err(error) if answers.len() > 1 && matches!(error, StoreError::Refused { .. }) => {
                warn!(error = &error as &dyn std::error::Error, "store refused a group of jobs: enqueueing by request");
                let mut rest = &*jobs;
                for (length, answer) in lengths.into_iter().zip(answers) {
                    let (one, others) = rest.split_at(length);
                    rest = others;
                    let _ = answer.send(self.store(one.into()).await.map_err(AcceptError::Store));
                }
            }
            Err(error) => {
                for answer in answers {
                    let _ = answer.send(Err(AcceptError::Store(error.for_another())));
                }
            }
        }
    }

    async fn store(&self, jobs: Arc<[NewJob]>) -> Result<Vec<Enqueued>, StoreError> {
        let enqueued = self.store.enqueue(jobs).await.inspect_err(|error| {
            warn!(error = error as &dyn std::error::Error, "could not enqueue jobs");
        })?;
        let made = Made::jobs(&enqueued);
        if made.jobs > 0 {
            self.metrics.made(made);
            self.wakeups.hint_jobs();
        }
        Ok(enqueued)
    }
}
