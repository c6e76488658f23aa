//! Environments that share the slots of a node, and targets that hang.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::id::{EnvironmentId, JobId};
use everhook_core::job::{Job, JobState, RunAt};
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::queue::{Queue, Target};
use everhook_core::scope::Scope;
use everhook_core::signing::SigningKeys;
use everhook_engine::config::JobsConfig;
use everhook_engine::config::NodeConfig;
use everhook_engine::node::Node;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_store::job::NewJob;
use everhook_store::query;
use everhook_store::store::{Reads, Resources};
use everhook_testkit::mem::MemStore;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::fixture::config;
use crate::engine::jobs::stage::{attempts, job, pause, simulated_store, start};

const ONE: EnvironmentId = EnvironmentId(1);
const OTHER: EnvironmentId = EnvironmentId(2);
/// Far shorter than the timeout of a push or a job. Time is virtual, so a test that waits for either fails at once.
const SOON: Duration = Duration::from_secs(60);

/// Never answers requests to hosts that begin with `slow`, and counts the open requests of each host.
#[derive(Default)]
struct Hosts {
    under_way: Mutex<BTreeMap<String, usize>>,
    changed: Notify,
}

#[async_trait]
impl Transport for Hosts {
    async fn send(&self, request: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        let host = request.url.split('/').nth(2).unwrap().to_owned();
        *self.under_way.lock().unwrap().entry(host.clone()).or_default() += 1;
        self.changed.notify_waiters();
        if host.starts_with("slow") {
            std::future::pending::<()>().await;
        }
        *self.under_way.lock().unwrap().get_mut(&host).unwrap() -= 1;
        Ok(Reply { status: 200, retry_after: None, wish: None, body: Bytes::new() })
    }
}

impl Hosts {
    /// Waits until this many requests to slow hosts are open.
    async fn slow(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.slow_now() >= count {
                return;
            }
            changed.await;
        }
    }

    fn slow_now(&self) -> usize {
        let under_way = self.under_way.lock().unwrap();
        under_way.iter().filter(|(host, _)| host.starts_with("slow")).map(|(_, count)| count).sum()
    }
}

async fn server(store: &Arc<MemStore>, hosts: &Arc<Hosts>, jobs: JobsConfig) -> Arc<Node> {
    start(store, 1, NodeConfig { jobs: Some(jobs), ..config("server") }, Some(hosts.clone())).await
}

/// Creates a queue whose jobs are pushed to a host.
async fn queue(store: &MemStore, environment: EnvironmentId, name: &str, host: &str) {
    let target = Some(Target { url: format!("https://{host}/jobs"), keys: SigningKeys::default() });
    let queue = Queue { target, ..Queue::new(name.parse().unwrap()) };
    store.replace(Scope::of(environment), queue.clone()).await.unwrap();
}

async fn enqueue(engine: &Node, environment: EnvironmentId, queue: &str, count: usize) -> JobId {
    let new = |_| {
        let job = Job { queue: queue.parse().unwrap(), ..job(engine) };
        NewJob { environment, job, run_at: RunAt::Now, key: None }
    };
    let jobs: Vec<NewJob> = (0..count).map(new).collect();
    let last = jobs.last().unwrap().job.id;
    engine.enqueue(jobs).await.unwrap();
    last
}

async fn until_done(store: &MemStore, environment: EnvironmentId, id: JobId) {
    while store.read(query::FindJob { scope: Scope::of(environment), id }).await.unwrap().unwrap().state
        != JobState::Succeeded
    {
        pause().await;
    }
}

/// Stops a server that had to wait for no push.
async fn end_soon(engine: &Arc<Node>, started: Instant) {
    assert!(started.elapsed() < SOON, "it waited for a push to end");
    engine.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_whose_target_hangs_delays_no_other_queue() {
    let (store, hosts, started) = (simulated_store(), Arc::new(Hosts::default()), Instant::now());
    queue(&store, ONE, "stuck", "slow").await;
    queue(&store, ONE, "sound", "fast").await;
    queue(&store, OTHER, "sound", "fast").await;
    let engine = server(&store, &hosts, JobsConfig::default()).await;
    enqueue(&engine, ONE, "stuck", 200).await;
    hosts.slow(16).await;
    for environment in [ONE, OTHER] {
        let id = enqueue(&engine, environment, "sound", 1).await;
        until_done(&store, environment, id).await;
    }
    assert_eq!(hosts.slow_now(), 16, "a quarter of the slots");
    end_soon(&engine, started).await;
}

#[tokio::test(start_paused = true)]
async fn an_environment_with_many_queues_that_hang_delays_no_other_environment() {
    let (store, hosts, started) = (simulated_store(), Arc::new(Hosts::default()), Instant::now());
    queue(&store, OTHER, "sound", "fast").await;
    for n in 0..20 {
        queue(&store, ONE, &format!("stuck{n}"), &format!("slow{n}")).await;
    }
    let engine = server(&store, &hosts, JobsConfig::default()).await;
    for n in 0..20 {
        enqueue(&engine, ONE, &format!("stuck{n}"), 20).await;
    }
    // Of the 64 slots, a third of the half is promised to the other environment, and five to the server itself, whose
    // queues could have one and four.
    hosts.slow(64 - 10 - 5).await;
    for _ in 0..3 {
        let id = enqueue(&engine, OTHER, "sound", 15).await;
        until_done(&store, OTHER, id).await;
    }
    assert_eq!(hosts.slow_now(), 64 - 10 - 5);
    end_soon(&engine, started).await;
}

#[tokio::test(start_paused = true)]
async fn an_environment_at_its_share_goes_on_as_soon_as_a_slot_is_given_back() {
    let (store, hosts, started) = (simulated_store(), Arc::new(Hosts::default()), Instant::now());
    queue(&store, OTHER, "sound", "fast").await;
    queue(&store, ONE, "stuck", "slow").await;
    queue(&store, ONE, "sound", "fast").await;
    let jobs = JobsConfig { slots: 6, slots_per_queue: 6, ..JobsConfig::default() };
    let engine = server(&store, &hosts, jobs).await;
    enqueue(&engine, ONE, "stuck", 3).await;
    hosts.slow(3).await;
    let last = enqueue(&engine, ONE, "sound", 40).await;
    until_done(&store, ONE, last).await;
    end_soon(&engine, started).await;
}

#[tokio::test(start_paused = true)]
async fn a_push_ends_at_its_deadline_however_long_the_job_may_take() {
    let (store, hosts, started) = (simulated_store(), Arc::new(Hosts::default()), Instant::now());
    queue(&store, ONE, "mail", "slow").await;
    let push_timeout = Duration::from_secs(5);
    let engine = server(&store, &hosts, JobsConfig { push_timeout, ..JobsConfig::default() }).await;
    let id = enqueue(&engine, ONE, "mail", 1).await;
    while attempts(&store, id).await.is_empty() {
        pause().await;
    }
    assert_eq!(attempts(&store, id).await[0].class.to_string(), "timeout");
    assert!(attempts(&store, id).await[0].duration >= push_timeout);
    assert!(started.elapsed() < SOON, "the job itself may take 15 minutes");
    engine.drain(Duration::ZERO).await;
}
