//! Announcements of batches at the end of jobs: sent at once, and in order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::batch::Resolution;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::exchange::Exchange;
use everhook_core::id::{ApplicationId, BatchId, Id, JobId};
use everhook_core::job::report::{Note, Report};
use everhook_core::job::{Job, LeaseProof};
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_engine::config::JobsConfig;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node::Node;
use everhook_engine::remote::Ending;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_store::batch::{BatchRecord, NewBatch, Resolve};
use everhook_store::error::StoreError;
use everhook_store::hints::Hints;
use everhook_store::ids::Ids;
use everhook_store::lease::Append;
use everhook_store::store::Store;
use everhook_store::worker::{Takes, WorkerRecord};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::faulty::Faulty;
use crate::engine::fixture::{add_endpoint, config, message, store};
use crate::engine::jobs::stage::{ENVIRONMENT, QUEUE, enqueue, job};

/// A poll interval so long that polling finds nothing. Tests in virtual time assert that less time has passed.
const NEVER: Duration = Duration::from_secs(3600);
const LONG: Duration = Duration::from_secs(600);

/// Takes all requests and records the order in which they started.
#[derive(Default)]
struct Recorder {
    begun: Mutex<Vec<String>>,
    changed: Notify,
}

#[async_trait]
impl Transport for Recorder {
    async fn send(&self, request: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        let kind = request.headers["everhook-event-type"].to_str().unwrap();
        self.begun.lock().unwrap().push(format!("{kind} {}", phase(&request.body)));
        self.changed.notify_waiters();
        tokio::task::yield_now().await;
        Ok(Reply { status: 200, retry_after: None, wish: None, body: Bytes::new() })
    }
}

fn phase(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    let phase = text.split("\"phase\":").nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
    phase.unwrap_or(text)
}

impl Recorder {
    /// Waits until this many requests have started, and returns them.
    async fn begun(&self, count: usize) -> Vec<String> {
        loop {
            let changed = self.changed.notified();
            let begun = self.begun.lock().unwrap().clone();
            if begun.len() >= count {
                return begun;
            }
            changed.await;
        }
    }
}

/// A channel on which every node receives all hints.
struct Line(Notify);

#[async_trait]
impl Hints for Line {
    async fn notify(&self) -> Result<(), StoreError> {
        self.0.notify_waiters();
        Ok(())
    }

    async fn next(&self) -> Result<(), StoreError> {
        self.0.notified().await;
        Ok(())
    }
}

async fn node(store: &Arc<Faulty>, seed: u64, role: Role, recorder: &Arc<Recorder>) -> Arc<Node> {
    let config = config(role.as_str());
    let dispatch = DispatchConfig { poll_interval: NEVER, ..config.dispatch };
    let (ids, entropy) = (Arc::new(Ids::seeded(seed)), Entropy::seeded(seed));
    Node::start(
        store.clone(),
        Some(recorder.clone()),
        ids,
        entropy,
        NodeConfig { role, dispatch, jobs: Some(JobsConfig::default()), ..config },
    )
    .await
    .unwrap()
}

/// Creates a batch whose announcements go to the endpoint of the stage.
async fn batch(store: &Faulty) -> BatchId {
    let id = BatchId(Ids::seeded(77).next(Timestamp::from_millis(1)));
    let record = BatchRecord::new(id, ApplicationId(Id::MIN), "import".to_owned(), "import".parse().unwrap());
    store.store.create_batch(Scope::of(ENVIRONMENT), NewBatch { batch: record.clone(), key: None }).await.unwrap();
    id
}

async fn worker(engine: &Node) -> WorkerRecord {
    let takes = Takes { environment: ENVIRONMENT, queues: vec![QUEUE.parse().unwrap()], kinds: Vec::new() };
    engine.open_worker("python".to_owned(), takes, LONG).await.unwrap()
}

/// Adds a job with one attempt to the batch.
async fn add(engine: &Node, batch: BatchId) -> JobId {
    let retry = RetryPolicy::new(Vec::new()).unwrap();
    enqueue(engine, Job { batch: Some(batch), retry, ..job(engine) }).await
}

/// Leases the next job and ends it with this report.
async fn end_next(engine: &Node, worker: &WorkerRecord, report: Report) -> JobId {
    let leased = engine.lease_for(worker, 1, LONG, None).await.unwrap().unwrap().pop().unwrap();
    let id = leased.job().cloned().unwrap().id;
    let by = LeaseProof { session: worker.session.id, epoch: leased.task.epoch };
    let ending = Ending { report, note: Note::new("", []), result: None };
    engine.end_job(ENVIRONMENT, id, by, ending).await.unwrap().unwrap();
    id
}

#[tokio::test(start_paused = true)]
async fn what_the_end_of_a_job_announces_is_sent_without_a_poll() {
    let (store, recorder, started) = (store(), Arc::new(Recorder::default()), Instant::now());
    add_endpoint(&store, "http://127.0.0.1/hook");
    let engine = node(&store, 1, Role::All, &recorder).await;
    let (batch, worker) = (batch(&store).await, worker(&engine).await);
    add(&engine, batch).await;
    let dead = end_next(&engine, &worker, Report::Failed { retry_after: None }).await;
    assert_eq!(recorder.begun(1).await, ["import.failed 1"]);
    engine.seal_batch(Scope::of(ENVIRONMENT), batch).await.unwrap();
    let resolve = Resolve { batch, jobs: vec![dead], how: Resolution::Retried };
    engine.resolve_batch(Scope::of(ENVIRONMENT), resolve).await.unwrap();
    end_next(&engine, &worker, Report::Completed).await;
    assert_eq!(recorder.begun(2).await, ["import.failed 1", "import.completed 2"]);
    assert!(started.elapsed() < NEVER / 2, "somebody waited for a poll");
    let page = engine.metrics();
    assert!(page.lines().any(|line| line == "everhook_messages_accepted_total 2"), "{page}");
    engine.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_node_without_deliveries_announces_another_node_sends_without_a_poll() {
    let (store, recorder, started) = (store(), Arc::new(Recorder::default()), Instant::now());
    store.layer.connect(Arc::new(Line(Notify::new())));
    add_endpoint(&store, "http://127.0.0.1/hook");
    let delivers = node(&store, 1, Role::Worker, &recorder).await;
    let api = node(&store, 2, Role::Api, &recorder).await;
    let (batch, worker) = (batch(&store).await, worker(&api).await);
    add(&api, batch).await;
    end_next(&api, &worker, Report::Failed { retry_after: None }).await;
    assert_eq!(recorder.begun(1).await, ["import.failed 1"]);
    assert!(started.elapsed() < NEVER / 2, "somebody waited for a poll");
    drop((delivers, api));
}

/// This needs several threads, because a runtime with one thread runs tasks in the order in which they were spawned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_an_endpoint_starts_in_the_order_in_which_it_came() {
    let (store, recorder) = (store(), Arc::new(Recorder::default()));
    add_endpoint(&store, "http://127.0.0.1/hook");
    // As many deliveries as one lease returns for the lane.
    let expected: Vec<String> = (1..=8).map(|phase| format!("a.b {phase}")).collect();
    for phase in 1..=8 {
        let messages = vec![message(&format!("{{\"phase\":{phase}}}"))];
        store.store.append(Append { fast: None, messages }).await.unwrap();
    }
    let engine = node(&store, 1, Role::All, &recorder).await;
    assert_eq!(recorder.begun(8).await, expected);
    engine.drain(Duration::ZERO).await;
}
