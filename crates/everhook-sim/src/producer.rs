//! Simulated clients that enqueue jobs, alone or in batches, and repeat a request with the same key until it is
//! acknowledged.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{BatchId, JobId};
use everhook_core::scope::Scope;
use everhook_store::batch::{BatchRecord, NewBatch};
use everhook_store::catalog::Created;
use everhook_store::dedup::DedupKey;
use everhook_store::job::{Enqueued, NewJob};
use tokio::task::JoinSet;

use crate::client::{APPLICATION, ENVIRONMENT, PATIENCE, TRIES};
use crate::job::{self, name};
use crate::node::Node;
use crate::world::{BUSY, Nodes, Shared};

/// The prefix of the event types of announcements.
pub(crate) const PREFIX: &str = "sim.batch";

/// One client's job and the answers to it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) number: usize,
    /// All ids under which the job may have been accepted, one per try.
    pub(crate) ids: Vec<JobId>,
    /// The acknowledged id; none if the job was never acknowledged.
    pub(crate) acknowledged: Option<JobId>,
    pub(crate) batch: Option<BatchId>,
    /// The virtual time of the first request.
    pub(crate) at: Duration,
}

/// Runs the clients without a batch, and one client per batch, which seals the batch at the end.
pub(crate) async fn enqueue_all(shared: &Arc<Shared>, nodes: &Nodes) -> Vec<Asked> {
    let mut clients = JoinSet::new();
    for batch in 0..job::BATCHES {
        let (shared, nodes) = (Arc::clone(shared), nodes.clone());
        clients.spawn(async move { enqueue_batch(shared, nodes, batch).await });
    }
    let (shared, nodes) = (Arc::clone(shared), nodes.clone());
    clients.spawn(async move { enqueue_some(&shared, &nodes, None, None).await });
    clients.join_all().await.into_iter().flatten().collect()
}

async fn enqueue_batch(shared: Arc<Shared>, nodes: Nodes, batch: usize) -> Vec<Asked> {
    tokio::time::sleep(shared.rng.between(Duration::ZERO, BUSY / 2)).await;
    let id = create(&shared, &nodes, batch).await;
    shared.trace.event(format_args!("batch {batch} is {id:?}"));
    let asked = enqueue_some(&shared, &nodes, Some(batch), id).await;
    if let Some(id) = id {
        seal(&shared, &nodes, id).await;
    }
    asked
}

/// Enqueues the jobs of this batch, or the jobs without a batch.
async fn enqueue_some(shared: &Arc<Shared>, nodes: &Nodes, batch: Option<usize>, id: Option<BatchId>) -> Vec<Asked> {
    let mut clients = JoinSet::new();
    for (number, _) in shared.fates.iter().enumerate().filter(|(_, fate)| fate.batch == batch) {
        let (shared, nodes) = (Arc::clone(shared), nodes.clone());
        let longest = if batch.is_some() { BUSY / 2 } else { BUSY };
        clients.spawn(async move {
            tokio::time::sleep(shared.rng.between(Duration::ZERO, longest)).await;
            enqueue(&shared, &nodes, number, id).await
        });
    }
    clients.join_all().await
}

async fn enqueue(shared: &Shared, nodes: &Nodes, number: usize, batch: Option<BatchId>) -> Asked {
    let key = DedupKey::request("POST", "/job", &number.to_string(), &job::body(number));
    let at = shared.trace.elapsed();
    let mut asked = Asked { number, ids: Vec::new(), acknowledged: None, batch, at };
    let fate = &shared.fates[number];
    for _ in 0..TRIES {
        let node = nodes.pick(&shared.rng);
        let id = JobId(node.engine.new_id());
        asked.ids.push(id);
        let new = NewJob {
            environment: ENVIRONMENT,
            job: fate.job(number, id, batch),
            run_at: fate.run_at(),
            key: Some(key.clone()),
        };
        let told = match ask(&node, node.engine.enqueue(vec![new])).await.as_deref() {
            Some([Enqueued::Accepted { .. }]) => Some(id),
            Some([Enqueued::Existing(id)]) => Some(*id),
            Some(other) => panic!("job {number} was answered {other:?}"),
            None => None,
        };
        shared.trace.event(format_args!("client of job {number} was told {told:?}"));
        if told.is_some() {
            asked.acknowledged = told;
            break;
        }
        rest(shared).await;
    }
    asked
}

async fn create(shared: &Shared, nodes: &Nodes, batch: usize) -> Option<BatchId> {
    let key = DedupKey::request("POST", "/batch", &batch.to_string(), b"");
    for _ in 0..TRIES {
        let node = nodes.pick(&shared.rng);
        let record = BatchRecord::new(BatchId(node.engine.new_id()), APPLICATION, batch.to_string(), name(PREFIX));
        match ask(
            &node,
            node.engine
                .create_batch(Scope::of(ENVIRONMENT), NewBatch { batch: record.clone(), key: Some(key.clone()) }),
        )
        .await
        {
            Some(Created::New(record) | Created::Repeated(record)) => return Some(record.id),
            Some(other) => panic!("batch {batch} was answered {other:?}"),
            None => rest(shared).await,
        }
    }
    None
}

async fn seal(shared: &Shared, nodes: &Nodes, id: BatchId) {
    for _ in 0..TRIES {
        let node = nodes.pick(&shared.rng);
        match ask(&node, node.engine.seal_batch(Scope::of(ENVIRONMENT), id)).await {
            Some(Some(_)) => return,
            Some(None) => panic!("batch {id} was acknowledged and is not there"),
            None => rest(shared).await,
        }
    }
}

/// Returns the answer of a node; none if it fails, is late, or the node is dead.
pub(crate) async fn ask<T, E>(node: &Node, call: impl Future<Output = Result<T, E>>) -> Option<T> {
    let answer = async {
        let answer = call.await;
        node.gate.pass().await;
        answer
    };
    tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()
}

pub(crate) async fn rest(shared: &Shared) {
    tokio::time::sleep(shared.rng.between(Duration::from_millis(50), Duration::from_secs(2))).await;
}
