//! Clients that send messages and enqueue jobs, repeat unacknowledged requests with the same key, and record
//! everything.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use everhook_testkit::http::{self, Call, Reply};
use everhook_testkit::rng::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::history::{BatchOperation, History, Operation, Work};
use crate::receiver::{DOOMED, JOBS};

/// The longest wait of a client for an answer.
const PATIENCE: Duration = Duration::from_secs(12);
/// One request in this many is given up in doubt, repeated although acknowledged, or sent with another body.
const SELDOM: usize = 20;
/// Tries of a request after the run is over.
const LAST_TRIES: usize = 20;

/// The queue whose jobs are pushed to the receivers.
const QUEUE: &str = "chaos";
/// One request in this many is a single job, and another one is a job of a batch.
const JOB_SHARE: usize = 5;
/// The time limit for reading all jobs from the API at the end.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// The addresses and ids that clients need.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address of every node.
    pub addresses: Vec<String>,
    pub key: String,
    pub application: String,
}

/// Continuous load from several clients.
pub struct Load {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
}

struct Shared {
    target: Target,
    history: Arc<History>,
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    mistakes: Mutex<BTreeSet<String>>,
}

impl Target {
    /// Creates an application with the endpoints of the receivers.
    pub async fn create(
        addresses: Vec<String>,
        key: String,
        receivers: &str,
        endpoints: usize,
    ) -> anyhow::Result<(Target, Vec<String>)> {
        let mut target = Target { addresses, key, application: String::new() };
        let made = target.make("/app", &json!({ "name": "Chaos" })).await?;
        target.application = made.context("the application has an id")?;
        let mut ids = Vec::new();
        for number in 0..endpoints {
            let path = format!("/app/{}/endpoint", target.application);
            let url = format!("http://{receivers}/{number}");
            ids.push(target.make(&path, &json!({ "url": url })).await?.context("the endpoint has an id")?);
        }
        let body = json!({ "targetUrl": format!("http://{receivers}/{JOBS}") }).to_string();
        let path = format!("/api/v1/queue/{QUEUE}");
        let call = Call { method: "PATCH", path: &path, key: &target.key, headers: &[], body: body.as_bytes() };
        let reply = http::call(&target.addresses[0], call).await.context("the first node does not answer")?;
        anyhow::ensure!(reply.status == 200, "{path}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
        Ok((target, ids))
    }

    /// Reads the state of every acknowledged job from the API; none for a job that the API does not find.
    pub async fn show_jobs(&self, operations: &[Operation]) -> HashMap<String, Option<String>> {
        let mut shown = HashMap::new();
        let show_all = async {
            for operation in operations.iter().filter(|operation| operation.work != Work::Message) {
                let Some(id) = operation.told.first() else { continue };
                shown.insert(id.clone(), self.show_job(id).await);
            }
        };
        // Jobs that were not read in time are missing in the result.
        let _ = tokio::time::timeout(SHOWN_WITHIN, show_all).await;
        shown
    }

    async fn show_job(&self, id: &str) -> Option<String> {
        let path = format!("/api/v1/job/{id}");
        for address in &self.addresses {
            let call = Call { method: "GET", path: &path, key: &self.key, headers: &[], body: b"" };
            let Ok(Ok(reply)) = tokio::time::timeout(PATIENCE, http::call(address, call)).await else { continue };
            if reply.status == 200 {
                let value: Value = serde_json::from_slice(&reply.body).ok()?;
                return Some(value["state"].as_str()?.to_owned());
            }
        }
        None
    }

    async fn make(&self, path: &str, body: &Value) -> anyhow::Result<Option<String>> {
        let body = body.to_string();
        let path = format!("/api/v1{path}");
        let call = Call { method: "POST", path: &path, key: &self.key, headers: &[], body: body.as_bytes() };
        let reply = http::call(&self.addresses[0], call).await.context("the first node does not answer")?;
        anyhow::ensure!(reply.status == 201, "{path}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
        Ok(id_of(&reply))
    }
}

impl Load {
    /// Starts clients that together send about `rate` requests per second.
    pub fn start(target: Target, history: &Arc<History>, clients: usize, rate: usize, seed: u64) -> Load {
        let history = Arc::clone(history);
        let shared = Arc::new(Shared {
            target,
            history,
            stop: AtomicBool::new(false),
            acknowledged: AtomicUsize::new(0),
            mistakes: Mutex::default(),
        });
        let pause = Duration::from_micros(1_000_000 * clients as u64 / rate.max(1) as u64);
        let mut set = JoinSet::new();
        for client in 0..clients {
            let (shared, random) = (Arc::clone(&shared), Rng::of(seed, &format!("client {client}")));
            set.spawn(async move { shared.run(client, pause, random).await });
        }
        let pause = pause * u32::try_from(JOB_SHARE).unwrap_or(1) / u32::try_from(clients.max(1)).unwrap_or(1);
        for is_batch in [false, true] {
            let name = if is_batch { "batches" } else { "jobs" };
            let (shared, random) = (Arc::clone(&shared), Rng::of(seed, name));
            set.spawn(async move { shared.work(is_batch, pause, random).await });
        }
        Load { shared, clients: set }
    }

    /// The number of acknowledged requests so far.
    pub fn acknowledged(&self) -> usize {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Stops new requests and waits for those in progress. Returns the errors of requests that the API rejected.
    pub async fn stop(mut self) -> Vec<String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        while self.clients.join_next().await.is_some() {}
        self.shared.mistakes.lock().expect("nothing panics while it holds this lock").iter().cloned().collect()
    }
}

impl Shared {
    async fn run(&self, client: usize, pause: Duration, random: Rng) {
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("op-{client}-{number}");
            let payload = format!("{{\"op\":\"{name}\",\"pad\":\"{}\"}}", "x".repeat(random.below(400)));
            let operation = self.operate(Work::Message, name, payload, &random).await;
            self.history.operation(operation);
            tokio::time::sleep(random.between(Duration::ZERO, pause * 2)).await;
        }
    }

    /// Enqueues single jobs or batches, one after the other.
    async fn work(&self, is_batch: bool, pause: Duration, random: Rng) {
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let jobs = if is_batch { random.below(6) } else { 1 };
            if is_batch {
                self.fill_batch(&format!("batch-{number}"), jobs, &random).await;
            } else {
                self.enqueue(format!("job-{number}"), None, &random).await;
            }
            let pause = pause * u32::try_from(jobs.max(1)).unwrap_or(1);
            tokio::time::sleep(random.between(Duration::ZERO, pause * 2)).await;
        }
    }

    /// Creates a batch, fills it and seals it.
    async fn fill_batch(&self, name: &str, jobs: usize, random: &Rng) {
        let body = json!({ "name": name, "application": self.target.application, "prefix": "chaos.batch" }).to_string();
        let Some(id) = self.insist("/batch", Some(name), &body, random).await else { return };
        for number in 0..jobs {
            self.enqueue(format!("{name}-{number}"), Some(&id), random).await;
        }
        let sealed = self.insist(&format!("/batch/{id}/seal"), None, "", random).await.is_some();
        self.history.batch(BatchOperation { id, sealed });
    }

    /// Enqueues a job, which sometimes is doomed to fail.
    async fn enqueue(&self, name: String, batch: Option<&str>, random: &Rng) {
        let doomed = random.once_in(SELDOM);
        let payload = format!("{{\"op\":\"{name}\",\"doomed\":{doomed}}}");
        let work = Work::Job { batch: batch.map(str::to_owned) };
        let operation = self.operate(work, name, payload, random).await;
        self.history.operation(operation);
    }

    /// Repeats a request until it is acknowledged. Returns the id, or none if the run ends before.
    async fn insist(&self, path: &str, key: Option<&str>, body: &str, random: &Rng) -> Option<String> {
        let mut last_tries = 0;
        while last_tries <= LAST_TRIES {
            if let Some(id) = self.post(path, key, body, random).await {
                return Some(id);
            }
            last_tries += usize::from(self.stop.load(Ordering::Relaxed));
            tokio::time::sleep(random.between(Duration::from_millis(20), Duration::from_millis(300))).await;
        }
        None
    }

    async fn operate(&self, work: Work, name: String, payload: String, random: &Rng) -> Operation {
        let mut operation = Operation { work, name, payload, told: Vec::new(), accepted_another_body: false };
        let (gives_up, repeats, cheats) = (random.once_in(SELDOM), random.once_in(SELDOM), random.once_in(SELDOM));
        let mut last_tries = 0;
        loop {
            let told = self.send(&operation, &operation.payload, random).await;
            let doubt = told.is_none();
            operation.told.extend(told);
            if doubt {
                last_tries += usize::from(self.stop.load(Ordering::Relaxed));
                if gives_up || last_tries > LAST_TRIES {
                    return operation;
                }
                tokio::time::sleep(random.between(Duration::from_millis(20), Duration::from_millis(300))).await;
            } else if !repeats || operation.told.len() > 1 {
                break;
            }
        }
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        if cheats {
            operation.accepted_another_body = self.send(&operation, "{\"op\":\"cheat\"}", random).await.is_some();
        }
        operation
    }

    /// Sends a request once to any node. Returns the id if it was acknowledged.
    async fn send(&self, operation: &Operation, payload: &str, random: &Rng) -> Option<String> {
        let (path, body) = match &operation.work {
            Work::Message => {
                let path = format!("/app/{}/msg", self.target.application);
                (path, format!("{{\"eventType\":\"chaos.sent\",\"payload\":{payload}}}"))
            }
            Work::Job { batch } => {
                // A doomed job has few attempts, because the end of the run waits for its death.
                let attempts = if payload.contains(DOOMED) { 3 } else { 12 };
                let body = format!(
                    "{{\"queue\":\"{QUEUE}\",\"kind\":\"chaos.job\",\"maxAttempts\":{attempts},\"backoff\":[1],\"payload\":{payload}}}"
                );
                (batch.as_ref().map_or("/job".to_owned(), |batch| format!("/batch/{batch}/job")), body)
            }
        };
        self.post(&path, Some(&operation.name), &body, random).await
    }

    async fn post(&self, path: &str, key: Option<&str>, body: &str, random: &Rng) -> Option<String> {
        let (path, headers) = (format!("/api/v1{path}"), key.map(|key| ("idempotency-key", key)));
        let call = Call {
            method: "POST",
            path: &path,
            key: &self.target.key,
            headers: headers.as_slice(),
            body: body.as_bytes(),
        };
        let address = random.pick(&self.target.addresses);
        let reply = tokio::time::timeout(PATIENCE, http::call(address, call)).await.ok()?.ok()?;
        match reply.status {
            200..300 => id_of(&reply),
            400 | 401 | 403 | 422 => {
                let mistake = format!("{path} was rejected: {}", String::from_utf8_lossy(&reply.body));
                self.mistakes.lock().expect("nothing panics while it holds this lock").insert(mistake);
                None
            }
            _ => None,
        }
    }
}

fn id_of(reply: &Reply) -> Option<String> {
    let value: Value = serde_json::from_slice(&reply.body).ok()?;
    Some(value["id"].as_str()?.to_owned())
}
