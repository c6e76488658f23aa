//! A fresh store with one application, and the vocabulary of the cases.
//!
//! Cases use the environment `here`. The fixture creates the same objects in the environment `there`, with the same
//! ids, uids and keys and another payload. A bystander's session holds the tasks there, so that no lease of a case
//! finds them. At the end [`Fixture::check_bystander`] checks that they are unchanged.

use std::any::Any;
use std::mem::discriminant;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::application::Application;
use everhook_core::delivery::DeliveryState;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::exchange::{Exchange, ReplyHeader, StoredExchange};
use everhook_core::fair::GroupedLane;
use everhook_core::fanout::Audience;
use everhook_core::filter::Facts;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, LaneId, MessageId, OrgId, SessionId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::message::{Message, Rest};
use everhook_core::name::Name;
use everhook_core::once::{OnceClaim, Phase};
use everhook_core::outcome::Class;
use everhook_core::role::Role;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::capacity::Capacity;
use everhook_store::catalog::Slice;
use everhook_store::dedup::DedupKey;
use everhook_store::history::{Attempt, Redrive, Resend, Resent};
use everhook_store::ids::Ids;
use everhook_store::lease::{
    Append, Appended, FastPath, LeaseAsk, LeaseGrant, Leased, NewAttempt, NewMessage, NewSession, Reclaim, ReclaimAsk,
    Renewed, Settled, Settlement,
};
use everhook_store::query::Read;
use everhook_store::store::Reads;

use crate::conformance::Fresh;
use crate::conformance::stage::Stage;

/// Longer than any case runs.
pub const HOUR: Duration = Duration::from_secs(3600);
/// More than any case needs.
pub const PLENTY: usize = 100;

pub struct Fixture<S: ?Sized = dyn Stage> {
    /// The handle of the node that delivers.
    pub store: Arc<S>,
    /// The handle of the node that configures; the same one if the store allows only one.
    pub other: Arc<S>,
    /// The environment of the case.
    pub here: EnvironmentId,
    /// The environment in which nothing may change.
    pub there: EnvironmentId,
    /// The application, in both environments.
    pub application: ApplicationId,
    ids: Ids,
    began: Timestamp,
    bystander: Bystander,
    // The guard is the last field, so that a folder or database is removed after the store is dropped.
    _guard: Box<dyn Any + Send + Sync>,
}

struct Bystander {
    session: SessionId,
    endpoints: Mutex<Vec<Endpoint>>,
    holds: Mutex<Vec<Leased>>,
}

impl<S: Stage + ?Sized> Fixture<S> {
    /// Prepares a fresh store.
    pub async fn new(fresh: Fresh<S>) -> Fixture<S> {
        let Fresh { store, other, guard } = fresh;
        let (ids, began) = (Ids::from_system(), store.now().await.unwrap());
        let id = || ids.next(began);
        let here = other.stage_environment(OrgId(id()), "here").await;
        let there = other.stage_environment(OrgId(id()), "there").await;
        assert_ne!(here, there);
        let bystander = Bystander { session: SessionId(id()), endpoints: Mutex::default(), holds: Mutex::default() };
        let application = ApplicationId(id());
        let fixture = Fixture { store, other, here, there, application, ids, began, bystander, _guard: guard };
        fixture.open(fixture.bystander.session, HOUR).await;
        let application = Application { uid: Some(name("acme")), ..new_application(application) };
        fixture.other.stage_application(here, &application).await;
        fixture.other.stage_application(there, &application).await;
        fixture
    }

    pub fn id(&self) -> Id {
        self.ids.next(self.began)
    }

    /// The environment of the case.
    pub fn scope(&self) -> Scope {
        Scope::of(self.here)
    }

    /// The application of the case.
    pub fn app_scope(&self) -> AppScope {
        AppScope::of(self.here, self.application)
    }

    pub async fn read<Q: Read>(&self, query: Q) -> Q::Answer {
        self.other.read(query).await.unwrap()
    }

    /// Opens a session that outlives the case.
    pub async fn session(&self) -> SessionId {
        let id = SessionId(self.id());
        self.open(id, HOUR).await;
        id
    }

    /// Opens a session whose lease has already expired.
    pub async fn expired_session(&self) -> SessionId {
        let id = SessionId(self.id());
        self.open(id, Duration::ZERO).await;
        id
    }

    pub async fn open(&self, id: SessionId, lease: Duration) {
        self.open_as(id, lease, Role::All).await;
    }

    /// Opens a session of a node with a role.
    pub async fn open_as(&self, id: SessionId, lease: Duration, role: Role) {
        let session =
            NewSession { id, node: "node:1".to_owned(), role, version: "0.0.0".to_owned(), lease, takes: None };
        self.store.open_session(session.clone()).await.unwrap();
    }

    /// Creates an endpoint for all messages.
    pub async fn endpoint(&self) -> EndpointId {
        self.endpoint_with(|_| {}).await
    }

    pub async fn endpoint_with(&self, change: impl FnOnce(&mut Endpoint)) -> EndpointId {
        let mut endpoint = new_endpoint(EndpointId(self.id()), self.application);
        change(&mut endpoint);
        self.other.stage_endpoint(self.here, &endpoint).await;
        self.other.stage_endpoint(self.there, &endpoint).await;
        self.bystander.endpoints.lock().unwrap().push(endpoint.clone());
        endpoint.id
    }

    pub async fn switch(&self, endpoint: EndpointId, state: EndpointState) {
        self.other.switch_endpoint(AppScope::of(self.here, self.application), endpoint, state).await;
    }

    pub async fn delete(&self, endpoint: EndpointId) {
        assert!(self.other.drop_endpoint(self.here, self.application, endpoint).await);
    }

    pub fn message(&self) -> NewMessage {
        NewMessage::new(self.here, new_message(MessageId(self.id()), self.application))
    }

    /// Returns a message with an idempotency key.
    pub fn message_with_key(&self, key: &str, body: &str) -> NewMessage {
        NewMessage { keys: vec![request_key(key, body)], ..self.message() }
    }

    pub fn message_with_event_id(&self, event_id: &str) -> NewMessage {
        let mut new = self.message();
        new.message.event_id = Some(name(event_id));
        new.keys.push(DedupKey::event_id(self.application, &name(event_id)));
        new
    }

    /// Returns a message that claims a once-slot.
    pub fn message_once(&self, key: &str, phase: Option<i64>) -> NewMessage {
        let phase = phase.map(|phase| Phase::new(phase).unwrap());
        NewMessage { once: Some(OnceClaim { key: name(key), phase }), ..self.message() }
    }

    /// Resets a once-slot in both environments.
    pub async fn reset_once(&self, key: &str) {
        for environment in [self.here, self.there] {
            assert!(self.other.reset_once(AppScope::of(environment, self.application), name(key)).await.unwrap());
        }
    }

    /// Appends messages in both environments.
    pub async fn append(&self, fast: Option<FastPath>, messages: Vec<NewMessage>) -> Vec<Appended> {
        let shadows = messages.iter().map(|new| self.shadow(new)).collect();
        let answers = self.store.append(Append { fast, messages }).await.unwrap();
        let echoes = self.store.append(Append { fast: Some(self.bystanding()), messages: shadows }).await.unwrap();
        let kinds = |answers: &[Appended]| answers.iter().map(discriminant).collect::<Vec<_>>();
        assert_eq!(kinds(&answers), kinds(&echoes), "{answers:?}, but in the other environment {echoes:?}");
        for echo in echoes {
            if let Appended::Accepted { leased, pending, .. } = echo {
                assert_eq!(pending, 0, "the lanes of the other environment are free");
                self.bystander.holds.lock().unwrap().extend(leased.into_iter().map(|(leased, _)| leased));
            }
        }
        answers
    }

    pub async fn append_one(&self, fast: Option<FastPath>, message: NewMessage) -> Appended {
        self.append(fast, vec![message]).await.pop().expect("one answer for each message")
    }

    /// Appends one message whose deliveries wait for a lease.
    pub async fn send(&self) -> MessageId {
        let new = self.message();
        let id = new.message.id;
        let answer = self.append_one(None, new).await;
        assert!(matches!(answer, Appended::Accepted { .. }), "{answer:?}");
        id
    }

    /// Appends several messages, one after the other.
    pub async fn send_many(&self, count: usize) -> Vec<MessageId> {
        let mut sent = Vec::new();
        for _ in 0..count {
            sent.push(self.send().await);
        }
        sent
    }

    /// Leases all due tasks.
    pub async fn lease(&self, session: SessionId) -> Vec<Leased> {
        self.lease_with(self.ask(session)).await.tasks
    }

    /// Leases exactly one task.
    pub async fn lease_one(&self, session: SessionId) -> Leased {
        let mut tasks = self.lease(session).await;
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        tasks.remove(0)
    }

    pub async fn lease_with(&self, ask: LeaseAsk) -> LeaseGrant {
        let grant = self.store.lease(ask).await.unwrap();
        assert!(grant.tasks.iter().all(|leased| leased.task.key.environment == self.here), "{grant:?}");
        grant
    }

    /// Returns a request for all due tasks.
    pub fn ask(&self, session: SessionId) -> LeaseAsk {
        LeaseAsk { per_lane: PLENTY, ..LeaseAsk::deliveries(session, PLENTY) }
    }

    /// Creates one delivery and leases it to a new session.
    pub async fn held(&self) -> (SessionId, Leased) {
        self.endpoint().await;
        self.send().await;
        let session = self.session().await;
        let leased = self.lease_one(session).await;
        (session, leased)
    }

    /// Returns a settlement of `task` with an entry for the attempt log.
    pub fn settlement(&self, task: &Task, session: SessionId, row: NextRow) -> Settlement {
        let (class, status, end) = match row {
            NextRow::Gone => (Class::Success, 200, EndState::Succeeded),
            NextRow::Pending { .. } => (Class::Status, 500, EndState::Open),
            NextRow::Dead => (Class::Status, 500, EndState::Dead),
        };
        let attempt = NewAttempt {
            id: AttemptId(self.id()),
            holder: None,
            class,
            end,
            trigger: task.trigger,
            url: "https://example.com/hook".to_owned(),
            status,
            reply: Bytes::from_static(b"\x00not \xff text"),
            started_at: self.began,
            duration: Duration::from_micros(1_234_567),
            exchange: StoredExchange::of(&exchange()),
        };
        Settlement { row, tries: task.tries + 1, attempt: Some(attempt), ..Settlement::of(task, session) }
    }

    /// Reclaims tasks of closed sessions.
    pub async fn reclaim(&self, session: SessionId, limit: usize) -> Vec<Task> {
        self.store
            .reclaim(ReclaimAsk { session, limit, what: Reclaim::Orphaned })
            .await
            .unwrap()
            .into_iter()
            .map(|taken| taken.task)
            .collect()
    }

    pub async fn settle(&self, settlement: &Settlement) -> Settled {
        self.store.settle([settlement.clone()].into()).await.unwrap().answer[0]
    }

    /// Settles attempts in one call.
    pub async fn settle_all(&self, batch: &[Settlement]) -> Vec<Settled> {
        self.store.settle(batch.into()).await.unwrap().answer
    }

    /// Settles one attempt, which must be recorded.
    pub async fn end(&self, task: &Task, session: SessionId, row: NextRow) {
        assert_eq!(self.settle(&self.settlement(task, session, row)).await, Settled::Done);
    }

    /// Returns the state of a message for each endpoint.
    pub async fn states(&self, message: MessageId) -> Vec<(EndpointId, DeliveryState)> {
        let destinations = self.other.destinations_of(self.here, self.application, message).await;
        destinations.into_iter().map(|destination| (destination.endpoint.id, destination.state)).collect()
    }

    /// Returns the state of a message for its only endpoint.
    pub async fn state(&self, message: MessageId) -> DeliveryState {
        let states = self.states(message).await;
        assert_eq!(states.len(), 1, "{states:?}");
        states[0].1
    }

    pub async fn attempts(&self, message: MessageId) -> Vec<Attempt> {
        self.other.attempts_of(self.here, self.application, message).await
    }

    /// Requests one manual attempt.
    pub async fn resend(&self, message: MessageId, endpoint: EndpointId) -> Resent {
        let resend = Resend { application: self.application, message, endpoint, key: None };
        self.other.ask_resend(self.here, &resend).await
    }

    /// Redrives the dead deliveries of an endpoint.
    pub async fn redrive(&self, endpoint: EndpointId) -> usize {
        let redrive = Redrive { endpoint, message: None, since: None, until: None, limit: PLENTY };
        self.other.ask_redrive(self.here, &redrive).await
    }

    /// Checks that the other environment is unchanged: the bystander holds all tasks, all endpoints are enabled, and
    /// all lanes are free.
    pub async fn check_bystander(&self) {
        let session = self.bystander.session;
        let renewed = self.store.renew_session(session).await.unwrap();
        assert!(matches!(renewed, Renewed::Open(_)), "the bystander's session was closed");
        let holds = std::mem::take(&mut *self.bystander.holds.lock().unwrap());
        for leased in &holds {
            let settlement = self.settlement(&leased.task, session, NextRow::Gone);
            assert_eq!(self.settle(&settlement).await, Settled::Done, "the bystander lost {:?}", leased.task);
        }
        let message = |leased: &Leased| MessageId(leased.task.key.subject);
        for leased in &holds {
            let tasks = holds.iter().filter(|other| message(other) == message(leased)).count();
            let attempts = self.other.attempts_of(self.there, self.application, message(leased)).await;
            assert_eq!(attempts.len(), tasks, "{attempts:?}");
        }
        let endpoints = std::mem::take(&mut *self.bystander.endpoints.lock().unwrap());
        let new = self.shadow(&self.message());
        let facts = Facts::of(&new.message);
        let wants = |endpoint: &&Endpoint| !endpoint.is_polled() && Audience::Subscribers.includes(endpoint, &facts);
        let wanting = endpoints.iter().filter(wants).count();
        let append = Append { fast: Some(self.bystanding()), messages: vec![new] };
        match &self.store.append(append).await.unwrap()[..] {
            [Appended::Accepted { leased, pending: 0, .. }] => assert_eq!(leased.len(), wanting, "{leased:?}"),
            other => panic!("the lanes of the other environment are not free: {other:?}"),
        }
    }

    fn bystanding(&self) -> FastPath {
        fast(self.bystander.session, &FixedCapacity::of(usize::MAX))
    }

    fn shadow(&self, new: &NewMessage) -> NewMessage {
        let message = Message { payload: Some(Bytes::from_static(b"{\"not\":\"yours\"}")), ..new.message.clone() };
        // These deliveries are always due at once, because the bystander leases all tasks as they are created.
        NewMessage { keys: new.keys.clone(), once: new.once.clone(), ..NewMessage::new(self.there, message) }
    }
}

/// Reads a list page by page, beginning with `slice`, and returns the keys of its rows.
pub(super) async fn pages<R, K: Clone>(
    mut slice: Slice<K>,
    key: impl Fn(&R) -> K,
    read: impl AsyncFn(Slice<K>) -> Vec<R>,
) -> Vec<K> {
    let mut keys = Vec::new();
    loop {
        let page = read(slice.clone()).await;
        assert!(page.len() <= slice.limit);
        let Some(last) = page.last() else { return keys };
        slice.after = Some(key(last));
        keys.extend(page.iter().map(&key));
    }
}

/// A node's capacity as a number.
pub struct FixedCapacity(Mutex<usize>);

impl FixedCapacity {
    pub fn of(slots: usize) -> Arc<FixedCapacity> {
        Arc::new(FixedCapacity(Mutex::new(slots)))
    }

    pub fn left(&self) -> usize {
        *self.0.lock().unwrap()
    }
}

impl Capacity for FixedCapacity {
    fn reserve(&self, _: GroupedLane) -> bool {
        let mut left = self.0.lock().unwrap();
        let reserved = *left > 0;
        *left -= usize::from(reserved);
        reserved
    }

    fn plan_lease(&self, lanes: &[GroupedLane], most: usize) -> Vec<usize> {
        let rooms = lanes.iter().take(most).map(|lane| usize::from(self.reserve(*lane)));
        let rooms: Vec<usize> = rooms.collect();
        [rooms.as_slice(), &vec![0; lanes.len() - rooms.len()]].concat()
    }

    fn release(&self, _: LaneId) {
        *self.0.lock().unwrap() += 1;
    }
}

/// Returns a fast path for a session with this capacity.
pub fn fast(session: SessionId, capacity: &Arc<FixedCapacity>) -> FastPath {
    let slots: Arc<dyn Capacity> = Arc::<FixedCapacity>::clone(capacity);
    FastPath { session, slots }
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn request_key(key: &str, body: &str) -> DedupKey {
    DedupKey::request("POST", "/path", key, body.as_bytes())
}

pub fn new_application(id: ApplicationId) -> Application {
    Application {
        id,
        uid: None,
        name: "Acme & Söhne".to_owned(),
        throttle_rate: None,
        policy: None,
        metadata: Default::default(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
    }
}

/// Returns an endpoint for all messages.
pub fn new_endpoint(id: EndpointId, application: ApplicationId) -> Endpoint {
    Endpoint::new(id, application, "https://example.com/hook".to_owned(), Timestamp::default())
}

/// Returns the steps of a request over a new connection.
pub fn exchange() -> Exchange {
    Exchange {
        connect: Some(Duration::from_micros(1_204)),
        first_byte: Some(Duration::from_micros(20_111)),
        headers: vec![
            ReplyHeader("server".into(), Some("a \"quoted\" \u{0} name".to_owned())),
            ReplyHeader("set-cookie".into(), None),
        ],
        ..Exchange::default()
    }
}

/// Returns a message without channels.
pub fn new_message(id: MessageId, application: ApplicationId) -> Message {
    Message {
        id,
        application,
        event_type: name("invoice.paid"),
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: Some(Bytes::from_static(b"{\"amount\": 1.10, \"to\":\"S\xc3\xb6hne\"}")),
        created_at: Timestamp::default(),
        rest: Rest::default(),
    }
}
