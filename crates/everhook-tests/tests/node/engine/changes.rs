//! Writes through the node: those that make tasks ready wake the other nodes, the others do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::batch::Resolution;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, BatchId, EndpointId, Id, JobId, ScheduleId};
use everhook_core::job::report::{Note, Report};
use everhook_core::job::{Job, JobAction, LeaseProof, OperatorCommand};
use everhook_core::queue::Queue;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::schedule::{Cadence, Schedule};
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_engine::config::JobsConfig;
use everhook_engine::config::NodeConfig;
use everhook_engine::node::Node;
use everhook_engine::remote::Ending;
use everhook_store::batch::{BatchRecord, NewBatch, Resolve};
use everhook_store::catalog::Locator;
use everhook_store::error::StoreError;
use everhook_store::hints::Hints;
use everhook_store::history::{Redrive, Resend};
use everhook_store::query;
use everhook_store::schedule::{ScheduleRecord, Starts};
use everhook_store::steer::Steer;
use everhook_store::worker::Takes;

use crate::engine::faulty::Faulty;
use crate::engine::fixture::{ENVIRONMENT, add_endpoint, config, engine_with, message, store};
use crate::engine::jobs::stage::{QUEUE, enqueue, job};

const SCOPE: Scope = Scope { environment: ENVIRONMENT };
/// Longer than the pause between two wake-ups.
const MOMENT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);

/// A channel that records whether a hint was sent.
#[derive(Default)]
struct Line(AtomicBool);

#[async_trait]
impl Hints for Line {
    async fn notify(&self) -> Result<(), StoreError> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn next(&self) -> Result<(), StoreError> {
        std::future::pending().await
    }
}

impl Line {
    /// Returns whether the other nodes were woken since the last call.
    async fn woken(&self) -> bool {
        tokio::time::sleep(MOMENT).await;
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Starts a node that does not deliver, with a channel to other nodes.
async fn stage() -> (Arc<Faulty>, Arc<Line>, Arc<Node>) {
    let (store, line) = (store(), Arc::new(Line::default()));
    store.layer.connect(Arc::clone(&line) as Arc<dyn Hints>);
    add_endpoint(&store, "http://127.0.0.1/hook");
    let jobs = Some(JobsConfig { schedules: false, ..JobsConfig::default() });
    let node = engine_with(&store, 1, NodeConfig { role: Role::Api, jobs, ..config("api") }).await;
    (store, line, node)
}

#[tokio::test(start_paused = true)]
async fn changes_of_deliveries_wake_those_who_deliver() {
    let (store, line, node) = stage().await;
    let new = message("{}");
    let id = new.message.id;
    node.accept(new).await.unwrap();
    assert!(line.woken().await, "a message was accepted");
    let resend = Resend { application: ApplicationId(Id::MIN), message: id, endpoint: EndpointId(Id::MIN), key: None };
    node.resend(SCOPE, resend).await.unwrap();
    assert!(line.woken().await, "a message is sent again");
    let redrive = Redrive { endpoint: EndpointId(Id::MIN), message: None, since: None, until: None, limit: 10 };
    assert_eq!(node.steer(SCOPE, Steer::Redrive(redrive)).await.unwrap().redriven, 0);
    assert!(!line.woken().await, "nothing was dead");

    let scope = AppScope::of(ENVIRONMENT, ApplicationId(Id::MIN));
    for (state, wakes) in [(EndpointState::Disabled, false), (EndpointState::Enabled, true)] {
        let found = node.read(query::FindEndpoint { scope, locator: Locator::Id(EndpointId(Id::MIN)) }).await;
        let endpoint = Endpoint { state, ..found.unwrap().unwrap() };
        node.replace(SCOPE, endpoint).await.unwrap();
        assert_eq!(line.woken().await, wakes, "{state:?}");
    }
    node.drain(Duration::ZERO).await;
    drop(store);
}

#[tokio::test(start_paused = true)]
async fn changes_of_jobs_wake_those_who_run_them() {
    let (_store, line, node) = stage().await;
    let id = enqueue(&node, job(&node)).await;
    assert!(line.woken().await, "a job was enqueued");
    node.replace(SCOPE, Queue::new(QUEUE.parse().unwrap())).await.unwrap();
    assert!(line.woken().await, "its queue was changed");
    let steer = async |command| {
        let steered = node.steer(SCOPE, Steer::Jobs { ids: vec![id], command }).await.unwrap();
        steered.plans.into_iter().next().flatten().unwrap()
    };
    assert_eq!(steer(OperatorCommand::Cancel).await, JobAction::Cancel);
    assert!(!line.woken().await, "a job that nobody may run any more");
    assert_eq!(steer(OperatorCommand::Retry).await, JobAction::Refuse);
    assert!(!line.woken().await, "nothing was done");
    node.drain(Duration::ZERO).await;
}

/// Leases the next job and fails it.
async fn fail_next(node: &Node) -> JobId {
    let takes = Takes { environment: ENVIRONMENT, queues: vec![QUEUE.parse().unwrap()], kinds: Vec::new() };
    let worker = node.open_worker("python".to_owned(), takes, LONG).await.unwrap();
    let leased = node.lease_for(&worker, 1, LONG, None).await.unwrap().unwrap().pop().unwrap();
    let id = leased.job().unwrap().id;
    let by = LeaseProof { session: worker.session.id, epoch: leased.task.epoch };
    let ending = Ending { report: Report::Failed { retry_after: None }, note: Note::new("", []), result: None };
    node.end_job(ENVIRONMENT, id, by, ending).await.unwrap().unwrap();
    id
}

#[tokio::test(start_paused = true)]
async fn changes_of_batches_wake_whoever_their_work_is_for() {
    let (_store, line, node) = stage().await;
    let batch = BatchRecord::new(
        BatchId(node.new_id()),
        ApplicationId(Id::MIN),
        "import".to_owned(),
        "import".parse().unwrap(),
    );
    let id = batch.id;
    node.create_batch(SCOPE, NewBatch { batch, key: None }).await.unwrap();
    assert!(!line.woken().await, "a batch without jobs");
    let retry = RetryPolicy::new(Vec::new()).unwrap();
    enqueue(&node, Job { batch: Some(id), retry, ..job(&node) }).await;
    let dead = fail_next(&node).await;
    assert!(line.woken().await, "the death of a job is announced");
    node.seal_batch(SCOPE, id).await.unwrap();
    assert!(!line.woken().await, "the batch has failed, and said so");
    let resolve = |how| node.resolve_batch(SCOPE, Resolve { batch: id, jobs: vec![dead], how });
    resolve(Resolution::Retried).await.unwrap();
    assert!(line.woken().await, "a job is pending again");
    fail_next(&node).await;
    line.woken().await;
    resolve(Resolution::Skipped).await.unwrap();
    assert!(line.woken().await, "the end of the batch is announced");
    let page = node.metrics();
    assert!(page.lines().any(|line| line == "everhook_messages_accepted_total 3"), "{page}");
    node.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_is_run_by_hand_wakes_those_who_run_its_job() {
    let (_store, line, node) = stage().await;
    let cadence = Cadence::Every { every: LONG, anchor: Timestamp::default() };
    let record = ScheduleRecord {
        paused: true,
        ..ScheduleRecord::new(
            "tick".parse().unwrap(),
            Schedule::new(ScheduleId(node.new_id()), cadence),
            Starts::Job(Box::new(job(&node))),
        )
    };
    node.create(SCOPE, record, None).await.unwrap();
    assert!(!line.woken().await, "nothing is due");
    assert!(node.run_schedule(SCOPE, "tick".parse().unwrap()).await.unwrap().is_some());
    assert!(line.woken().await);
    let page = node.metrics();
    assert!(page.lines().any(|line| line == "everhook_jobs_enqueued_total 1"), "{page}");
    node.drain(Duration::ZERO).await;
}
