//! Jobs that are pushed to the target of their queue.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::job::report::Note;
use everhook_core::job::{Job, JobState};
use everhook_core::queue::{Queue, QueueState, Target as QueueTarget};
use everhook_core::scope::Scope;
use everhook_core::signing::SigningKeys;
use everhook_core::time::Timestamp;
use everhook_sqlite::SqliteStore;

use crate::engine::jobs::stage::{
    ENVIRONMENT, QUEUE, Target, attempts, classes, enqueue, find, job, pause, server_over, store, until,
};
use everhook_store::query;
use everhook_store::store::{Reads, Resources};

async fn point(store: &SqliteStore, keys: &SigningKeys) {
    let target = Some(QueueTarget { url: "https://example.com/jobs".to_owned(), keys: keys.clone() });
    let queue = Queue { target, ..Queue::new(QUEUE.parse().unwrap()) };
    store.replace(Scope::of(ENVIRONMENT), queue.clone()).await.unwrap();
}

fn answering(answers: &[(u16, Option<&'static str>)]) -> Arc<Target> {
    Arc::new(Target { answers: answers.to_vec().into(), ..Target::default() })
}

#[tokio::test]
async fn a_job_is_pushed_signed_and_done_when_the_target_takes_it() {
    let (store, target, keys) = (store(), answering(&[(500, None), (204, None)]), SigningKeys::default());
    point(&store, &keys).await;
    let engine = server_over(&store, 1, Arc::clone(&target)).await;
    let id = enqueue(&engine, job(&engine)).await;
    until(&store, id, JobState::Succeeded).await;
    assert_eq!(classes(&store, id).await, ["status", "success"]);
    let attempts = attempts(&store, id).await;
    assert_eq!((attempts[0].status, attempts[1].status), (500, 204));
    assert_eq!(Note::from_bytes(&attempts[0].note).error(), "the target answered 500: so it is");
    assert_eq!(Note::from_bytes(&attempts[1].note).error(), "", "what a target says when all is well is no error");
    let requests = std::mem::take(&mut *target.requests.lock().unwrap());
    assert_eq!(requests.len(), 2);
    let header = |name: &str| requests[1].headers[name].to_str().unwrap().to_owned();
    assert_eq!(requests[1].url, "https://example.com/jobs");
    assert_eq!(&requests[1].body[..], b"{\"to\": \"a\"}");
    assert_eq!((header("webhook-id"), header("everhook-attempt")), (id.to_string(), "2".to_owned()));
    assert_eq!((header("everhook-queue"), header("everhook-kind")), (QUEUE.to_owned(), "send".to_owned()));
    let signed_at = Timestamp::from_millis(header("webhook-timestamp").parse::<i64>().unwrap() * 1000);
    assert_eq!(header("webhook-signature"), keys.sign(&id.to_string(), signed_at, &requests[1].body));
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_target_that_is_gone_stops_its_queue_and_keeps_its_jobs() {
    let (store, target) = (store(), answering(&[(410, None), (200, None)]));
    point(&store, &SigningKeys::default()).await;
    let engine = server_over(&store, 1, target).await;
    let id = enqueue(&engine, job(&engine)).await;
    let queue = loop {
        let queue = store
            .read(query::FindQueue { scope: Scope::of(ENVIRONMENT), name: QUEUE.parse().unwrap() })
            .await
            .unwrap()
            .unwrap();
        if queue.state == QueueState::Stopped {
            break queue;
        }
        pause().await;
    };
    let waiting = until(&store, id, JobState::Pending).await;
    assert_eq!(waiting.open.unwrap().task.tries, 0);
    assert_eq!(classes(&store, id).await, ["gone"]);
    engine.replace(Scope::of(ENVIRONMENT), Queue { state: QueueState::Open, ..queue }).await.unwrap();
    until(&store, id, JobState::Succeeded).await;
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_target_is_left_alone_for_as_long_as_it_asks() {
    let (store, target) = (store(), answering(&[(503, Some("3600")), (200, None)]));
    point(&store, &SigningKeys::default()).await;
    let engine = server_over(&store, 1, target).await;
    let id = enqueue(&engine, Job { ..job(&engine) }).await;
    while classes(&store, id).await.is_empty() {
        pause().await;
    }
    let open = find(&store, id).await.open.unwrap();
    let attempt = &attempts(&store, id).await[0];
    assert!(open.task.due_at.since(attempt.started_at) >= Duration::from_secs(3600), "{:?}", open.task.due_at);
    engine.drain(Duration::ZERO).await;
}
