//! Runs one delivery: sends the request, and reads the reply.
//!
//! The core classifies the reply and `settle` records it; this module makes no decision about the task. It sends
//! nothing under a session that was not renewed recently, and aborts when another node closes the session. The id of
//! the attempt is made before the request, which carries it in a header.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_chat::notice::ChatFacts;
use everhook_chat::reply::{Judgement, judge};
use everhook_core::delivery::{DeliveryCommand, ENDPOINT_DELETED};
use everhook_core::dispatch::health::Sign;
use everhook_core::dispatch::{Event, LeaseCommand, StartOrder, Ticket};
use everhook_core::endpoint::Endpoint;
use everhook_core::exchange::{Exchange, StoredExchange};
use everhook_core::id::AttemptId;
use everhook_core::message::Message;
use everhook_core::outcome::{Class, Outcome, Reply, SendFailure, classify, sign};
use everhook_core::policy::breaker::BreakerChange;
use everhook_core::policy::effective::AttemptPolicy;
use everhook_core::policy::limit::LimitEnd;
use everhook_core::policy::rate::PERMIT_LIFE;
use everhook_core::retry::RetryPolicy;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_sender::Request;
use everhook_store::capacity::{LeaseCapacity, Slot};
use everhook_store::lease::{LeaseAsk, Leased};
use futures_util::FutureExt;
use http::header::AUTHORIZATION;
use tracing::warn;

use crate::dispatcher::{NodeCapacity, Run, Source, WorkGrant};
use crate::node::Node;
use crate::run::direct::DirectTalk;
use crate::run::outbound::{self, Sent, header};
use crate::run::request::{Outgoing, RequestOf};
use crate::session::Session;
use crate::settle::{AttemptEnd, AttemptHolder, AttemptRecord, FinishedAttempt, SlotHold};

#[derive(Clone)]
pub(crate) struct Deliverer {
    node: Arc<Node>,
}

/// A delivery leased to this node.
pub(crate) struct Delivery {
    leased: Leased,
    session: Arc<Session>,
    /// The time on this node's clock at which the delivery was asked for.
    asked: Duration,
}

/// A request that was sent, or was about to be sent.
struct SentRequest {
    /// The id in the header of the request.
    id: AttemptId,
    /// The URL for people.
    url: String,
    note: Option<String>,
    started_at: Timestamp,
    duration: Duration,
    exchange: Exchange,
}

impl SentRequest {
    fn judged(self, Judgement { class, outcome, explanation }: Judgement) -> AttemptRecord {
        let status = if outcome == Outcome::Success { 200 } else { 0 };
        self.ended(outcome, class, status, explanation.into())
    }

    fn ended(self, outcome: Outcome, class: Class, status: u16, reply: Bytes) -> AttemptRecord {
        let SentRequest { id, url, note, started_at, duration, exchange } = self;
        let id = Some(id);
        let reply = noted(note, reply);
        let exchange = StoredExchange::of(&exchange);
        AttemptRecord { id, url, status, duration, exchange, ..AttemptRecord::new((class, outcome), reply, started_at) }
    }
}

#[async_trait]
impl Source for Deliverer {
    type Runner = Deliverer;

    fn runner(&self) -> &Deliverer {
        self
    }

    async fn lease(&self, session: &Arc<Session>, ask: LeaseCommand) -> WorkGrant<Delivery> {
        if self.node.egress.is_closed() {
            return WorkGrant::default();
        }
        let LeaseCommand { limit, free_by_lane, per_lane, mut full_groups, after } = ask;
        let pauses = self.node.deliveries.pauses();
        full_groups.extend(&pauses.groups);
        let ask = LeaseAsk {
            free_by_lane,
            per_lane,
            slots: Some(LeaseCapacity(self.node.deliveries.clone())),
            full_groups,
            paused: pauses.environments.iter().copied().collect(),
            after,
            ..LeaseAsk::deliveries(session.id, limit)
        };
        let (mut work, asked) = (WorkGrant::default(), self.node.clock.elapsed());
        match self.node.store.lease(ask).await {
            Ok(grant) => {
                // The machine counts these slots, and each runner releases its own.
                grant.slots.into_iter().for_each(Slot::keep);
                let ticket = |leased| ticket(leased, session, asked, StartOrder::AsLeased);
                work.tickets = grant.tasks.into_iter().map(ticket).collect();
                (work.next_ready, work.resume) = (grant.next_ready, grant.resume);
            }
            Err(error) => work.failed = Some(error),
        }
        work
    }
}

impl Run for Deliverer {
    type Task = Delivery;

    fn capacity(&self) -> &Arc<NodeCapacity<Delivery>> {
        &self.node.deliveries
    }

    fn start(&self, ticket: Ticket<Delivery>) {
        let (deliverer, slot) = (self.clone(), self.capacity().slot(ticket.lane));
        // Tokio moves a spawned task several times, and this one has some kilobytes: moving a pointer is cheaper.
        self.node.running.spawn(Box::pin(async move { deliverer.run(ticket, slot).await }));
    }

    fn hand_back(&self, tickets: Vec<Ticket<Delivery>>) {
        let deliverer = self.clone();
        self.node.running.spawn(async move {
            for Ticket { lane, task: Delivery { leased, session, .. }, .. } in tickets {
                let slot = deliverer.capacity().slot(lane);
                deliverer.settle(&leased, (None, None), session, slot, AttemptEnd::HandedBack).await;
            }
        });
    }
}

impl Deliverer {
    pub(crate) fn new(node: &Arc<Node>) -> Deliverer {
        Deliverer { node: Arc::clone(node) }
    }

    /// Queues a delivery that was leased by its own append, and starts it when a slot is free. `asked` is the time at
    /// which the append began: its permit counts from then.
    pub(crate) fn begin(&self, leased: Leased, slot: Slot, (session, asked): (&Arc<Session>, Duration)) {
        slot.keep();
        let ticket = ticket(leased, session, asked, StartOrder::Free);
        self.report([Event::Committed(ticket)], self.node.clock.elapsed());
    }

    async fn run(&self, ticket: Ticket<Delivery>, slot: Slot) {
        let Ticket { lane, order, task, .. } = ticket;
        let mut delivery = pin!(self.deliver(task, slot));
        if order == StartOrder::AsLeased {
            // Tokio runs the most recently spawned task first, which would reverse the order of the lane. The next
            // delivery of the lane is therefore spawned only after this one was polled once and its request is on its
            // way.
            let first = poll_fn(|cx| Poll::Ready(delivery.as_mut().poll(cx))).await;
            self.report([Event::Begun(lane)], self.node.clock.elapsed());
            if first.is_ready() {
                return;
            }
        }
        delivery.await;
    }

    /// Runs one leased delivery up to its settlement.
    async fn deliver(&self, delivery: Delivery, slot: Slot) {
        let Delivery { leased, session, asked } = delivery;
        let (task, started_at) = (leased.task, self.node.clock.now());
        // A panic must not leave the task leased for the rest of the session. It is settled like any other failure.
        let attempt = AssertUnwindSafe(self.attempt(&leased, &session, asked)).catch_unwind().await;
        let end = attempt.unwrap_or_else(|_| Some(AttemptEnd::Attempted(panicked(&leased, started_at))));
        let now = self.node.clock.elapsed();
        let breaker = end.as_ref().and_then(AttemptEnd::record);
        let breaker = breaker.and_then(|record| self.node.breakers.ended(&leased, record, now));
        let opens = breaker.is_some_and(|change| change.open_for.is_some());
        let asks_for_rest = opens || end.as_ref().is_some_and(wants_rest);
        let sign = end.as_ref().map_or(Sign::Neutral, sign_of);
        let (rest, command) = self.capacity().ended(task.lane, sign, asks_for_rest, now);
        self.carry_out(command, now);
        let Some(mut end) = end else {
            // Another node has taken over the task, so this attempt must not be recorded.
            warn!(task.id = %task.key.id, task.epoch = task.epoch, session.id = %session.id, "aborted {}", task.key.id);
            return;
        };
        if let AttemptEnd::Attempted(record) = &mut end {
            record.rest = rest;
            if let Some(endpoint) = leased.endpoint() {
                self.node.watch_endpoint(task.key.environment, endpoint, record.class, record.started_at);
            }
        }
        // The retry rule is the one in force now: it may have changed during the attempt.
        let retry = self.policy(&leased).map(|policy| policy.retry);
        self.settle(&leased, (retry, breaker), session, slot, end).await;
    }

    fn settle(
        &self,
        leased: &Leased,
        (retry, breaker): (Option<RetryPolicy>, Option<BreakerChange>),
        session: Arc<Session>,
        slot: Slot,
        end: AttemptEnd,
    ) -> impl Future<Output = ()> + Send + use<'_> {
        let limits = leased.endpoint().map(|endpoint| endpoint.limits().under(leased.breaker).end());
        let limits = LimitEnd { breaker, ..limits.unwrap_or_default() };
        let (task, by, slot) = (leased.task, AttemptHolder::Node(session), SlotHold::Slot { _slot: slot });
        self.node.settler.settle(FinishedAttempt { task, job: None, retry, limits, by, slot, end })
    }

    /// Returns the policy of a delivery as of now; none if the server's defaults apply.
    fn policy(&self, leased: &Leased) -> Option<AttemptPolicy> {
        let (endpoint, message) = leased.endpoint().zip(leased.message())?;
        let (environment, server) = (leased.task.key.environment, &self.node.config.retry);
        self.node.policies.of_attempt(environment, endpoint, &message.event_type, server)
    }

    async fn attempt(&self, leased: &Leased, session: &Session, asked: Duration) -> Option<AttemptEnd> {
        let started_at = self.node.clock.now();
        let target = leased.endpoint().zip(leased.message());
        let payload = |message: &Message| message.payload_at(started_at).cloned();
        let target = target.and_then(|(endpoint, message)| Some((endpoint, message, payload(message)?)));
        let Some((endpoint, message, body)) = target else {
            return Some(AttemptEnd::Attempted(cancelled(leased, started_at)));
        };
        // An endpoint may become polled while a delivery waits for it.
        if leased.task.cancel || endpoint.is_polled() {
            return Some(AttemptEnd::Attempted(cancelled(leased, started_at)));
        }
        // The delivery may have waited for a slot, and the session may have been lost or the drain interrupted since it
        // was leased.
        if self.node.interrupt.is_cancelled() || !self.node.sessions.may_send(session) {
            return if session.is_closed() { None } else { Some(AttemptEnd::HandedBack) };
        }
        // A permit of a rate limit is for now. Used later, it would meet the permits of other nodes.
        if self.node.clock.elapsed().saturating_sub(asked) > PERMIT_LIFE && endpoint.limits().rate.is_some() {
            return Some(AttemptEnd::HandedBack);
        }
        let id = AttemptId(self.node.new_id());
        let policy = self.policy(leased);
        let (number, span) = (leased.task.tries + 1, self.node.begin_span(message, id));
        let (begun, mut exchange) = (self.node.clock.elapsed(), Exchange::default());
        let direct = self.direct((endpoint, message), &body, (&leased.task, number), session).await;
        let (sent, note) = match direct {
            DirectTalk::Room(remark) => {
                let (ahead, policy, trace) = (self.node.store.ahead(), policy.as_ref(), span.header);
                let signed_at = started_at.minus(ahead);
                let of = RequestOf { endpoint, message, attempt: id, number, signed_at, policy, trace };
                match self.node.outgoing(&of, body) {
                    Ok(Outgoing { request, note }) => {
                        (exchange.number, exchange.ahead) =
                            (Some(number), Some(ahead).filter(|ahead| !ahead.is_zero()));
                        (self.send(request, session, &mut exchange).await, joined(remark, note))
                    }
                    Err(failure) => (Sent::Answered(Err(failure)), remark),
                }
            }
            DirectTalk::Ended(judgement) => {
                let duration = self.node.clock.elapsed().saturating_sub(begun);
                let request = SentRequest { id, url: endpoint.shown_url(), note: None, started_at, duration, exchange };
                let end = AttemptEnd::Attempted(request.judged(judgement));
                self.node.end_span(&span, message, endpoint.id, number, &end);
                return Some(end);
            }
            DirectTalk::Stopped(sent) => (sent, None),
        };
        let duration = self.node.clock.elapsed().saturating_sub(begun);
        let request = SentRequest { id, url: endpoint.shown_url(), note, started_at, duration, exchange };
        let end = match sent {
            Sent::SessionClosed => None,
            Sent::Paused => Some(AttemptEnd::HandedBack),
            Sent::Exhausted(failure) => {
                self.node.deliveries.pause(&failure.detail, self.node.clock.elapsed());
                Some(AttemptEnd::HandedBack)
            }
            Sent::Interrupted => Some(AttemptEnd::Attempted(interrupted(request))),
            Sent::Answered(answer) => {
                let record = self.record(leased, answer, request);
                if record.outcome == Outcome::Success && has_people(endpoint) {
                    self.node.direct.ended(&leased.task);
                }
                Some(AttemptEnd::Attempted(record))
            }
        };
        if let Some(end) = &end {
            self.node.end_span(&span, message, endpoint.id, number, end);
        }
        end
    }

    /// Writes to the people that the payload of a chat message names.
    async fn direct(
        &self,
        (endpoint, message): (&Endpoint, &Message),
        payload: &Bytes,
        attempt: (&Task, u32),
        session: &Session,
    ) -> DirectTalk {
        let Some(chat) = endpoint.chat.as_ref().filter(|_| has_people(endpoint)) else {
            return DirectTalk::Room(None);
        };
        let facts = ChatFacts { message, payload, public_url: self.node.config.public_url.as_deref() };
        Box::pin(self.node.direct.talk(&self.node, (chat, facts), attempt, session)).await
    }

    /// Authenticates and sends a request.
    async fn send(&self, mut request: Request, session: &Session, exchange: &mut Exchange) -> Sent {
        let (node, auth) = (&self.node, request.auth.clone());
        let client = auth.as_ref().and_then(|auth| auth.oauth.as_ref());
        if let Some(client) = client {
            match Box::pin(node.oauth.authorization(node, client, session)).await {
                Ok(authorization) => drop(request.headers.insert(AUTHORIZATION, authorization)),
                Err(sent) => return sent,
            }
        } else if let Some(basic) = auth.as_ref().and_then(|auth| auth.basic.as_ref()) {
            match header(basic.authorization()) {
                Ok(authorization) => drop(request.headers.insert(AUTHORIZATION, authorization)),
                Err(failure) => return Sent::Answered(Err(failure)),
            }
        }
        let sent = outbound::send(node, request, session, exchange).await;
        if let (Sent::Answered(Ok(Reply { status: 401, .. })), Some(client)) = (&sent, client) {
            node.oauth.forget(client);
        }
        sent
    }

    fn record(&self, leased: &Leased, answer: Result<Reply, SendFailure>, mut request: SentRequest) -> AttemptRecord {
        let policy = self.policy(leased);
        let keeps_reply = policy.as_ref().is_none_or(|policy| policy.keep_replies);
        let finals = policy.map(|policy| policy.final_statuses).unwrap_or_default();
        let now = self.node.clock.now();
        let chat = leased.endpoint().and_then(|endpoint| Some((endpoint.chat.as_ref()?.kind, &endpoint.url)));
        let (class, outcome) = match chat {
            Some((kind, url)) => {
                let judged = judge(kind, url, &answer, now, &finals);
                (judged.class, judged.outcome)
            }
            None => classify(&answer, now, &finals),
        };
        if !keeps_reply {
            request.exchange.headers.clear();
        }
        let (status, reply) = match answer {
            Ok(reply) if !keeps_reply => (reply.status, Bytes::new()),
            Ok(reply) => (reply.status, reply.body),
            Err(failure) => (0, Bytes::from(failure.detail)),
        };
        request.ended(outcome, class, status, reply)
    }
}

fn has_people(endpoint: &Endpoint) -> bool {
    endpoint.chat.as_ref().is_some_and(|chat| chat.people.is_some())
}

/// Joins two remarks about one attempt.
fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
        (first, second) => first.or(second),
    }
}

/// Puts a remark before the reply that the attempt shows.
fn noted(note: Option<String>, reply: Bytes) -> Bytes {
    match note {
        Some(note) => Bytes::from([note.as_bytes(), b"\n", &reply].concat()),
        None => reply,
    }
}

fn ticket(leased: Leased, session: &Arc<Session>, asked: Duration, order: StartOrder) -> Ticket<Delivery> {
    let (environment, lane) = (leased.task.key.environment, leased.task.lane);
    Ticket { environment, lane, order, task: Delivery { leased, session: Arc::clone(session), asked } }
}

/// Returns whether the endpoint asks for no more requests, for now or for good. Deliveries waiting for a slot must not
/// be sent to it.
fn wants_rest(end: &AttemptEnd) -> bool {
    let AttemptEnd::Attempted(record) = end else { return false };
    matches!(record.outcome, Outcome::Throttled { .. } | Outcome::Gone | Outcome::LastSuccess)
}

fn sign_of(end: &AttemptEnd) -> Sign {
    match end {
        AttemptEnd::HandedBack => Sign::Neutral,
        AttemptEnd::Attempted(record) => sign(record.class, record.outcome),
    }
}

fn cancelled(leased: &Leased, started_at: Timestamp) -> AttemptRecord {
    let reason = match (leased.endpoint(), leased.message()) {
        (None, _) => ENDPOINT_DELETED,
        (_, None) => "the message was pruned",
        (Some(endpoint), _) if endpoint.is_polled() => "the endpoint is polled",
        _ if leased.task.cancel => DeliveryCommand::Cancel.note(),
        _ => "the payload was removed",
    };
    let reply = Bytes::from_static(reason.as_bytes());
    AttemptRecord {
        url: shown_url(leased),
        ..AttemptRecord::new((Class::Cancelled, Outcome::Cancelled), reply, started_at)
    }
}

fn panicked(leased: &Leased, started_at: Timestamp) -> AttemptRecord {
    let end = (Class::Internal, Outcome::Failure { retry_after: None });
    let reply = Bytes::from_static(b"the server failed while sending the request; see its log");
    AttemptRecord { url: shown_url(leased), ..AttemptRecord::new(end, reply, started_at) }
}

fn shown_url(leased: &Leased) -> String {
    leased.endpoint().map(|endpoint| endpoint.shown_url()).unwrap_or_default()
}

fn interrupted(request: SentRequest) -> AttemptRecord {
    let reply = Bytes::from_static(b"the server stopped before the reply arrived");
    request.ended(Outcome::Interrupted, Class::Interrupted, 0, reply)
}
