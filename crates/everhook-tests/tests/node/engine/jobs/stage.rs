//! Engines with handlers on an embedded store, a transport that answers as told, and jobs to run.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::{EnvironmentId, JobId};
use everhook_core::job::{Job, JobState, RunAt};
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::retry::RetryPolicy;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_engine::entropy::Entropy;
use everhook_engine::jobs::JobsConfig;
use everhook_engine::jobs::handler::{Context, Finish, Handler, Handlers};
use everhook_engine::node::{Node, NodeConfig, Parts};
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_sqlite::SqliteStore;
use everhook_store::ids::Ids;
use everhook_store::job::{Enqueued, JobAttempt, JobRecord, NewJob};
use everhook_store::query;
use everhook_store::store::{Reads, Store};
use everhook_testkit::mem::MemStore;
use tokio::time::Instant;

use crate::engine::fixture::config;

pub(crate) const ENVIRONMENT: EnvironmentId = EnvironmentId(1);
pub(crate) const QUEUE: &str = "mail";

pub(crate) fn store() -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open_in_memory(Arc::new(Ids::from_system())).unwrap())
}

/// A store in memory whose clock runs with tokio's.
pub(crate) fn simulated_store() -> Arc<MemStore> {
    let started = Instant::now();
    let clock = move || Timestamp::from_millis(1_750_000_000_000).plus(started.elapsed());
    Arc::new(MemStore::new(Ids::seeded(1), Arc::new(clock)))
}

type Run = Pin<Box<dyn Future<Output = Finish> + Send>>;

/// A handler made of a function.
pub(crate) struct Does<F>(pub(crate) F);

#[async_trait]
impl<F: Fn(Context) -> Run + Send + Sync> Handler for Does<F> {
    async fn run(&self, context: Context) -> Finish {
        (self.0)(context).await
    }
}

/// Handlers of the kind `send`, so many at once.
pub(crate) fn handlers<F, R>(slots: usize, run: F) -> Handlers
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = Finish> + Send + 'static,
{
    let handler: Arc<dyn Handler> = Arc::new(Does(move |context| Box::pin(run(context)) as Run));
    Handlers {
        environment: ENVIRONMENT,
        queues: BTreeMap::from([(QUEUE.parse().unwrap(), slots)]),
        kinds: BTreeMap::from([("send".parse().unwrap(), handler)]),
    }
}

/// A worker without a server.
pub(crate) async fn worker(store: &Arc<impl Store + 'static>, seed: u64, handlers: Handlers) -> Arc<Node> {
    let jobs = Some(JobsConfig { schedules: false, handlers: Some(Arc::new(handlers)), ..JobsConfig::default() });
    start(store, seed, NodeConfig { jobs, ..config(&format!("worker {seed}")) }, None).await
}

/// A server whose requests go nowhere.
pub(crate) async fn server(store: &Arc<impl Store + 'static>, seed: u64) -> Arc<Node> {
    server_over(store, seed, Arc::new(Target::default())).await
}

/// A server whose requests go there.
pub(crate) async fn server_over(store: &Arc<impl Store + 'static>, seed: u64, target: Arc<Target>) -> Arc<Node> {
    start(store, seed, config(&format!("server {seed}")), Some(target)).await
}

pub(crate) async fn start(
    store: &Arc<impl Store + 'static>,
    seed: u64,
    config: NodeConfig,
    transport: Option<Arc<dyn Transport>>,
) -> Arc<Node> {
    let (ids, entropy) = (Arc::new(Ids::from_system()), Entropy::seeded(seed));
    let parts = Parts { store: store.clone(), transport, ids, entropy };
    let jobs = Some(config.jobs.unwrap_or_default());
    Node::start(parts, NodeConfig { jobs, ..config }).await.unwrap()
}

/// Answers as told, the last one again and again, and remembers what it got.
#[derive(Default)]
pub(crate) struct Target {
    pub(crate) answers: Mutex<Vec<(u16, Option<&'static str>)>>,
    pub(crate) requests: Mutex<Vec<Request>>,
}

#[async_trait]
impl Transport for Target {
    async fn send(&self, request: Request) -> Result<Reply, SendFailure> {
        self.requests.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        let (status, retry_after) = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        Ok(Reply { status, retry_after: retry_after.map(str::to_owned), body: Bytes::from_static(b"so it is") })
    }
}

/// A job of the kind `send` that is tried three times, at once.
pub(crate) fn job(engine: &Node) -> Job {
    let id = JobId(engine.new_id());
    Job {
        retry: RetryPolicy::new(vec![Duration::from_millis(1); 2]).unwrap(),
        ..Job::new(id, QUEUE.parse().unwrap(), "send".parse().unwrap(), Bytes::from_static(b"{\"to\": \"a\"}"))
    }
}

/// Enqueues a job; answers its id.
pub(crate) async fn enqueue(engine: &Node, job: Job) -> JobId {
    let id = job.id;
    let new = NewJob { environment: ENVIRONMENT, job, run_at: RunAt::Now, key: None };
    let enqueued = engine.enqueue(vec![new]).await.unwrap();
    assert!(matches!(enqueued[..], [Enqueued::Accepted { .. }]), "{enqueued:?}");
    id
}

/// Enqueues so many jobs at once; answers their ids.
pub(crate) async fn enqueue_many(engine: &Node, count: usize) -> Vec<JobId> {
    let new = |_| NewJob { environment: ENVIRONMENT, job: job(engine), run_at: RunAt::Now, key: None };
    let all: Vec<_> = (0..count).map(new).collect();
    let ids = all.iter().map(|new| new.job.id).collect();
    engine.enqueue(all).await.unwrap();
    ids
}

pub(crate) async fn find(store: &Arc<impl Store>, id: JobId) -> JobRecord {
    store.read(query::FindJob { scope: Scope::of(ENVIRONMENT), id }).await.unwrap().unwrap()
}

/// Waits until the job is in this state; answers it.
pub(crate) async fn until(store: &Arc<impl Store>, id: JobId, state: JobState) -> JobRecord {
    loop {
        let found = find(store, id).await;
        if found.state == state {
            return found;
        }
        pause().await;
    }
}

/// A moment, after which something is looked at again.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

pub(crate) async fn attempts(store: &Arc<impl Store>, id: JobId) -> Vec<JobAttempt> {
    let mut attempts = store.read(query::JobAttempts { scope: Scope::of(ENVIRONMENT), id, limit: 100 }).await.unwrap();
    attempts.reverse();
    attempts
}

/// How the attempts of a job ended, oldest first.
pub(crate) async fn classes(store: &Arc<impl Store>, id: JobId) -> Vec<String> {
    attempts(store, id).await.iter().map(|attempt| attempt.class.to_string()).collect()
}
