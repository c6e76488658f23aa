//! While egress is paused, a node accepts work and sends nothing, for as long as the pause lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::job::JobState;
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::queue::{Queue, Target};
use everhook_core::scope::Scope;
use everhook_core::signing::SigningKeys;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_store::store::{Resources, Store};

use crate::engine::fixture::{add_endpoint, config, engine_over, engine_through, message, settled, store};
use crate::engine::jobs::stage::{ENVIRONMENT, QUEUE, classes, enqueue, job, simulated_store, start, until};

/// Longer than any interval of a node, in virtual time.
const LONG: Duration = Duration::from_secs(600);

/// Counts requests and answers all of them.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Counting {
    fn sent(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Transport for Counting {
    async fn send(&self, _: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Reply { status: 200, retry_after: None, wish: None, body: Bytes::new() })
    }
}

fn reason() -> Option<String> {
    Some("a test".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_during_a_pause_delivers_after_it_and_counts_one_attempt() {
    let (store, transport) = (store(), Arc::new(Counting::default()));
    add_endpoint(&store, "http://127.0.0.1/hook");
    store.set_egress_pause(reason()).await.unwrap();
    let engine = engine_over(&store, 1, config("node"), transport.clone()).await;
    engine.accept(message("{}")).await.unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(transport.sent(), 0);
    assert_eq!(engine.egress_pause().map(|pause| pause.reason), reason());
    assert_eq!(engine.ready(), Ok(()), "it accepts work");
    store.set_egress_pause(None).await.unwrap();
    assert_eq!(settled(&store).await, ["success"]);
    assert_eq!(transport.sent(), 1);
    engine.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_node_follows_a_pause_and_its_end() {
    let transport = Arc::new(Counting::default());
    let (store, engine) = engine_through(transport.clone()).await;
    engine.accept(message("1")).await.unwrap();
    assert_eq!(settled(&store).await, ["success"]);
    store.set_egress_pause(reason()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    for payload in ["2", "3"] {
        engine.accept(message(payload)).await.unwrap();
    }
    tokio::time::sleep(LONG).await;
    assert_eq!(transport.sent(), 1);
    store.set_egress_pause(None).await.unwrap();
    assert_eq!(settled(&store).await, ["success"; 3]);
    engine.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_pushed_job_waits_for_the_end_of_the_pause() {
    let (store, transport) = (simulated_store(), Arc::new(Counting::default()));
    let target = Some(Target { url: "https://example.com/jobs".to_owned(), keys: SigningKeys::default() });
    store.replace(Scope::of(ENVIRONMENT), Queue { target, ..Queue::new(QUEUE.parse().unwrap()) }).await.unwrap();
    store.set_egress_pause(reason()).await.unwrap();
    let engine = start(&store, 1, config("node"), Some(transport.clone())).await;
    let id = enqueue(&engine, job(&engine)).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(transport.sent(), 0);
    store.set_egress_pause(None).await.unwrap();
    until(&store, id, JobState::Succeeded).await;
    assert_eq!(classes(&store, id).await, ["success"]);
    engine.drain(Duration::ZERO).await;
}
