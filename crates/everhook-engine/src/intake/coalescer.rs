//! Group commit: requests that arrive while one transaction commits share the next one.
//!
//! A coalescer contains the queue with its deadlines, the grouping, the answers, and the fallback for a group that the
//! store refuses. When the queue is full, callers wait, so memory stays bounded. When the store does not respond,
//! callers get an error within seconds. An [`Intake`] defines a group and how to write it: `accept` for messages,
//! `enqueue` for jobs.
//!
//! A request whose transaction would delay the others moves on to a coalescer for such requests. It fails when the
//! queue of that one is full.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::limits::{APPEND_BATCH_BYTES_MAX, APPEND_BATCH_MAX, APPEND_QUEUE_MAX};
use everhook_store::error::StoreError;
use everhook_store::store::Op;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};
use tracing::warn;

use crate::intake::AcceptError;
use crate::node::Node;

/// Concurrent transactions. The second one is only used while the first hangs, for example because it waits for a key
/// of another node.
const WRITERS: usize = 2;
/// The usual time after which a second transaction starts beside a slow one. Until then requests collect, because fewer
/// and larger transactions are cheaper.
pub(super) const HANGS_AFTER: Duration = Duration::from_millis(8);
/// The longest wait of a caller for a place in the queue.
const QUEUE_DEADLINE: Duration = Duration::from_secs(5);
/// The longest wait of a caller for its commit. The commit itself has no deadline and continues.
const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

pub(crate) trait Intake: Send + Sync + 'static {
    type Request: Send;
    /// The requests of one transaction.
    type Group: Clone + Send;
    type Answer: Send;
    /// The store operation that writes a group.
    const OP: Op;

    /// The time after which a second transaction starts beside a slow one.
    fn hangs_after(&self) -> Duration {
        HANGS_AFTER
    }

    fn weight(&self, request: &Self::Request) -> Weight;

    /// Returns another coalescer if this request should not share a transaction of this one.
    fn moves_to<'n>(&self, _: &'n Node, _: &Self::Request) -> Option<&'n Coalescer<Self>>
    where
        Self: Sized,
    {
        None
    }

    fn join(requests: Vec<Self::Request>) -> Self::Group;

    /// Splits a group into one group per request.
    fn split(group: Self::Group) -> Vec<Self::Group>;

    /// Writes a group in one transaction. Returns one answer per request, in order.
    fn write(
        &self,
        node: &Arc<Node>,
        group: Self::Group,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;

    /// Waits until the next group should be taken. Requests that arrive meanwhile join that group.
    fn make_room(&self, _: &Node) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The size that a request adds to its transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    pub(crate) rows: usize,
    pub(crate) payload_bytes: usize,
}

pub(crate) struct Coalescer<W: Intake> {
    intake: W,
    sender: mpsc::Sender<Waiting<W>>,
    waiting: Mutex<mpsc::Receiver<Waiting<W>>>,
    /// Held by the writer whose transaction runs. The other one proceeds without it if that transaction hangs.
    turn: Mutex<()>,
}

/// The requests of one transaction, and the turn of their writer, unless another transaction hangs.
struct Group<'a, W: Intake> {
    requests: Vec<Waiting<W>>,
    turn: Option<MutexGuard<'a, ()>>,
}

/// A request with the channel for its answer.
struct Waiting<W: Intake> {
    request: W::Request,
    answer: oneshot::Sender<Result<W::Answer, AcceptError>>,
}

impl<W: Intake> Coalescer<W> {
    pub(crate) fn new(intake: W) -> Coalescer<W> {
        let (sender, waiting) = mpsc::channel(APPEND_QUEUE_MAX);
        Coalescer { intake, sender, waiting: Mutex::new(waiting), turn: Mutex::default() }
    }

    /// Queues a request and waits for its commit.
    #[expect(clippy::manual_async_fn, reason = "an async function keeps its argument twice in its future")]
    pub(crate) fn submit(&self, request: W::Request) -> impl Future<Output = Result<W::Answer, AcceptError>> + Send {
        async move {
            let (answer, answered) = oneshot::channel();
            match self.sender.try_send(Waiting { request, answer }) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => return Err(AcceptError::Stopping),
                Err(TrySendError::Full(waiting)) => {
                    let queued = tokio::time::timeout(QUEUE_DEADLINE, self.sender.send(waiting));
                    let queued = Box::pin(queued).await.map_err(|_| AcceptError::Overloaded)?;
                    queued.map_err(|_| AcceptError::Stopping)?;
                }
            }
            match tokio::time::timeout(COMMIT_DEADLINE, answered).await {
                Ok(answered) => answered.map_err(|_| AcceptError::Stopping)?,
                Err(late) => Err(AcceptError::Store(StoreError::InDoubt { op: W::OP, source: late.into() })),
            }
        }
    }

    /// Writes groups until the node stops, and then the requests that are already queued.
    pub(crate) async fn run(&self, node: &Arc<Node>) {
        let writers: [_; WRITERS] = std::array::from_fn(|_| self.write_groups(node));
        futures_util::future::join_all(writers).await;
    }

    async fn write_groups(&self, node: &Arc<Node>) {
        while let Some(Group { requests, turn }) = self.next_group(node).await {
            if requests.is_empty() {
                continue;
            }
            let (requests, answers): (Vec<_>, Vec<_>) = requests.into_iter().map(|it| (it.request, it.answer)).unzip();
            for (written, answer) in self.write(node, requests).await.into_iter().zip(answers) {
                // The caller may have stopped waiting. Its request is committed all the same.
                let _ = answer.send(written.map_err(AcceptError::Store));
            }
            drop(turn);
            self.intake.make_room(node).await;
        }
    }

    /// Writes requests in one transaction. Returns one answer per request, in order. If the store refuses the group,
    /// each request is written alone, so that a bad request fails alone. After any other error nothing more is written,
    /// so that no request is accepted before an earlier one.
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
                warn!(error = &error as &dyn std::error::Error, "store refused {count} requests: writing each alone");
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

    /// Returns all queued requests, up to the limits of one transaction; none after the last one.
    async fn next_group(&self, node: &Node) -> Option<Group<'_, W>> {
        // Only one writer receives at a time, so that it collects all queued requests instead of a part.
        let mut waiting = self.waiting.lock().await;
        let first = loop {
            let next = match node.stop.run_until_cancelled(waiting.recv()).await {
                Some(next) => next?,
                None => {
                    // From now on new requests fail at once. Requests that are already queued are still written.
                    waiting.close();
                    break waiting.recv().await?;
                }
            };
            if let Some(next) = self.own(node, next) {
                break next;
            }
        };
        let turn = tokio::time::timeout(self.intake.hangs_after(), self.turn.lock()).await.ok();
        let Weight { mut rows, mut payload_bytes } = self.intake.weight(&first.request);
        let mut requests = vec![first];
        while rows < APPEND_BATCH_MAX && payload_bytes < APPEND_BATCH_BYTES_MAX {
            let Ok(next) = waiting.try_recv() else { break };
            let Some(next) = self.own(node, next) else { continue };
            let weight = self.intake.weight(&next.request);
            rows += weight.rows;
            payload_bytes += weight.payload_bytes;
            requests.push(next);
        }
        // Callers may have stopped waiting while this writer waited for its turn.
        requests.retain(|waiting| !waiting.answer.is_closed());
        Some(Group { requests, turn })
    }

    /// Returns the request if this coalescer writes it. Moves it to another coalescer if it belongs there. Drops it if
    /// its caller stopped waiting: the caller has already got an error, so the request must not be written.
    fn own(&self, node: &Node, waiting: Waiting<W>) -> Option<Waiting<W>> {
        if waiting.answer.is_closed() {
            return None;
        }
        let Some(other) = self.intake.moves_to(node, &waiting.request) else { return Some(waiting) };
        match other.sender.try_send(waiting) {
            Ok(()) => None,
            Err(TrySendError::Full(waiting)) => {
                let _ = waiting.answer.send(Err(AcceptError::Overloaded));
                None
            }
            // The node stops, and the other coalescer has written its last group.
            Err(TrySendError::Closed(waiting)) => Some(waiting),
        }
    }
}
