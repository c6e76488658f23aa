//! Groups of new work: their forming while the store is busy, and those that the store refuses.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EndpointId, Id};
use everhook_core::job::RunAt;
use everhook_core::role::Role;
use everhook_core::time::Timestamp;
use everhook_engine::config::{JobsConfig, NodeConfig};
use everhook_engine::intake::AcceptError;
use everhook_engine::node::Node;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::lease::Appended;
use everhook_store::store::Op;
use tokio::time::Instant;

use crate::engine::faulty::{Fault, Faulty};
use crate::engine::fixture::{ENVIRONMENT, add_endpoint, config, engine_with, message, store};
use crate::engine::jobs::stage::job;

/// Starts a node that does not deliver.
async fn stage() -> (Arc<Faulty>, Arc<Node>) {
    let store = store();
    add_endpoint(&store, "http://127.0.0.1/hook");
    let jobs = Some(JobsConfig { schedules: false, ..JobsConfig::default() });
    let node = engine_with(&store, 1, NodeConfig { role: Role::Api, jobs, ..config("api") }).await;
    (store, node)
}

/// Sends three messages in one transaction with these faults. Returns the answers and the number of appends.
async fn accept_three(faults: &[Fault]) -> (Vec<&'static str>, usize) {
    let (store, node) = stage().await;
    faults.iter().for_each(|fault| store.layer.plan(Op::Append, *fault));
    let (first, second, third) =
        tokio::join!(node.accept(message("1")), node.accept(message("2")), node.accept(message("3")));
    let answers = [first, second, third].map(|answer| match answer {
        Ok(Appended::Accepted { .. }) => "accepted",
        Err(AcceptError::Store(StoreError::Refused { .. })) => "refused",
        Err(AcceptError::Store(StoreError::Unavailable { .. })) => "unavailable",
        other => panic!("{other:?}"),
    });
    let accepted = answers.iter().filter(|answer| **answer == "accepted").count();
    assert_eq!(store.store.dump().messages.len(), accepted, "{answers:?}");
    node.drain(Duration::ZERO).await;
    (answers.to_vec(), store.layer.calls(Op::Append))
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_store_refuses_harms_only_itself() {
    assert_eq!(accept_three(&[]).await, (vec!["accepted"; 3], 1), "one transaction");
    assert_eq!(accept_three(&[Fault::Refused]).await, (vec!["accepted"; 3], 4));
    let (answers, appends) = accept_three(&[Fault::Refused, Fault::Refused]).await;
    assert_eq!((answers, appends), (vec!["refused", "accepted", "accepted"], 4));
}

#[tokio::test(start_paused = true)]
async fn messages_beside_an_append_that_hangs_share_the_next_one() {
    let (store, node) = stage().await;
    store.layer.plan(Op::Append, Fault::Hangs);
    let accept = async |after_ms, payload| {
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        node.accept(message(payload)).await
    };
    let (first, second, third) = tokio::join!(accept(0, "1"), accept(1, "2"), accept(3, "3"));
    assert!(matches!(first, Err(AcceptError::Store(StoreError::InDoubt { .. }))), "{first:?}");
    for answer in [second, third] {
        assert!(matches!(answer, Ok(Appended::Accepted { .. })), "{answer:?}");
    }
    assert_eq!(store.layer.calls(Op::Append), 2, "one that hangs, and one for the others");
}

/// A node that knows an application with many endpoints, and one with a single endpoint.
struct Crowded {
    store: Arc<Faulty>,
    node: Arc<Node>,
    large: ApplicationId,
    small: ApplicationId,
}

impl Crowded {
    async fn start(endpoints: usize) -> Crowded {
        let (store, node) = stage().await;
        let large = ApplicationId(Id::MIN.successor());
        store.store.put_application(ENVIRONMENT, large);
        for id in std::iter::successors(Some(large.0), |id| Some(id.successor())).take(endpoints) {
            let url = "http://127.0.0.1/hook".to_owned();
            store.store.put_endpoint(ENVIRONMENT, Endpoint::new(EndpointId(id), large, url, Timestamp::default()));
        }
        let crowded = Crowded { store, node, large, small: ApplicationId(Id::MIN) };
        // The node learns the number of endpoints from the first message.
        assert_eq!(crowded.accept(0, large).await, (Duration::ZERO, "accepted"));
        crowded
    }

    /// Sends a message after some time. Returns how long its caller waited, and the answer.
    async fn accept(&self, after_ms: u64, application: ApplicationId) -> (Duration, &'static str) {
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        let mut new = message("1");
        new.message.application = application;
        let begun = Instant::now();
        let answer = match self.node.accept(new).await {
            Ok(Appended::Accepted { .. }) => "accepted",
            Err(AcceptError::Overloaded) => "overloaded",
            Err(AcceptError::Store(StoreError::InDoubt { .. })) => "in doubt",
            other => panic!("{other:?}"),
        };
        (begun.elapsed(), answer)
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_an_application_with_many_endpoints_delay_no_others() {
    let it = Crowded::start(101).await;
    it.store.layer.plan(Op::Append, Fault::Hangs);
    let ((_, first), second, third) =
        tokio::join!(it.accept(0, it.large), it.accept(1, it.small), it.accept(2, it.large));
    assert_eq!(first, "in doubt", "its append hangs");
    assert_eq!(second, (Duration::ZERO, "accepted"), "it waits for no message of the large application");
    assert_eq!(third, (Duration::from_millis(200), "accepted"), "it has waited for the one before it");
}

#[tokio::test(start_paused = true)]
async fn large_messages_whose_callers_left_delay_no_others() {
    let it = Crowded::start(501).await;
    it.store.layer.plan(Op::Append, Fault::Hangs);
    let leaves = || tokio::time::timeout(Duration::from_millis(50), it.accept(1, it.large));
    let (_, first, second, stays) = tokio::join!(it.accept(0, it.large), leaves(), leaves(), it.accept(2, it.large));
    assert!(first.is_err() && second.is_err());
    assert_eq!(stays.1, "accepted");
    assert!(stays.0 <= Duration::from_millis(400), "each of the others would have a group of its own: {stays:?}");
    assert_eq!(it.store.layer.calls(Op::Append), 3);
}

#[tokio::test(start_paused = true)]
async fn repeated_requests_do_not_make_large_messages_share_a_transaction() {
    let it = Crowded::start(501).await;
    let mut keyed = message("1");
    keyed.message.application = it.large;
    keyed.keys = vec![DedupKey::request("POST", "/msg", "key", b"1")];
    assert!(matches!(it.node.accept(keyed.clone()).await, Ok(Appended::Accepted { .. })));
    assert!(matches!(it.node.accept(keyed).await, Ok(Appended::Repeated(_))));
    it.store.layer.plan(Op::Append, Fault::Hangs);
    let (_, second, third) = tokio::join!(it.accept(0, it.large), it.accept(1, it.large), it.accept(1, it.large));
    assert_eq!((second.1, third.1), ("accepted", "accepted"));
    assert_eq!(it.store.layer.calls(Op::Append), 6, "one for each message");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_large_messages_refuses_them_and_no_others() {
    let it = Crowded::start(501).await;
    (0..2).for_each(|_| it.store.layer.plan(Op::Append, Fault::Hangs));
    let crowd = futures_util::future::join_all((0..4200).map(|_| it.accept(0, it.large)));
    let ((), large, small) =
        tokio::join!(async { drop(crowd.await) }, it.accept(1000, it.large), it.accept(1000, it.small));
    assert_eq!(large, (Duration::ZERO, "overloaded"));
    assert_eq!(small, (Duration::ZERO, "accepted"));
}

#[tokio::test(start_paused = true)]
async fn no_message_of_a_refused_group_goes_past_one_that_failed() {
    let (answers, appends) = accept_three(&[Fault::Refused, Fault::NotDone]).await;
    assert_eq!((answers, appends), (vec!["unavailable"; 3], 2));
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_refused_group_are_written_by_request() {
    let (store, node) = stage().await;
    store.layer.plan(Op::Enqueue, Fault::Refused);
    store.layer.plan(Op::Enqueue, Fault::Refused);
    let request = |count: usize| -> Vec<NewJob> {
        let new = || NewJob { environment: ENVIRONMENT, job: job(&node), run_at: RunAt::Now, key: None };
        std::iter::repeat_with(new).take(count).collect()
    };
    let (bad, good) = tokio::join!(node.enqueue(request(1)), node.enqueue(request(2)));
    assert!(matches!(bad, Err(AcceptError::Store(StoreError::Refused { .. }))), "{bad:?}");
    assert!(matches!(good.unwrap()[..], [Enqueued::Accepted { .. }, Enqueued::Accepted { .. }]));
    assert_eq!((store.layer.calls(Op::Enqueue), store.store.dump().jobs.len()), (3, 2));
    node.drain(Duration::ZERO).await;
}
