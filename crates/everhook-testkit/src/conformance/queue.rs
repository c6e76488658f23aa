//! A queue gives jobs within its limits, and is configured, counted and deleted.

use std::time::Duration;

use everhook_core::id::JobId;
use everhook_core::job::{JobState, OperatorCommand, RunAt};
use everhook_core::queue::{Queue, QueueState, Rate, Target};
use everhook_core::scope::Scope;
use everhook_core::signing::SigningKeys;
use everhook_store::catalog::{Order, Replaced, Slice};
use everhook_store::job::NewJob;
use everhook_store::lease::{LeaseAsk, Settled, Settlement};
use everhook_store::query;
use everhook_store::resource::{Deleted, ResourceKey};
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name};
use crate::conformance::job_stage::Ends;

pub(super) async fn no_more_than_its_room_is_taken_of_a_queue(fx: &Fixture) {
    for _ in 0..5 {
        fx.work().await;
    }
    let session = fx.session().await;
    let mut ask = fx.job_ask(session);
    ask.feeds[0].capacity = 2;
    assert_eq!(fx.lease_jobs_with(&ask).await.tasks.len(), 2);
    ask.feeds[0].capacity = 0;
    assert_eq!(fx.lease_jobs_with(&ask).await.tasks.len(), 0);
    assert_eq!(fx.lease_jobs_with(&LeaseAsk { limit: 2, ..fx.job_ask(session) }).await.tasks.len(), 2);
    assert_eq!(fx.lease_jobs(session).await.len(), 1);
}

pub(super) async fn a_limit_holds_over_all_sessions(fx: &Fixture) {
    fx.configure("q", |queue| queue.limit = Some(3)).await;
    for key in ["a", "b", "c", "d", "e", "f", "g"] {
        let mut new = fx.job();
        new.job.concurrency_key = Some(key.to_owned());
        fx.accept(new).await;
    }
    let (one, two) = (fx.session().await, fx.session().await);
    let mut ask = fx.job_ask(one);
    ask.feeds[0].capacity = 2;
    let first = fx.lease_jobs_with(&ask).await.tasks;
    assert_eq!(first.len(), 2);
    assert_eq!(fx.lease_jobs(two).await.len(), 1);
    let grant = fx.lease_jobs_with(&fx.job_ask(two)).await;
    assert!(grant.tasks.is_empty(), "{grant:?}");
    assert_ne!(grant.next_ready, Some(Duration::ZERO), "a full queue is not to be asked at once");
    // Every end of a job frees a place for one more.
    fx.end_job(&first[0].task, one, Ends::Well).await;
    let next = fx.lease_jobs(two).await;
    assert_eq!(next.len(), 1);
    fx.end_job(&next[0].task, two, Ends::Again).await;
    let next = fx.lease_jobs(two).await;
    assert_eq!(next.len(), 1);
    fx.end_job(&next[0].task, two, Ends::Dead).await;
    assert_eq!(fx.lease_jobs(two).await.len(), 1);
    // A reclaimed job may still run on its old worker, so it still counts.
    fx.store.close_session(one).await.unwrap();
    let taken = fx.reclaim(two, PLENTY).await;
    assert_eq!((taken.len(), fx.lease_jobs(two).await.len()), (1, 0));
}

pub(super) async fn a_limit_per_key_leaves_other_keys_alone(fx: &Fixture) {
    fx.configure("q", |queue| queue.key_limit = Some(1)).await;
    for key in [Some("a"), Some("a"), Some("b"), None, None] {
        let mut new = fx.job();
        new.job.concurrency_key = key.map(str::to_owned);
        fx.accept(new).await;
    }
    let session = fx.session().await;
    let jobs = fx.lease_jobs(session).await;
    let mut keys: Vec<_> = jobs.iter().filter_map(|leased| leased.job()?.concurrency_key.clone()).collect();
    keys.sort();
    assert_eq!(
        (jobs.len(), keys),
        (4, vec!["a".to_owned(), "b".to_owned()]),
        "without a key there is no limit per key"
    );
    let grant = fx.lease_jobs_with(&fx.job_ask(session)).await;
    assert!(grant.tasks.is_empty() && grant.next_ready != Some(Duration::ZERO), "{grant:?}");
    let first = jobs.iter().find(|leased| leased.job().unwrap().concurrency_key.as_deref() == Some("a"));
    fx.end_job(&first.unwrap().task, session, Ends::Well).await;
    assert_eq!(fx.lease_jobs(session).await.len(), 1);
}

pub(super) async fn a_rate_holds_over_all_sessions(fx: &Fixture) {
    let rate = Rate::per_second(1.0 / 3600.0).unwrap();
    fx.configure("q", |queue| queue.rate = Some(rate)).await;
    for _ in 0..3 {
        fx.work().await;
    }
    assert_eq!(fx.lease_jobs(fx.session().await).await.len(), 1);
    let grant = fx.lease_jobs_with(&fx.job_ask(fx.session().await)).await;
    assert!(grant.tasks.is_empty(), "{grant:?}");
    assert!(grant.next_ready.is_some_and(|wait| wait > HOUR / 2 && wait <= HOUR), "{grant:?}");
}

pub(super) async fn a_rate_is_not_used_up_by_asking(fx: &Fixture) {
    fx.configure("q", |queue| queue.rate = Some(Rate::per_second(1.0 / 3600.0).unwrap())).await;
    fx.accept(fx.job_on("other")).await;
    let session = fx.session().await;
    assert_eq!(fx.lease_jobs(session).await.len(), 0);
    fx.work().await;
    assert_eq!(fx.lease_jobs(session).await.len(), 1);
}

pub(super) async fn a_paused_queue_gives_nothing_until_it_is_resumed(fx: &Fixture) {
    fx.work().await;
    fx.configure("q", |queue| queue.state = QueueState::Paused).await;
    let session = fx.session().await;
    let grant = fx.lease_jobs_with(&fx.job_ask(session)).await;
    assert!(grant.tasks.is_empty() && grant.next_ready.is_none(), "{grant:?}");
    fx.work().await;
    assert_eq!(fx.lease_jobs(session).await.len(), 0, "what comes in waits, too");
    fx.configure("q", |queue| queue.state = QueueState::Open).await;
    assert_eq!(fx.lease_jobs(session).await.len(), 2);
}

pub(super) async fn a_target_that_wants_no_more_stops_its_queue(fx: &Fixture) {
    let target = Target { url: "https://example.com/work".to_owned(), keys: SigningKeys::default() };
    fx.configure("q", |queue| queue.target = Some(target.clone())).await;
    fx.work().await;
    assert_eq!(fx.read(query::PushQueues {}).await, [(fx.here, name("q"))]);
    let session = fx.session().await;
    let leased = fx.lease_job(session).await;
    assert_eq!(leased.target().map(|target| &**target), Some(&target));
    let stop = Settlement { stop_lane: true, ..fx.job_end(&leased.task, session, Ends::Again) };
    assert_eq!(fx.settle(&stop).await, Settled::Done);
    let queue = fx.read(query::FindQueue { scope: fx.scope(), name: name("q") }).await.unwrap();
    assert_eq!((queue.state, queue.target), (QueueState::Stopped, Some(target)));
    assert_eq!(fx.read(query::PushQueues {}).await, []);
    assert_eq!(fx.lease_jobs(session).await.len(), 0);
    let there = fx.read(query::FindQueue { scope: Scope::of(fx.there), name: name("q") }).await.unwrap();
    assert_eq!(there.state, QueueState::Open, "the other environment's is another queue");
}

pub(super) async fn queues_are_known_by_configuration_or_by_their_jobs(fx: &Fixture) {
    fx.configure("configured", |queue| queue.limit = Some(2)).await;
    fx.accept(fx.job_on("used")).await;
    let slice = |after: Option<&str>, order| Slice { after: after.map(name), order, limit: PLENTY };
    let names = async |slice| {
        let queues = fx.read(query::Queues { scope: fx.scope(), slice }).await;
        queues.into_iter().map(|queue| queue.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(slice(None, Order::Ascending)).await, ["configured", "used"]);
    assert_eq!(names(slice(None, Order::Descending)).await, ["used", "configured"]);
    assert_eq!(names(slice(Some("configured"), Order::Ascending)).await, ["used"]);
    assert_eq!(fx.read(query::FindQueue { scope: fx.scope(), name: name("nobody") }).await, None);
    assert_eq!(fx.read(query::FindQueue { scope: Scope::of(fx.there), name: name("configured") }).await, None);
    let used = fx.read(query::FindQueue { scope: fx.scope(), name: name("used") }).await.unwrap();
    assert_eq!(used, Queue::new(name("used")));
}

pub(super) async fn two_changes_of_a_queue_do_not_undo_each_other(fx: &Fixture) {
    let queue = fx.configure("q", |queue| queue.limit = Some(2)).await;
    assert_eq!((queue.limit, queue.revision), (Some(2), 1));
    let fresh = fx.other.replace(fx.scope(), Queue::new(name("q"))).await.unwrap();
    assert_eq!(fresh, Replaced::Stale, "someone has configured it");
    let rate = Rate::per_second(2.5).unwrap();
    let changed = Queue { rate: Some(rate), key_limit: Some(7), ..queue.clone() };
    assert!(matches!(fx.other.replace(fx.scope(), changed.clone()).await.unwrap(), Replaced::Done(_)));
    assert_eq!(fx.other.replace(fx.scope(), changed.clone()).await.unwrap(), Replaced::Stale);
    let found = fx.read(query::FindQueue { scope: fx.scope(), name: name("q") }).await.unwrap();
    assert_eq!((found.limit, found.key_limit, found.rate, found.revision), (Some(2), Some(7), Some(rate), 2));
}

pub(super) async fn a_queue_is_deleted_once_no_job_of_it_is_open(fx: &Fixture) {
    let delete = async || fx.store.delete(fx.scope(), ResourceKey::Queue(name("q"))).await.unwrap();
    assert_eq!(delete().await, Deleted::NotFound);
    fx.configure("q", |queue| queue.limit = Some(2)).await;
    fx.accept(fx.job_on("other")).await;
    let mut keyed = fx.job();
    keyed.job.concurrency_key = Some("acme".to_owned());
    fx.accept(keyed).await;
    fx.accept(fx.job()).await;
    assert_eq!(delete().await, Deleted::HasJobs, "two wait");
    let session = fx.session().await;
    let leased = fx.lease_jobs(session).await;
    let [first, second] = leased.as_slice() else { panic!("{leased:?}") };
    assert_eq!(delete().await, Deleted::HasJobs, "two run");
    fx.end_job(&first.task, session, Ends::Well).await;
    fx.end_job(&second.task, session, Ends::Dead).await;
    assert_eq!(delete().await, Deleted::HasJobs, "one is dead");
    let found = fx.read(query::FindQueue { scope: fx.scope(), name: name("q") }).await.unwrap();
    assert_eq!(found.limit, Some(2), "and it is as it was");
    let dead = JobId(second.task.key.subject);
    fx.steer_job(dead, OperatorCommand::Delete).await;

    assert_eq!(delete().await, Deleted::Done);
    assert_eq!(fx.read(query::FindQueue { scope: fx.scope(), name: name("q") }).await, None);
    assert_eq!(delete().await, Deleted::NotFound);
    assert!(
        fx.read(query::FindQueue { scope: Scope::of(fx.there), name: name("q") }).await.is_some(),
        "the other environment's is another"
    );
    assert!(fx.read(query::FindQueue { scope: fx.scope(), name: name("other") }).await.is_some());
    let done = fx.read(query::FindJob { scope: fx.scope(), id: JobId(first.task.key.subject) }).await.unwrap();
    assert_eq!(done.state, JobState::Succeeded, "records stay");

    let again = fx.accept(fx.job()).await;
    let leased = fx.lease_job(session).await;
    assert_eq!(JobId(leased.task.key.subject), again, "the next job makes it anew");
    assert_eq!(
        fx.read(query::FindQueue { scope: fx.scope(), name: name("q") }).await,
        Some(Queue::new(name("q"))),
        "without limits"
    );
}

pub(super) async fn statistics_tell_what_is_in_a_queue(fx: &Fixture) {
    fx.accept(NewJob { run_at: RunAt::In(HOUR), ..fx.job() }).await;
    let session = fx.session().await;
    fx.work().await;
    let leased = fx.lease_job(session).await;
    fx.end_job(&leased.task, session, Ends::Dead).await;
    fx.work().await;
    fx.lease_job(session).await;
    fx.work().await;
    let stats = fx.read(query::CountQueue { scope: fx.scope(), name: name("q") }).await;
    assert_eq!((stats.pending, stats.due, stats.running, stats.dead), (2, 1, 1, 1));
    assert!(stats.oldest_due.is_some());
    assert_eq!(stats.due_kinds, [name("k")]);
    let nothing = fx.read(query::CountQueue { scope: fx.scope(), name: name("nobody") }).await;
    assert_eq!((nothing.pending, nothing.oldest_due), (0, None));
}
