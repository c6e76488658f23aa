//! Nodes that only accept, and nodes that only deliver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::role::Role;
use everhook_engine::config::NodeConfig;
use everhook_store::error::StoreError;
use everhook_store::hints::Hints;
use everhook_store::lease::Appended;
use everhook_store::store::Op;
use tokio::sync::Notify;

use crate::engine::faulty::Faulty;
use crate::engine::fixture::{HOOK, add_endpoint, answering, config, engine_with, message, settled, store};

/// A poll interval so long that a test that depends on it fails by its own deadline.
const NEVER: Duration = Duration::from_secs(3600);

/// A channel between nodes in one process.
#[derive(Default)]
struct Line {
    told: Notify,
    spoken: AtomicUsize,
}

#[async_trait]
impl Hints for Line {
    async fn notify(&self) -> Result<(), StoreError> {
        self.spoken.fetch_add(1, Ordering::Relaxed);
        self.told.notify_one();
        Ok(())
    }

    async fn next(&self) -> Result<(), StoreError> {
        self.told.notified().await;
        Ok(())
    }
}

fn node(role: Role, poll_interval: Duration) -> NodeConfig {
    let config = config(role.as_str());
    NodeConfig { role, dispatch: DispatchConfig { poll_interval, ..config.dispatch }, ..config }
}

fn roles(store: &Faulty) -> Vec<Role> {
    store.store.dump().sessions.values().map(|session| session.role).collect()
}

#[tokio::test]
async fn what_an_api_node_accepts_a_worker_delivers() {
    let (store, receiver) = (store(), answering(200));
    add_endpoint(&store, &receiver.url(HOOK));
    let api = engine_with(&store, 1, node(Role::Api, Duration::from_millis(50))).await;
    assert!(matches!(api.accept(message("{}")).await, Ok(Appended::Accepted { message: _, .. })));
    assert_eq!(api.ready(), Ok(()));
    assert_eq!(store.layer.calls(Op::Lease) + store.layer.calls(Op::Reclaim) + store.layer.calls(Op::CloseExpired), 0);
    assert_eq!(store.store.dump().tasks.len(), 1, "it waits for a worker");

    let worker = engine_with(&store, 2, node(Role::Worker, Duration::from_millis(50))).await;
    assert_eq!(settled(&store).await, ["success"]);
    assert_eq!(receiver.count(), 1);
    assert_eq!(worker.ready(), Ok(()));
    assert_eq!(roles(&store), [Role::Api, Role::Worker]);
    worker.drain(Duration::ZERO).await;
    api.drain(Duration::ZERO).await;
    assert!(store.store.dump().sessions.values().all(|session| session.closed_at.is_some()));
}

#[tokio::test]
async fn a_worker_that_never_polls_is_woken() {
    let (line, receiver) = (Arc::new(Line::default()), answering(200));
    let store = store();
    store.layer.connect(line.clone());
    add_endpoint(&store, &receiver.url(HOOK));
    let worker = engine_with(&store, 1, node(Role::Worker, NEVER)).await;
    let api = engine_with(&store, 2, node(Role::Api, NEVER)).await;
    for _ in 0..50 {
        api.accept(message("{}")).await.unwrap();
    }
    receiver.arrived(HOOK, 50).await;
    assert_eq!(settled(&store).await.len(), 50);
    let spoken = line.spoken.load(Ordering::Relaxed);
    assert!((1..=51).contains(&spoken), "never more often than there was something to tell: {spoken}");
    drop((worker, api));
}

#[tokio::test]
async fn without_wakeups_a_worker_finds_its_work_all_the_same() {
    let (line, receiver) = (Arc::new(Line::default()), answering(200));
    let store = store();
    store.layer.connect(line.clone());
    add_endpoint(&store, &receiver.url(HOOK));
    let quiet = |role| NodeConfig { wakeups: false, ..node(role, Duration::from_millis(50)) };
    let worker = engine_with(&store, 1, quiet(Role::Worker)).await;
    let api = engine_with(&store, 2, quiet(Role::Api)).await;
    api.accept(message("{}")).await.unwrap();
    receiver.arrived(HOOK, 1).await;
    assert_eq!(settled(&store).await, ["success"]);
    assert_eq!(line.spoken.load(Ordering::Relaxed), 0);
    drop((worker, api));
}
