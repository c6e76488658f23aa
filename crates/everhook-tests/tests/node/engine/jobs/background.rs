//! Background tasks: cancelled while they run or pause, interrupted by a stop, or without an endpoint to send to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everhook_core::background::replay::{Pick, Replay};
use everhook_core::background::selection::BulkSelection;
use everhook_core::background::{BackgroundTask, Bulk, BulkAction, Effect};
use everhook_core::id::{ApplicationId, EndpointId, JobId, SERVER_ENVIRONMENT};
use everhook_core::job::report::Note;
use everhook_core::job::{JobState, LeaseLost, OperatorCommand};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_engine::background::new_job;
use everhook_engine::node::Node;
use everhook_store::background::{Advance, Advanced};
use everhook_store::error::StoreError;
use everhook_store::job::JobRecord;
use everhook_store::query;
use everhook_store::steer::Steer;
use everhook_store::store::{Layer, Layered, Reads, Store};

use crate::engine::jobs::stage::{ENVIRONMENT, pause, server, store};

/// A store on which bulk work never comes to an end.
#[derive(Default)]
struct Endless {
    slices: AtomicUsize,
}

impl Layer for Endless {
    async fn advance(
        &self,
        _: &(impl Store + ?Sized),
        _: Scope,
        advance: Advance,
    ) -> Result<Result<Option<Advanced>, LeaseLost>, StoreError> {
        self.slices.fetch_add(1, Ordering::Relaxed);
        // At a rate of one per second, the pause after a slice takes an hour.
        let changed = 3600;
        Ok(Ok(Some(Advanced { position: advance.from.advanced(changed, None), changed, is_last: false })))
    }
}

/// Starts a replay to an endpoint that does not exist.
async fn replay(engine: &Node) -> JobId {
    let (application, endpoint) = (ApplicationId(engine.new_id()), EndpointId(engine.new_id()));
    let (since, until) = (Timestamp::default(), engine.now());
    let task = BackgroundTask::Replay(Replay { application, endpoint, since, until, pick: Pick::Failed });
    begin(engine, &task).await
}

/// Starts a cancellation whose pauses are longer than any test.
async fn slow_cancellation(engine: &Node) -> JobId {
    let selection = BulkSelection {
        application: ApplicationId(engine.new_id()),
        endpoint: EndpointId(engine.new_id()),
        since: Timestamp::default(),
        until: engine.now(),
        event_types: Vec::new(),
        channel: None,
        tag: None,
    };
    let bulk = Bulk { action: BulkAction::Cancel(selection), effect: Effect::Apply, rate: Some(1) };
    begin(engine, &BackgroundTask::Bulk(bulk)).await
}

async fn begin(engine: &Node, task: &BackgroundTask) -> JobId {
    let id = JobId(engine.new_id());
    engine.enqueue(vec![new_job(id, ENVIRONMENT, task, None)]).await.unwrap();
    id
}

/// Waits until the first slice is done.
async fn until_paused(layer: &Endless) {
    while layer.slices.load(Ordering::Relaxed) == 0 {
        pause().await;
    }
}

/// Waits until the job is in this state, and returns it.
async fn until(store: &Arc<impl Store>, id: JobId, state: JobState) -> JobRecord {
    loop {
        let scope = Scope::of(SERVER_ENVIRONMENT);
        let found = store.read(query::FindJob { scope, id }).await.unwrap().unwrap();
        if found.state == state {
            return found;
        }
        pause().await;
    }
}

fn error(record: JobRecord) -> String {
    Note::from_bytes(&record.last.expect("it was attempted").note).error().to_owned()
}

/// Cancels a background task, which must stop.
async fn cancel(store: &Arc<impl Store>, engine: &Node, id: JobId) {
    let cancel = Steer::Jobs { ids: vec![id], command: OperatorCommand::Cancel };
    engine.steer(Scope::of(SERVER_ENVIRONMENT), cancel).await.unwrap();
    let ended = until(store, id, JobState::Cancelled).await;
    assert_eq!(error(ended), "the background task was cancelled");
}

#[tokio::test]
async fn a_background_task_that_is_cancelled_while_it_runs_stops() {
    let store = Arc::new(Layered { store: store(), layer: Endless::default() });
    let engine = server(&store, 1).await;
    let id = replay(&engine).await;
    until(&store, id, JobState::Leased).await;
    cancel(&store, &engine, id).await;
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_pause_of_bulk_work_ends_when_it_is_cancelled() {
    let store = Arc::new(Layered { store: store(), layer: Endless::default() });
    let engine = server(&store, 1).await;
    let id = slow_cancellation(&engine).await;
    until_paused(&store.layer).await;
    cancel(&store, &engine, id).await;
    assert_eq!(store.layer.slices.load(Ordering::Relaxed), 1);
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_pause_of_bulk_work_does_not_delay_a_stop() {
    let store = Arc::new(Layered { store: store(), layer: Endless::default() });
    let engine = server(&store, 1).await;
    let id = slow_cancellation(&engine).await;
    until_paused(&store.layer).await;
    engine.drain(Duration::from_secs(60)).await;
    let interrupted = until(&store, id, JobState::Pending).await;
    assert_eq!(error(interrupted), "the server stopped before the background task ended");
}

#[tokio::test]
async fn a_replay_without_its_endpoint_ends_with_the_reason() {
    let store = store();
    let engine = server(&store, 1).await;
    let id = replay(&engine).await;
    let ended = until(&store, id, JobState::Cancelled).await;
    assert_eq!(error(ended), "the endpoint does not exist any more");
    engine.drain(Duration::ZERO).await;
}
