//! The metrics of queues, which a node samples in the store.

use std::time::Duration;

use everhook_core::id::DEFAULT_ORG;
use everhook_store::store::Store;

use crate::engine::jobs::stage::{ENVIRONMENT, enqueue_many, pause, server, store};

#[tokio::test]
async fn a_node_shows_the_depth_of_each_queue() {
    let store = store();
    let made = store.ensure_environment(DEFAULT_ORG.parse().unwrap(), "default".to_owned()).await.unwrap();
    assert_eq!(made.id, ENVIRONMENT);
    let first = server(&store, 1).await;
    enqueue_many(&first, 2).await;
    // A node samples when it starts, and then every minute.
    let second = server(&store, 2).await;
    let page = loop {
        let page = second.metrics();
        if page.contains("everhook_queue_pending{") {
            break page;
        }
        pause().await;
    };
    assert!(page.lines().any(|line| line == "everhook_queue_pending{queue=\"mail\"} 2"), "{page}");
    for engine in [first, second] {
        engine.drain(Duration::ZERO).await;
    }
}
