//! Accepts messages, and starts their deliveries on the fast path.
//!
//! The caller gets its answer only after the commit has returned. Deliveries that the append inserted as leased start
//! right after the commit. If all slots are in use but some become free, the next group waits a moment for them, so
//! that accepting does not outrun delivering. Batches have a queue of their own: their messages are accepted together
//! or not at all, and a large batch delays no single message. Messages of applications with many endpoints also have
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everhook_core::limits::APPEND_BATCH_MAX;
use everhook_core::scope::AppScope;
use everhook_store::error::StoreError;
use everhook_store::lease::{Append, Appended, FastPath, NewMessage};
use everhook_store::made::Made;
use everhook_store::store::Op;
use tracing::warn;

use crate::intake::coalescer::{Coalescer, HANGS_AFTER, Intake, Weight};
use crate::node::Node;
use crate::run::delivery::Deliverer;
use crate::session::Session;

/// A message of an application with more endpoints is large: the messages of other applications do not wait for it.
const ENDPOINTS_SMALL_MAX: usize = 100;
/// The time after which a second transaction with large messages starts beside a slow one. Two of them would take the
/// store from the others.
const LARGE_HANGS_AFTER: Duration = Duration::from_millis(200);

pub(crate) struct Messages {
    is_large: bool,
    /// The number of tasks created by the last group, as an estimate for the next one.
    last_tasks: AtomicUsize,
    /// The rows that one message adds to its transaction. For large messages, an estimate from the last groups.
    rows: AtomicUsize,
}

impl Messages {
    pub(crate) fn small() -> Messages {
        Messages { is_large: false, last_tasks: AtomicUsize::new(0), rows: AtomicUsize::new(1) }
    }

    /// The first large message has a transaction of its own.
    pub(crate) fn large() -> Messages {
        Messages { is_large: true, rows: AtomicUsize::new(APPEND_BATCH_MAX), ..Messages::small() }
    }
}

impl Intake for Messages {
    type Request = NewMessage;
    type Group = Vec<NewMessage>;
    type Answer = Appended;
    const OP: Op = Op::Append;

    fn hangs_after(&self) -> Duration {
        if self.is_large { LARGE_HANGS_AFTER } else { HANGS_AFTER }
    }

    fn weight(&self, new: &NewMessage) -> Weight {
        let payload_bytes = new.message.payload.as_ref().map_or(0, bytes::Bytes::len);
        Weight { rows: self.rows.load(Ordering::Relaxed), payload_bytes }
    }

    fn moves_to<'n>(&self, node: &'n Node, new: &NewMessage) -> Option<&'n Coalescer<Messages>> {
        let scope = AppScope { environment: new.environment, application: new.message.application };
        let is_large = || node.store.endpoints_known(scope).is_some_and(|known| known > ENDPOINTS_SMALL_MAX);
        (!self.is_large && is_large()).then_some(&node.accepting_large)
    }

    fn join(messages: Vec<NewMessage>) -> Vec<NewMessage> {
        messages
    }

    fn split(messages: Vec<NewMessage>) -> Vec<Vec<NewMessage>> {
        messages.into_iter().map(|message| vec![message]).collect()
    }

    async fn write(&self, node: &Arc<Node>, messages: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError> {
        let appended = append(node, messages).await?;
        self.last_tasks.store(appended.tasks, Ordering::Relaxed);
        let accepted = appended.answers.iter().filter(|answer| answer.is_accepted()).count();
        if self.is_large && accepted > 0 {
            // It falls slowly, because the next messages may be those of a larger application again.
            let last = self.rows.load(Ordering::Relaxed);
            self.rows.store((appended.tasks / accepted).max(last / 2).max(1), Ordering::Relaxed);
        }
        Ok(appended.answers)
    }

    async fn make_room(&self, node: &Node) {
        if node.delivers {
            node.deliveries.wait_for(self.last_tasks.load(Ordering::Relaxed)).await;
        }
    }
}

/// Messages that one request wants in one transaction. A batch that the store refuses fails as a whole.
pub(crate) struct MessageBatches;

impl Intake for MessageBatches {
    type Request = Vec<NewMessage>;
    type Group = Vec<Vec<NewMessage>>;
    type Answer = Vec<Appended>;
    const OP: Op = Op::Append;

    fn weight(&self, batch: &Vec<NewMessage>) -> Weight {
        let payloads = batch.iter().filter_map(|new| new.message.payload.as_ref());
        Weight { rows: batch.len(), payload_bytes: payloads.map(bytes::Bytes::len).sum() }
    }

    fn join(batches: Vec<Vec<NewMessage>>) -> Vec<Vec<NewMessage>> {
        batches
    }

    fn split(batches: Vec<Vec<NewMessage>>) -> Vec<Vec<Vec<NewMessage>>> {
        batches.into_iter().map(|batch| vec![batch]).collect()
    }

    async fn write(&self, node: &Arc<Node>, batches: Vec<Vec<NewMessage>>) -> Result<Vec<Vec<Appended>>, StoreError> {
        let lengths: Vec<usize> = batches.iter().map(Vec::len).collect();
        let mut answers = append(node, batches.into_iter().flatten().collect()).await?.answers.into_iter();
        Ok(lengths.into_iter().map(|length| answers.by_ref().take(length).collect()).collect())
    }
}

struct Written {
    answers: Vec<Appended>,
    /// The number of deliveries of all messages.
    tasks: usize,
}

/// Appends messages in one transaction, and starts the deliveries that were inserted as leased.
async fn append(node: &Arc<Node>, messages: Vec<NewMessage>) -> Result<Written, StoreError> {
    // A node that does not deliver takes no leases; its deliveries are pending for other nodes.
    let session = node.sessions.current().filter(|_| node.delivers);
    let fast = session.as_ref().map(|session| FastPath { session: session.id, slots: node.deliveries.clone() });
    let (size, begun, asked) = (messages.len(), node.metrics.begin(), node.clock.elapsed());
    let environments: Vec<_> = messages.iter().map(|new| new.environment).collect();
    match node.store.append(Append { fast, messages }).await {
        Ok(appended) => {
            node.metrics.appended(size, begun);
            node.metrics.made(Made::messages(&appended));
            node.activity.changed(environments.iter().copied());
            let accepted = appended.iter().zip(environments).filter(|(answer, _)| answer.is_accepted());
            node.traffic.accepted(accepted.map(|(_, environment)| environment));
            let tasks = appended.iter().map(tasks).sum();
            Ok(Written { answers: begin(node, appended, (session.as_ref(), asked)), tasks })
        }
        Err(error) => {
            // The store may have committed deliveries that are leased to this session, and this node cannot start
            // them.
            if let (true, Some(session)) = (error.is_in_doubt(), &session) {
                node.sessions.retire(session);
            }
            warn!(error = &error as &dyn std::error::Error, "could not append messages");
            Err(error)
        }
    }
}

/// After the commit, starts the deliveries leased to this node and sends a hint for the others. Removes the leased
/// deliveries from the answers.
fn begin(
    node: &Arc<Node>,
    mut appended: Vec<Appended>,
    (session, asked): (Option<&Arc<Session>>, Duration),
) -> Vec<Appended> {
    let deliverer = Deliverer::new(node);
    let mut waits = false;
    for answer in &mut appended {
        let Appended::Accepted { leased, pending, .. } = answer else { continue };
        waits |= *pending > 0;
        for (leased, slot) in leased.drain(..) {
            let session = session.expect("nothing is leased without a session");
            deliverer.begin(leased, slot, (session, asked));
        }
    }
    if waits {
        node.wakeups.hint_deliveries();
    }
    appended
}

fn tasks(appended: &Appended) -> usize {
    match appended {
        Appended::Accepted { leased, pending, .. } => leased.len() + pending,
        _ => 0,
    }
}

impl Node {
    /// Appends messages in order as a group of their own; returns when they are durable. A message that the store
    /// refuses fails alone. The whole call fails if the store refuses all of them or a result is unknown.
    pub(crate) async fn accept_all(
        self: &Arc<Self>,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Result<Appended, StoreError>>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let mut answers = self.accepting.write(self, messages).await;
        let is_unknown = |answer: &Result<_, StoreError>| !matches!(answer, Ok(_) | Err(StoreError::Refused { .. }));
        let failed = match answers.iter().position(is_unknown) {
            Some(unknown) => Some(unknown),
            None if answers.iter().all(Result::is_err) => Some(0),
            None => None,
        };
        match failed.map(|at| answers.swap_remove(at)) {
            Some(Err(error)) => Err(error),
            _ => Ok(answers),
        }
    }
}
