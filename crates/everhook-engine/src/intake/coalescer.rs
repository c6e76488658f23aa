//! Group commit: requests that arrive while one transaction commits share the next.
//!
//! A coalescer owns the queue, its deadlines, the grouping, the answers, and the fallback for a group that the store
//! refuses. When the queue is full callers wait, so that memory does not grow; when the store is gone they are told
//! within seconds. An [`Intake`] says what a group is and how it is written: `accept` for messages, `enqueue` for jobs.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::limits::{APPEND_BATCH_BYTES_MAX, APPEND_BATCH_MAX, APPEND_QUEUE_MAX};
use everhook_store::error::StoreError;
use everhook_store::store::Op;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::intake::AcceptError;
use crate::node::Node;

/// Transactions under way at once: one commits while the next one is filled.
const WRITERS: usize = 2;
/// How long a caller waits for its place in the queue.
const QUEUE_DEADLINE: Duration = Duration::from_secs(5);
/// How long a caller waits for its commit. The commit itself has no deadline: it is left to finish.
const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

/// Requests of one kind, and the way to write them.
pub(crate) trait Intake: Send + Sync + 'static {
    type Request: Send;
    /// The requests of one transaction.
    type Group: Clone + Send;
    type Answer: Send;
    /// The operation that writes them.
    const OP: Op;

    /// The size that a request adds to its transaction.
    fn weight(request: &Self::Request) -> Weight;

    fn join(requests: Vec<Self::Request>) -> Self::Group;

    /// One group for each request.
    fn split(group: Self::Group) -> Vec<Self::Group>;

    /// Writes a group in one transaction; one answer for each request, in order.
    fn write(
        &self,
        node: &Arc<Node>,
        group: Self::Group,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;

    /// Waits until it makes sense to take the next group. Requests that come meanwhile share it.
    fn make_room(&self, _: &Node) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The size of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    pub(crate) rows: usize,
    pub(crate) payload_bytes: usize,
}

/// Takes requests to the store in groups.
pub(crate) struct Coalescer<W: Intake> {
    intake: W,
    sender: mpsc::Sender<Waiting<W>>,
    waiting: Mutex<mpsc::Receiver<Waiting<W>>>,
}

/// A request, and who waits for its answer.
struct Waiting<W: Intake> {
    request: W::Request,
    answer: oneshot::Sender<Result<W::Answer, AcceptError>>,
}

impl<W: Intake> Coalescer<W> {
    pub(crate) fn new(intake: W) -> Coalescer<W> {
        let (sender, waiting) = mpsc::channel(APPEND_QUEUE_MAX);
        Coalescer { intake, sender, waiting: Mutex::new(waiting) }
    }

    /// Puts a request into the queue and waits for its commit.
    pub(crate) async fn submit(&self, request: W::Request) -> Result<W::Answer, AcceptError> {
        let (answer, answered) = oneshot::channel();
        let queued = tokio::time::timeout(QUEUE_DEADLINE, self.sender.send(Waiting { request, answer })).await;
        queued.map_err(|_| AcceptError::Overloaded)?.map_err(|_| AcceptError::Stopping)?;
        match tokio::time::timeout(COMMIT_DEADLINE, answered).await {
            Ok(answered) => answered.map_err(|_| AcceptError::Stopping)?,
            Err(late) => Err(AcceptError::Store(StoreError::InDoubt { op: W::OP, source: late.into() })),
        }
    }

    /// Writes groups until the node stops, and then the requests that wait already.
    pub(crate) async fn run(&self, node: &Arc<Node>) {
        let writers: [_; WRITERS] = std::array::from_fn(|_| self.write_groups(node));
        futures_util::future::join_all(writers).await;
    }

    async fn write_groups(&self, node: &Arc<Node>) {
        while let Some(group) = self.next_group(&node.stop).await {
            if !group.is_empty() {
                let (requests, answers): (Vec<_>, Vec<_>) = group.into_iter().map(|it| (it.request, it.answer)).unzip();
                for (written, answer) in self.write(node, requests).await.into_iter().zip(answers) {
                    // A caller that no longer waits changes nothing: its request is committed.
                    let _ = answer.send(written.map_err(AcceptError::Store));
                }
            }
            self.intake.make_room(node).await;
        }
    }

    /// Writes requests in one transaction; one answer for each, in order. If the store refuses the group, each request
    /// is written by itself, so that a bad one harms only itself. After any other error nothing more is written: no
    /// request is accepted before an earlier one.
    pub(crate) async fn write(
        &self,
        node: &Arc<Node>,
        requests: Vec<W::Request>,
    ) -> Vec<Result<W::Answer, StoreError>> {
        let count = requests.len();
        let group = W::join(requests);
        let again = (count > 1).then(|| group.clone());
        match (self.intake.write(node, group).await, again) {
            (Ok(answers), _) => answers.into_iter().map(Ok).collect(),
            (Err(error @ StoreError::Refused { .. }), Some(group)) => {
                warn!(error = &error as &dyn std::error::Error, "store refused {count} requests: writing them singly");
                self.write_singly(node, W::split(group)).await
            }
            (Err(error), _) => (0..count).map(|_| Err(error.for_another())).collect(),
        }
    }

    async fn write_singly(&self, node: &Arc<Node>, groups: Vec<W::Group>) -> Vec<Result<W::Answer, StoreError>> {
        let count = groups.len();
        let mut answers = Vec::with_capacity(count);
        for group in groups {
            match self.intake.write(node, group).await {
                Ok(written) => answers.extend(written.into_iter().map(Ok)),
                Err(refused @ StoreError::Refused { .. }) => answers.push(Err(refused)),
                Err(error) => {
                    answers.resize_with(count, || Err(error.for_another()));
                    break;
                }
            }
        }
        answers
    }

    /// Everything that waits, up to the bounds of one transaction; none when the end is reached.
    async fn next_group(&self, stop: &CancellationToken) -> Option<Vec<Waiting<W>>> {
        // One writer waits for work at a time, so that it gets all requests that have come, not a share.
        let mut waiting = self.waiting.lock().await;
        let first = match stop.run_until_cancelled(waiting.recv()).await {
            Some(first) => first?,
            None => {
                // Requests that come from now on are refused at once; those that have come are still written.
                waiting.close();
                waiting.recv().await?
            }
        };
        let Weight { mut rows, mut payload_bytes } = W::weight(&first.request);
        let mut group = vec![first];
        while rows < APPEND_BATCH_MAX && payload_bytes < APPEND_BATCH_BYTES_MAX {
            let Ok(next) = waiting.try_recv() else { break };
            let weight = W::weight(&next.request);
            rows += weight.rows;
            payload_bytes += weight.payload_bytes;
            group.push(next);
        }
        // A caller that stopped waiting before its request was begun was told so: the request is not written.
        group.retain(|waiting| !waiting.answer.is_closed());
        Some(group)
    }
}
