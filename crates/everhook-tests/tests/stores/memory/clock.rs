//! Behaviour that needs an adjustable clock: the in-memory store follows the times that it is given.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::{IDEMPOTENCY_KEPT, MESSAGES_KEPT};
use everhook_core::role::Role;
use everhook_core::task::Task;
use everhook_core::time::{Timestamp, micros};
use everhook_store::dedup::DedupKey;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, Appended, LeaseAsk, NewMessage, NewSession, Renewed, Settlement};
use everhook_store::store::Store;
use everhook_testkit::conformance::fixture::{HOUR, new_endpoint, new_message, request_key};
use everhook_testkit::conformance::{Fresh, order};
use everhook_testkit::mem::MemStore;

const ENVIRONMENT: EnvironmentId = EnvironmentId(1);
const APPLICATION: ApplicationId = ApplicationId(Id::MIN);
const ENDPOINT: EndpointId = EndpointId(Id::MIN);
const SESSION: SessionId = SessionId(Id::MIN);
const INSTANT: Duration = Duration::from_micros(1);

struct Scene {
    store: MemStore,
    now: Arc<AtomicI64>,
    ids: Ids,
}

impl Scene {
    fn new() -> Scene {
        let now = Arc::new(AtomicI64::new(1_790_000_000_000_000));
        let clock = Arc::clone(&now);
        let clock = move || Timestamp::from_micros(clock.load(Ordering::Relaxed));
        let store = MemStore::new(Ids::seeded(1), Arc::new(clock));
        store.put_application(ENVIRONMENT, APPLICATION);
        store.put_endpoint(ENVIRONMENT, new_endpoint(ENDPOINT, APPLICATION));
        Scene { store, now, ids: Ids::seeded(2) }
    }

    fn pass(&self, span: Duration) {
        self.now.fetch_add(micros(span), Ordering::Relaxed);
    }

    async fn append(&self, keys: Vec<DedupKey>) -> Appended {
        let message = new_message(MessageId(self.ids.next(Timestamp::default())), APPLICATION);
        let messages = vec![NewMessage { keys, ..NewMessage::new(ENVIRONMENT, message) }];
        self.store.append(Append { fast: None, messages }).await.unwrap().remove(0)
    }

    async fn lease(&self) -> (Vec<Task>, Option<Duration>) {
        let ask = LeaseAsk { per_lane: 10, ..LeaseAsk::deliveries(SESSION, 10) };
        let grant = self.store.lease(ask).await.unwrap();
        (grant.tasks.iter().map(|leased| leased.task).collect(), grant.next_ready)
    }

    async fn put_back(&self, task: &Task, due_in: Duration, hold_lane: Option<Duration>) {
        let row = NextRow::Pending { due_in };
        let settlement = Settlement { row, tries: 1, hold_lane, ..Settlement::of(task, SESSION) };
        self.store.settle([settlement].into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_time_is_over() {
    let event_id = DedupKey::event_id(APPLICATION, &"e".parse().unwrap());
    for (key, kept) in [(request_key("k", "body"), IDEMPOTENCY_KEPT), (event_id, MESSAGES_KEPT)] {
        let scene = Scene::new();
        assert!(matches!(scene.append(vec![key.clone()]).await, Appended::Accepted { .. }));
        scene.pass(kept - INSTANT);
        assert!(!matches!(scene.append(vec![key.clone()]).await, Appended::Accepted { .. }));
        scene.pass(INSTANT);
        assert!(matches!(scene.append(vec![key.clone()]).await, Appended::Accepted { .. }));
        assert!(!matches!(scene.append(vec![key]).await, Appended::Accepted { .. }));
    }
}

#[tokio::test]
async fn a_retry_goes_when_it_is_due_and_its_lane_is_not_held() {
    let scene = Scene::new();
    scene.append(Vec::new()).await;
    let (tasks, _) = scene.lease().await;
    scene.put_back(&tasks[0], HOUR, None).await;
    scene.pass(HOUR - INSTANT);
    assert_eq!(scene.lease().await, (Vec::new(), Some(INSTANT)));
    scene.pass(INSTANT);
    let (tasks, next_ready) = scene.lease().await;
    assert_eq!((tasks.len(), next_ready), (1, None));
    scene.put_back(&tasks[0], HOUR, Some(2 * HOUR)).await;
    scene.pass(2 * HOUR - INSTANT);
    assert_eq!(scene.lease().await, (Vec::new(), Some(INSTANT)));
    scene.pass(INSTANT);
    assert_eq!(scene.lease().await.0.len(), 1);
}

#[tokio::test]
async fn a_session_may_be_closed_only_after_its_lease() {
    let scene = Scene::new();
    let session = NewSession {
        id: SESSION,
        node: String::new(),
        role: Role::All,
        version: String::new(),
        lease: HOUR,
        takes: None,
    };
    scene.store.open_session(session.clone()).await.unwrap();
    scene.pass(HOUR);
    assert_eq!(scene.store.close_expired(HOUR).await.unwrap(), []);
    assert!(matches!(scene.store.renew_session(SESSION).await.unwrap(), Renewed::Open(_)));
    scene.pass(HOUR + INSTANT);
    assert_eq!(scene.store.close_expired(HOUR).await.unwrap(), [SESSION]);
    assert_eq!(scene.store.renew_session(SESSION).await.unwrap(), Renewed::Closed);
}

#[test]
fn order_survives_a_clock_that_is_set_back() {
    let now = Arc::new(AtomicI64::new(1_790_000_000_000_000));
    let clock = Arc::clone(&now);
    let clock = move || Timestamp::from_micros(clock.fetch_add(1, Ordering::Relaxed));
    let fresh = async { Fresh::one(MemStore::new(Ids::seeded(1), Arc::new(clock)), ()) };
    let set_back = async || {
        now.fetch_sub(micros(HOUR), Ordering::Relaxed);
    };
    order::order_survives_a_clock_that_is_set_back(fresh, set_back);
}
