//! Requests that wait for a transaction, and are written in groups.
//!
//! Those that arrive while one transaction commits share the next. When the queue is full callers wait, so that memory does not
//! grow; when the store is gone they are told within seconds. Used by `accept` for messages and by `jobs::enqueue` for jobs.

use std::time::Duration;

use everhook_core::limits::{APPEND_BATCH_BYTES_MAX, APPEND_BATCH_MAX, APPEND_QUEUE_MAX};
use everhook_store::error::StoreError;
use everhook_store::store::Op;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::accept::AcceptError;

/// Transactions under way at once: one commits while the next one is filled.
pub(crate) const WRITERS: usize = 2;
/// How long a caller waits for its place in the queue.
const QUEUE_DEADLINE: Duration = Duration::from_secs(5);
/// How long a caller waits for its commit. The commit itself has no deadline: it is left to finish.
const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

/// What a request adds to its transaction.
pub(crate) trait Weigh {
    /// How many rows there will be.
    fn count(&self) -> usize;
    /// How long its payloads are.
    fn bytes(&self) -> usize;
}

/// Who waits for what became of a request.
pub(crate) type Answer<A> = oneshot::Sender<Result<A, AcceptError>>;

/// A request that waits.
pub(crate) struct QueuedRequest<T, A> {
    pub(crate) request: T,
    pub(crate) answer: Answer<A>,
}

/// Requests that wait for a transaction.
pub(crate) struct GroupQueue<T, A> {
    sender: mpsc::Sender<QueuedRequest<T, A>>,
    waiting: Mutex<mpsc::Receiver<QueuedRequest<T, A>>>,
}

impl<T, A> Default for GroupQueue<T, A> {
    fn default() -> GroupQueue<T, A> {
        let (sender, waiting) = mpsc::channel(APPEND_QUEUE_MAX);
        GroupQueue { sender, waiting: Mutex::new(waiting) }
    }
}

impl<T: Weigh, A> GroupQueue<T, A> {
    /// Puts a request into the queue and waits for its commit.
    pub(crate) async fn submit(&self, op: Op, request: T) -> Result<A, AcceptError> {
        let (answer, answered) = oneshot::channel();
        let queued = tokio::time::timeout(QUEUE_DEADLINE, self.sender.send(QueuedRequest { request, answer })).await;
        queued.map_err(|_| AcceptError::Overloaded)?.map_err(|_| AcceptError::Stopping)?;
        match tokio::time::timeout(COMMIT_DEADLINE, answered).await {
            Ok(answered) => answered.map_err(|_| AcceptError::Stopping)?,
            Err(late) => Err(AcceptError::Store(StoreError::InDoubt { op, source: late.into() })),
        }
    }

    /// Everything that waits, up to the bounds of one transaction; none when the end is reached.
    pub(crate) async fn next_group(&self, stop: &CancellationToken) -> Option<Vec<QueuedRequest<T, A>>> {
        // One writer waits for work at a time, so that it gets all of what has come, not a share.
        let mut waiting = self.waiting.lock().await;
        let first = match stop.run_until_cancelled(waiting.recv()).await {
            Some(first) => first?,
            None => {
                // Whoever comes from now on is told at once; what has come is still written.
                waiting.close();
                waiting.recv().await?
            }
        };
        let (mut count, mut bytes) = (first.request.count(), first.request.bytes());
        let mut group = vec![first];
        while count < APPEND_BATCH_MAX && bytes < APPEND_BATCH_BYTES_MAX {
            let Ok(next) = waiting.try_recv() else { break };
            count += next.request.count();
            bytes += next.request.bytes();
            group.push(next);
        }
        // Whoever stopped waiting before it was begun is not written: it was told so.
        group.retain(|waiting| !waiting.answer.is_closed());
        Some(group)
    }
}
