//! Engines with handlers on an embedded store, a transport with configured answers, and jobs to run.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::id::{EnvironmentId, JobId};
use everhook_core::job::{Job, JobState, RunAt};
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::retry::RetryPolicy;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_engine::config::JobsConfig;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node::Node;
use everhook_engine::run::handler::{Context, Finish, Handler, Handlers};
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

/// Returns an in-memory store whose clock follows tokio's.
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

/// Returns a handler of the kind `send` with this many slots.
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

/// Starts a worker node without a server.
pub(crate) async fn worker(store: &Arc<impl Store + 'static>, seed: u64, handlers: Handlers) -> Arc<Node> {
    let jobs = Some(JobsConfig { schedules: false, handlers: Some(Arc::new(handlers)), ..JobsConfig::default() });
    start(store, seed, NodeConfig { jobs, ..config(&format!("worker {seed}")) }, None).await
}

/// Starts a server without a reachable target.
pub(crate) async fn server(store: &Arc<impl Store + 'static>, seed: u64) -> Arc<Node> {
    server_over(store, seed, Arc::new(Target::default())).await
}

/// Starts a server whose requests go to `target`.
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
    let jobs = Some(config.jobs.unwrap_or_default());
    Node::start(store.clone(), transport, ids, entropy, NodeConfig { jobs, ..config }).await.unwrap()
}

/// Gives the configured answers, then repeats the last one, and records the requests.
#[derive(Default)]
pub(crate) struct Target {
    pub(crate) answers: Mutex<Vec<(u16, Option<&'static str>)>>,
    pub(crate) requests: Mutex<Vec<Request>>,
}

#[async_trait]
impl Transport for Target {
    async fn send(&self, request: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        self.requests.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        let (status, retry_after) = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        Ok(Reply {
            status,
            retry_after: retry_after.map(str::to_owned),
            wish: None,
            body: Bytes::from_static(b"so it is"),
        })
    }
}

/// Returns a job of the kind `send` with three attempts and no back-off.
pub(crate) fn job(engine: &Node) -> Job {
    let id = JobId(engine.new_id());
    Job {
        retry: RetryPolicy::new(vec![Duration::from_millis(1); 2]).unwrap(),
        ..Job::new(id, QUEUE.parse().unwrap(), "send".parse().unwrap(), Bytes::from_static(b"{\"to\": \"a\"}"))
    }
}

/// Enqueues a job and returns its id.
pub(crate) async fn enqueue(engine: &Node, job: Job) -> JobId {
    let id = job.id;
    let new = NewJob { environment: ENVIRONMENT, job, run_at: RunAt::Now, key: None };
    let enqueued = engine.enqueue(vec![new]).await.unwrap();
    assert!(matches!(enqueued[..], [Enqueued::Accepted { .. }]), "{enqueued:?}");
    id
}

/// Enqueues several jobs at once and returns their ids.
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

/// Waits until the job is in this state, and returns it.
pub(crate) async fn until(store: &Arc<impl Store>, id: JobId, state: JobState) -> JobRecord {
    loop {
        let found = find(store, id).await;
        if found.state == state {
            return found;
        }
        pause().await;
    }
}

/// Waits a moment before the next check.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

pub(crate) async fn attempts(store: &Arc<impl Store>, id: JobId) -> Vec<JobAttempt> {
    let mut attempts = store.read(query::JobAttempts { scope: Scope::of(ENVIRONMENT), id, limit: 100 }).await.unwrap();
    attempts.reverse();
    attempts
}

/// Returns the classes of the job's attempts, oldest first.
pub(crate) async fn classes(store: &Arc<impl Store>, id: JobId) -> Vec<String> {
    attempts(store, id).await.iter().map(|attempt| attempt.class.to_string()).collect()
}
