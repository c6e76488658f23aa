//! An engine on a faulty store, with one application and one endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::message::{Message, Rest};
use everhook_core::policy::Settings;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::time::Timestamp;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node::Node;
use everhook_engine::retention::Ages;
use everhook_engine::session::NodeName;
use everhook_engine::transport::Transport;
use everhook_sender::{Egress, Sender, SenderConfig};
use everhook_store::ids::Ids;
use everhook_store::lease::NewMessage;
use everhook_testkit::mem::{AttemptRow, MemStore};
use everhook_testkit::receiver::{Answer, Receiver};
use tokio::time::Instant;

use crate::engine::faulty::{Faulty, faulty};

pub(crate) const ENVIRONMENT: EnvironmentId = EnvironmentId(1);
pub(crate) const LEASE: Duration = Duration::from_millis(400);
const EPOCH: Timestamp = Timestamp::from_millis(1_750_000_000_000);

/// Returns an in-memory store whose clock follows tokio's.
pub(crate) fn store() -> Arc<Faulty> {
    let started = Instant::now();
    let clock = Arc::new(move || EPOCH.plus(started.elapsed()));
    Arc::new(faulty(MemStore::new(Ids::seeded(1), clock)))
}

pub(crate) fn config(node: &str) -> NodeConfig {
    NodeConfig {
        dispatch: DispatchConfig { slots: 16, slots_per_lane: 8, poll_interval: Duration::from_millis(50) },
        lease: LEASE,
        retry: RetryPolicy::new(vec![Duration::from_millis(20); 60]).unwrap(),
        name: NodeName { node: node.to_owned(), version: "1.2.3".to_owned() },
        role: Role::All,
        wakeups: true,
        jobs: None,
        retention: Ages::default(),
        public_url: None,
        alert_interval: None,
        quota_interval: None,
    }
}

pub(crate) async fn engine(store: &Arc<Faulty>, seed: u64) -> Arc<Node> {
    engine_with(store, seed, config(&format!("node {seed}"))).await
}

pub(crate) async fn engine_with(store: &Arc<Faulty>, seed: u64, config: NodeConfig) -> Arc<Node> {
    let egress = Egress::new(vec!["127.0.0.0/8".parse().unwrap()], false);
    let sender = Sender::new(SenderConfig { egress, ..SenderConfig::default() }).unwrap();
    engine_over(store, seed, config, Arc::new(sender)).await
}

pub(crate) async fn engine_over(
    store: &Arc<Faulty>,
    seed: u64,
    config: NodeConfig,
    transport: Arc<dyn Transport>,
) -> Arc<Node> {
    let (ids, entropy) = (Arc::new(Ids::seeded(seed)), Entropy::seeded(seed));
    Node::start(store.clone(), Some(transport), ids, entropy, config).await.unwrap()
}

/// Starts a node on a new store, with the endpoint at this receiver.
pub(crate) async fn engine_to(receiver: Receiver) -> (Arc<Faulty>, Receiver, Arc<Node>) {
    let store = store();
    add_endpoint(&store, &receiver.url(HOOK));
    let engine = engine(&store, 1).await;
    (store, receiver, engine)
}

/// Starts a node on a new store, whose requests to the endpoint go through this transport.
pub(crate) async fn engine_through(transport: Arc<dyn Transport>) -> (Arc<Faulty>, Arc<Node>) {
    let store = store();
    add_endpoint(&store, "http://127.0.0.1/hook");
    let engine = engine_over(&store, 1, config("node"), transport).await;
    (store, engine)
}

/// The path of the endpoint at a receiver.
pub(crate) const HOOK: &str = "/hook";

/// Starts a receiver that answers with this status.
pub(crate) fn answering(status: u16) -> Receiver {
    let receiver = Receiver::start();
    receiver.answer(HOOK, Answer::status(status));
    receiver
}

/// Starts a receiver that takes requests and answers none until it is released.
pub(crate) fn hanging() -> Receiver {
    let receiver = answering(200);
    receiver.hang(HOOK);
    receiver
}

/// Adds the application with one endpoint at `url`.
pub(crate) fn add_endpoint(store: &Faulty, url: &str) {
    add_endpoint_with(store, url, None);
}

/// Adds the application with one endpoint at `url`, which has a policy.
pub(crate) fn add_endpoint_with(store: &Faulty, url: &str, policy: Option<Settings>) {
    let application = ApplicationId(Id::MIN);
    store.store.put_application(ENVIRONMENT, application);
    let endpoint = Endpoint {
        policy: policy.map(Arc::new),
        revision: 1,
        ..Endpoint::new(EndpointId(Id::MIN), application, url.to_owned(), EPOCH)
    };
    store.store.put_endpoint(ENVIRONMENT, endpoint);
}

pub(crate) fn message(payload: &str) -> NewMessage {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let ids = Ids::seeded(1000 + NEXT.fetch_add(1, Ordering::Relaxed));
    let message = Message {
        id: MessageId(ids.next(EPOCH)),
        application: ApplicationId(Id::MIN),
        event_type: "a.b".parse().unwrap(),
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: Some(Bytes::from(payload.to_owned())),
        created_at: EPOCH,
        rest: Rest::default(),
    };
    NewMessage::new(ENVIRONMENT, message)
}

/// Waits until no task is open; returns the classes of all attempts in order.
pub(crate) async fn settled(store: &Faulty) -> Vec<String> {
    loop {
        let tables = store.store.dump();
        if tables.tasks.is_empty() {
            return classes(tables.attempts.values());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn classes<'a>(attempts: impl Iterator<Item = &'a AttemptRow>) -> Vec<String> {
    let mut attempts = attempts.map(|row| &row.attempt).collect::<Vec<_>>();
    attempts.sort_by_key(|attempt| attempt.id);
    attempts.into_iter().map(|attempt| attempt.class.to_string()).collect()
}
