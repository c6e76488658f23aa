//! Clients that send under load, repeat what they are not told with the same key, and remember everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::history::{History, Operation};
use crate::http::{self, Call, Reply};
use crate::random::Random;

/// How long a client waits for one answer.
const PATIENCE: Duration = Duration::from_secs(12);
/// One operation in so many is given up when in doubt, repeated although acknowledged, or tried with another body.
const SELDOM: usize = 20;
/// After the run is over an operation is repeated this often.
const LAST_TRIES: usize = 20;

/// What clients need to know.
#[derive(Clone, Debug)]
pub struct Target {
    /// Host and port of every node.
    pub addresses: Vec<String>,
    /// The API key.
    pub key: String,
    /// The application's id.
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
}

impl Target {
    /// Makes an application with the endpoints of the receivers.
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
        Ok((target, ids))
    }

    async fn make(&self, path: &str, body: &Value) -> anyhow::Result<Option<String>> {
        let body = body.to_string();
        let call = Call { method: "POST", path, key: &self.key, idempotency_key: None, body: body.as_bytes() };
        let reply = http::call(&self.addresses[0], call).await.context("the first node does not answer")?;
        anyhow::ensure!(reply.status == 201, "{path}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
        Ok(id_of(&reply))
    }
}

impl Load {
    /// Starts so many clients which together begin about so many operations a second.
    pub fn start(target: Target, history: &Arc<History>, clients: usize, rate: usize, seed: u64) -> Load {
        let history = Arc::clone(history);
        let shared =
            Arc::new(Shared { target, history, stop: AtomicBool::new(false), acknowledged: AtomicUsize::new(0) });
        let pause = Duration::from_micros(1_000_000 * clients as u64 / rate.max(1) as u64);
        let mut set = JoinSet::new();
        for client in 0..clients {
            let (shared, random) = (Arc::clone(&shared), Random::new(seed, &format!("client {client}")));
            set.spawn(async move { shared.run(client, pause, random).await });
        }
        Load { shared, clients: set }
    }

    /// How many operations were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Begins nothing more and waits for what is under way.
    pub async fn stop(mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        while self.clients.join_next().await.is_some() {}
    }
}

impl Shared {
    async fn run(&self, client: usize, pause: Duration, mut random: Random) {
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("op-{client}-{number}");
            let operation = self.operate(name, &mut random).await;
            self.history.operation(operation);
            tokio::time::sleep(random.between(Duration::ZERO, pause * 2)).await;
        }
    }

    async fn operate(&self, name: String, random: &mut Random) -> Operation {
        let payload = format!("{{\"op\":\"{name}\",\"pad\":\"{}\"}}", "x".repeat(random.below(400)));
        let mut operation = Operation { name, payload, told: Vec::new(), accepted_another_body: false };
        let (gives_up, repeats, cheats) = (random.once_in(SELDOM), random.once_in(SELDOM), random.once_in(SELDOM));
        let mut last_tries = 0;
        loop {
            let told = self.send(&operation.name, &operation.payload, random).await;
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
            operation.accepted_another_body = self.send(&operation.name, "{\"op\":\"cheat\"}", random).await.is_some();
        }
        operation
    }

    /// Sends once, to any node; the id if it was acknowledged.
    async fn send(&self, name: &str, payload: &str, random: &mut Random) -> Option<String> {
        let path = format!("/app/{}/msg", self.target.application);
        let body = format!("{{\"eventType\":\"chaos.sent\",\"payload\":{payload}}}");
        let key = Some(name);
        let call =
            Call { method: "POST", path: &path, key: &self.target.key, idempotency_key: key, body: body.as_bytes() };
        let address = random.pick(&self.target.addresses);
        let reply = tokio::time::timeout(PATIENCE, http::call(address, call)).await.ok()?.ok()?;
        match reply.status {
            200..300 => id_of(&reply),
            _ => None,
        }
    }
}

fn id_of(reply: &Reply) -> Option<String> {
    let value: Value = serde_json::from_slice(&reply.body).ok()?;
    Some(value["id"].as_str()?.to_owned())
}
