//! Accepts messages: group commit, and the fast path behind it.
//!
//! Requests that arrive while one transaction commits share the next. A message is answered only after the commit has
//! returned; tasks that were inserted already leased start then, at once. When the node's slots are
//! taken and come free, the next group waits for them a moment, so that accepting does not outrun delivering.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everhook_core::id::MessageId;
use everhook_core::message::Message;
use everhook_store::error::StoreError;
use everhook_store::lease::{Append, Appended, FastPath, NewMessage};
use everhook_store::made::Made;
use everhook_store::store::{Op, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::delivery::{Deliverer, Delivery};
use crate::dispatcher::NodeCapacity;
use crate::group::{self, GroupQueue, WRITERS, Weigh};
use crate::metrics::Metrics;
use crate::session::{Session, Sessions};
use crate::wakeup::Wakeups;

/// What became of a message.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// Committed, with every delivery it causes.
    New(Arc<Message>),
    /// The same request was accepted before, as this message.
    Repeated(MessageId),
    /// The idempotency key was used with another body.
    KeyReused,
    /// The event id was used before.
    EventIdTaken,
    /// There is no such application.
    NoApplication,
    /// The once-slot is this message's: nothing is sent.
    Suppressed(MessageId),
}

/// Why a message was not accepted, or perhaps not.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The store could not tell.
    #[error("the store failed")]
    Store(#[source] StoreError),
    /// Too much is waiting already.
    #[error("too many messages are waiting to be written")]
    Overloaded,
    /// The node is on its way out.
    #[error("the node is stopping")]
    Stopping,
}

type Waiting = group::QueuedRequest<NewMessage, Accepted>;

impl Weigh for NewMessage {
    fn count(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        self.message.payload.as_ref().map_or(0, bytes::Bytes::len)
    }
}

/// Takes messages to the store in groups.
pub(crate) struct Acceptor {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) deliverer: Arc<Deliverer>,
    pub(crate) capacity: Arc<NodeCapacity<Delivery>>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether what it accepts may start here.
    pub(crate) delivers: bool,
    pub(crate) queue: GroupQueue<NewMessage, Accepted>,
    /// How many tasks the last group of requests became: the best guess for the next one.
    pub(crate) last_tasks: AtomicUsize,
}

impl Acceptor {
    /// Appends one message and waits for the commit.
    pub(crate) async fn accept(&self, message: NewMessage) -> Result<Accepted, AcceptError> {
        self.queue.submit(Op::Append, message).await
    }

    /// Appends messages that belong together as a group of their own, in order; returns when they are durable. One that the
    /// store refuses harms only itself, unless it refuses all of them: then that is told for the whole.
    pub(crate) async fn accept_all(
        &self,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Result<Accepted, StoreError>>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let error = match self.append(messages.clone()).await {
            Ok((accepted, _)) => return Ok(accepted.into_iter().map(Ok).collect()),
            Err(error) if messages.len() > 1 && matches!(error, StoreError::Refused { .. }) => error,
            Err(error) => return Err(error),
        };
        let mut answers = Vec::with_capacity(messages.len());
        for message in messages {
            match self.append(vec![message]).await {
                Ok((mut accepted, _)) => answers.extend(accepted.pop().map(Ok)),
                Err(error @ StoreError::Refused { .. }) => answers.push(Err(error)),
                Err(error) => return Err(error),
            }
        }
        if answers.iter().all(Result::is_err) { Err(error) } else { Ok(answers) }
    }

    /// Writes groups until `stop`, and then what waits already; what it commits is begun before this returns.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let writers: [_; WRITERS] = std::array::from_fn(|_| self.write_groups(stop));
        futures_util::future::join_all(writers).await;
    }

    async fn write_groups(&self, stop: &CancellationToken) {
        while let Some(group) = self.queue.next_group(stop).await {
            if !group.is_empty() {
                self.write(group).await;
            }
            if self.delivers {
                // Requests that come meanwhile share the next transaction.
                self.capacity.wait_for(self.last_tasks.load(Ordering::Relaxed)).await;
            }
        }
    }

    async fn write(&self, group: Vec<Waiting>) {
        let (messages, answers): (Vec<_>, Vec<_>) = group.into_iter().map(|w| (w.request, w.answer)).unzip();
        let again = (messages.len() > 1).then(|| messages.clone());
        match (self.append(messages).await, again) {
            (Ok((appended, tasks)), _) => {
                self.last_tasks.store(tasks, Ordering::Relaxed);
                for (appended, answer) in appended.into_iter().zip(answers) {
                    // Nobody waiting is no reason to stop: the message is committed.
                    let _ = answer.send(Ok(appended));
                }
            }
            (Err(error), Some(messages)) if matches!(error, StoreError::Refused { .. }) => {
                warn!(error = &error as &dyn std::error::Error, "store refused a group of messages: appending singly");
                for (message, answer) in messages.into_iter().zip(answers) {
                    let one = self.append(vec![message]).await.map_err(AcceptError::Store);
                    let one = one.map(|(mut appended, _)| appended.pop().expect("one answer for each message"));
                    let _ = answer.send(one);
                }
            }
            (Err(error), _) => {
                for answer in answers {
                    let _ = answer.send(Err(AcceptError::Store(error.for_another())));
                }
            }
        }
    }

    /// Answers what became of each, and how many tasks they became.
    async fn append(&self, messages: Vec<NewMessage>) -> Result<(Vec<Accepted>, usize), StoreError> {
        // A node that does not deliver leaves everything to the others.
        let session = self.sessions.current().filter(|_| self.delivers);
        let fast = session.as_ref().map(|session| FastPath { session: session.id, slots: self.capacity.clone() });
        let (size, begun) = (messages.len(), self.metrics.begin());
        match self.store.append(Append { fast, messages }).await {
            Ok(appended) => {
                self.metrics.appended(size, begun);
                self.metrics.made(Made::messages(&appended));
                let tasks = appended.iter().map(tasks).sum();
                let accepted = appended.into_iter().map(|appended| self.begin(appended, session.as_ref())).collect();
                Ok((accepted, tasks))
            }
            Err(error) => {
                if let (true, Some(session)) = (error.is_in_doubt(), &session) {
                    self.sessions.retire(session);
                }
                warn!(error = &error as &dyn std::error::Error, "could not append messages");
                Err(error)
            }
        }
    }

    /// After the commit: starts what is ours, and tells of the rest.
    fn begin(&self, appended: Appended, session: Option<&Arc<Session>>) -> Accepted {
        match appended {
            Appended::Accepted { message, leased, pending } => {
                for (leased, slot) in leased {
                    let session = session.expect("nothing is leased without a session");
                    self.deliverer.begin(leased, slot, session);
                }
                if pending > 0 {
                    self.wakeups.hint_deliveries();
                }
                Accepted::New(message)
            }
            Appended::Repeated(id) => Accepted::Repeated(id),
            Appended::KeyReused => Accepted::KeyReused,
            Appended::EventIdTaken => Accepted::EventIdTaken,
            Appended::NoApplication => Accepted::NoApplication,
            Appended::Suppressed(winner) => Accepted::Suppressed(winner),
        }
    }
}

fn tasks(appended: &Appended) -> usize {
    match appended {
        Appended::Accepted { leased, pending, .. } => leased.len() + pending,
        _ => 0,
    }
}
