//! Background tasks: cancelled while they run, or without an endpoint to send to.

use std::sync::Arc;

use everhook_core::background::BackgroundTask;
use everhook_core::background::replay::{Pick, Replay};
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
use everhook_store::store::{Layer, Layered, Op, Reads, Store};

use crate::engine::jobs::stage::{ENVIRONMENT, pause, server, store};

/// A store on which bulk work never comes to an end.
struct Endless;

impl Layer for Endless {
    async fn around<T: Send>(
        &self,
        _: Op,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        call.await
    }

    async fn advance(
        &self,
        _: &(impl Store + ?Sized),
        _: Scope,
        advance: Advance,
    ) -> Result<Result<Option<Advanced>, LeaseLost>, StoreError> {
        Ok(Ok(Some(Advanced { position: advance.from.advanced(1, None), changed: 1, is_last: false })))
    }
}

/// Starts a replay to an endpoint that does not exist.
async fn replay(engine: &Node) -> JobId {
    let (application, endpoint) = (ApplicationId(engine.new_id()), EndpointId(engine.new_id()));
    let (since, until) = (Timestamp::default(), engine.now());
    let task = BackgroundTask::Replay(Replay { application, endpoint, since, until, pick: Pick::Failed });
    let id = JobId(engine.new_id());
    engine.enqueue(vec![new_job(id, ENVIRONMENT, &task, None)]).await.unwrap();
    id
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

#[tokio::test]
async fn a_background_task_that_is_cancelled_while_it_runs_stops() {
    let store = Arc::new(Layered { store: store(), layer: Endless });
    let engine = server(&store, 1).await;
    let id = replay(&engine).await;
    until(&store, id, JobState::Leased).await;
    let cancel = Steer::Jobs { ids: vec![id], command: OperatorCommand::Cancel };
    engine.steer(Scope::of(SERVER_ENVIRONMENT), cancel).await.unwrap();
    let ended = until(&store, id, JobState::Cancelled).await;
    assert_eq!(error(ended), "the background task was cancelled");
    engine.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn a_replay_without_its_endpoint_ends_with_the_reason() {
    let store = store();
    let engine = server(&store, 1).await;
    let id = replay(&engine).await;
    let ended = until(&store, id, JobState::Cancelled).await;
    assert_eq!(error(ended), "the endpoint does not exist any more");
    engine.drain(std::time::Duration::ZERO).await;
}
