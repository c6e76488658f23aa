//! A node without free files hands its tasks back without an attempt, and continues when it has files again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::job::JobState;
use everhook_core::outcome::{Blame, Class, Reply, SendFailure};
use everhook_core::queue::{Queue, Target};
use everhook_core::scope::Scope;
use everhook_core::signing::SigningKeys;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_store::store::Resources;

use crate::engine::fixture::{config, engine_through, message, settled};
use crate::engine::jobs::stage::{ENVIRONMENT, QUEUE, classes, enqueue, job, simulated_store, start, until};

/// Fails this many requests for lack of files.
struct Exhausted(AtomicUsize);

#[async_trait]
impl Transport for Exhausted {
    async fn send(&self, _: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        if self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            let failure = SendFailure::new(Class::Connect, "this node has reached its limit of open files");
            return Err(SendFailure { blame: Blame::Node, ..failure });
        }
        Ok(Reply { status: 200, retry_after: None, wish: None, body: Bytes::new() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_loses_no_attempt_to_a_node_without_files() {
    let transport = Arc::new(Exhausted(AtomicUsize::new(5)));
    let (store, engine) = engine_through(transport.clone()).await;
    engine.accept(message("{}")).await.unwrap();
    assert_eq!(settled(&store).await, ["success"]);
    assert_eq!(transport.0.load(Ordering::SeqCst), 0, "it was tried before");
    engine.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_pushed_job_loses_no_attempt_to_a_node_without_files() {
    let (store, transport) = (simulated_store(), Arc::new(Exhausted(AtomicUsize::new(5))));
    let target = Some(Target { url: "https://example.com/jobs".to_owned(), keys: SigningKeys::default() });
    store.replace(Scope::of(ENVIRONMENT), Queue { target, ..Queue::new(QUEUE.parse().unwrap()) }).await.unwrap();
    let engine = start(&store, 1, config("node"), Some(transport.clone())).await;
    let id = enqueue(&engine, job(&engine)).await;
    until(&store, id, JobState::Succeeded).await;
    assert_eq!(classes(&store, id).await, ["success"]);
    assert_eq!(transport.0.load(Ordering::SeqCst), 0, "it was tried before");
    engine.drain(Duration::ZERO).await;
}
