//! Old rows are pruned in small transactions, open work stays. The module also covers workers, which are sessions with
//! queues and kinds.

use everhook_core::delivery::DeliveryState;
use everhook_core::id::{MessageId, SessionId};
use everhook_core::job::OperatorCommand;
use everhook_core::lifecycle::NextRow;
use everhook_core::queue::Queue;
use everhook_core::role::Role;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Slice};
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::lease::{Appended, NewSession};
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::worker::Takes;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name, request_key};
use crate::conformance::job_stage::Ends;

/// Returns a time after the creation of all rows.
async fn later(fx: &Fixture) -> Timestamp {
    fx.store.now().await.unwrap().plus(HOUR)
}

/// Prunes two rows at a time until none is left.
async fn prune(fx: &Fixture, what: Prunable, before: Timestamp) -> usize {
    let mut total = 0;
    for _ in 0..1_000 {
        let pruned = fx.other.prune(Prune { what, before, limit: 2 }).await.unwrap();
        total += pruned;
        if pruned < 2 {
            return total;
        }
    }
    panic!("there is no end to it");
}

pub(super) async fn messages_that_are_done_are_forgotten(fx: &Fixture) {
    fx.endpoint().await;
    let session = fx.session().await;
    let mut done = Vec::new();
    for _ in 0..5 {
        done.push(fx.send().await);
        let leased = fx.lease_one(session).await;
        fx.end(&leased.task, session, NextRow::Gone).await;
    }
    let (waiting, dead) = (fx.send().await, fx.send().await);
    for leased in fx.lease(session).await {
        let row = if leased.task.key.subject == dead.0 { NextRow::Dead } else { NextRow::Pending { due_in: HOUR } };
        fx.end(&leased.task, session, row).await;
    }
    let began = fx.store.now().await.unwrap().minus(24 * HOUR);
    assert_eq!(prune(fx, Prunable::Messages, began).await, 0, "nothing is that old");
    assert!(prune(fx, Prunable::Messages, later(fx).await).await >= 5);
    for message in done {
        assert_eq!(fx.attempts(message).await, []);
        assert_eq!(fx.states(message).await, []);
    }
    assert_eq!(fx.state(waiting).await, DeliveryState::Pending);
    assert_eq!(fx.state(dead).await, DeliveryState::Dead);
    assert!(!fx.attempts(waiting).await.is_empty(), "what is open keeps its history");
    assert_eq!(prune(fx, Prunable::DeadDeliveries, began).await, 0);
    assert_eq!(prune(fx, Prunable::DeadDeliveries, later(fx).await).await, 1);
    prune(fx, Prunable::Messages, later(fx).await).await;
    assert_eq!(fx.states(dead).await, []);
    assert_eq!(fx.state(waiting).await, DeliveryState::Pending);
}

pub(super) async fn payloads_are_erased_when_their_time_is_over(fx: &Fixture) {
    fx.endpoint().await;
    let now = fx.store.now().await.unwrap();
    let until = async |payload_until| {
        let mut new = fx.message();
        new.message.rest.payload_until = payload_until;
        let id = new.message.id;
        fx.append_one(None, new).await;
        id
    };
    let (over, not_yet, plain) =
        (until(Some(now.minus(HOUR))).await, until(Some(now.plus(HOUR))).await, until(None).await);
    let and_over = until(Some(now.minus(2 * HOUR))).await;
    // The fixture repeats the case in the bystander's environment, where the same payloads expire.
    assert_eq!(prune(fx, Prunable::Payloads, Timestamp::default()).await, 4, "by their own time, whatever the age");
    assert_eq!(prune(fx, Prunable::Payloads, later(fx).await).await, 0);
    let leased = fx.lease(fx.session().await).await;
    let has_payload = |id: MessageId| {
        let of = leased.iter().find(|leased| leased.task.key.subject == id.0).expect("its delivery is open");
        of.message().expect("the message itself stays").payload.is_some()
    };
    assert_eq!([over, and_over, not_yet, plain].map(has_payload), [false, false, true, true]);
}

pub(super) async fn jobs_that_are_done_are_forgotten(fx: &Fixture) {
    let mut over = Vec::new();
    for _ in 0..3 {
        over.push(fx.work().await);
    }
    fx.end_jobs(Ends::Well).await;
    let cancelled = fx.work().await;
    fx.steer_job(cancelled, OperatorCommand::Cancel).await;
    over.push(cancelled);
    let dead = fx.work().await;
    fx.end_jobs(Ends::Dead).await;
    let running = fx.work().await;
    fx.lease_job(fx.session().await).await;
    let waiting = fx.work().await;
    let began = fx.store.now().await.unwrap().minus(24 * HOUR);
    assert_eq!(prune(fx, Prunable::Jobs, began).await, 0, "nothing is that old");
    assert!(prune(fx, Prunable::Jobs, later(fx).await).await >= 4);
    for id in over {
        assert_eq!(fx.read(query::FindJob { scope: fx.scope(), id }).await, None);
        assert_eq!(fx.read(query::JobAttempts { scope: fx.scope(), id, limit: PLENTY }).await, []);
        assert!(fx.read(query::FindJob { scope: Scope::of(fx.there), id }).await.is_some(), "there it is open");
    }
    for id in [dead, running, waiting] {
        assert!(fx.read(query::FindJob { scope: fx.scope(), id }).await.is_some());
    }
}

pub(super) async fn keys_are_forgotten_when_they_expire(fx: &Fixture) {
    let mut short = request_key("short", "body");
    short.kept = std::time::Duration::ZERO;
    let first = NewJob { key: Some(short), ..fx.job() };
    fx.store.enqueue([first].into()).await.unwrap();
    let long = NewJob { key: Some(request_key("long", "body")), ..fx.job() };
    let id = long.job.id;
    fx.store.enqueue([long.clone()].into()).await.unwrap();
    assert_eq!(prune(fx, Prunable::Keys, later(fx).await).await, 1, "by their own expiry, whatever the age");
    let again = NewJob { key: long.key.clone(), ..fx.job() };
    assert_eq!(fx.store.enqueue([again].into()).await.unwrap(), [Enqueued::Existing(id)]);
}

pub(super) async fn slots_that_nobody_uses_are_forgotten(fx: &Fixture) {
    fx.append_one(None, fx.message_once("run", None)).await;
    fx.append_one(None, fx.message_once("run", None)).await;
    let began = fx.store.now().await.unwrap().minus(24 * HOUR);
    assert_eq!(prune(fx, Prunable::OnceSlots, began).await, 0);
    assert!(prune(fx, Prunable::OnceSlots, later(fx).await).await >= 1);
    assert_eq!(fx.read(query::FindOnce { scope: fx.app_scope(), key: name("run") }).await, None);
    let answer = fx.append_one(None, fx.message_once("run", None)).await;
    assert!(matches!(answer, Appended::Accepted { .. }), "{answer:?}");
}

pub(super) async fn closed_sessions_that_hold_nothing_are_forgotten(fx: &Fixture) {
    let (holding, idle, open) = (fx.session().await, fx.session().await, fx.session().await);
    fx.work().await;
    fx.lease_job(holding).await;
    for session in [holding, idle] {
        fx.store.close_session(session).await.unwrap();
    }
    let began = fx.store.now().await.unwrap().minus(24 * HOUR);
    assert_eq!(prune(fx, Prunable::Sessions, began).await, 0);
    prune(fx, Prunable::Sessions, later(fx).await).await;
    let left: Vec<_> =
        fx.read(query::Sessions { closed_within: HOUR }).await.iter().map(|session| session.id).collect();
    assert!(left.contains(&holding) && left.contains(&open) && !left.contains(&idle), "{left:?}");
    // A lane that was pruned is created again with its next job.
    assert_eq!(fx.reclaim(open, PLENTY).await.len(), 1);
    fx.work().await;
    assert_eq!(fx.lease_jobs(open).await.len(), 1);
}

pub(super) async fn a_queue_stays_known_when_its_lanes_are_forgotten(fx: &Fixture) {
    let queues = ["plain", "keyed", "both"];
    let keyed = |queue: &str, key: Option<&str>| {
        let mut new = fx.job_on(queue);
        new.job.concurrency_key = key.map(str::to_owned);
        new
    };
    let jobs = [("plain", None), ("keyed", Some("a")), ("keyed", Some("b")), ("both", None), ("both", Some("a"))];
    for (queue, key) in jobs {
        fx.accept(keyed(queue, key)).await;
    }
    let session = fx.session().await;
    let leased = fx.lease_jobs_with(&fx.job_ask_of(session, &queues)).await.tasks;
    assert_eq!(leased.len(), jobs.len());
    for leased in leased {
        fx.end_job(&leased.task, session, Ends::Well).await;
    }
    // The lanes are empty, which the stores notice at the next lease.
    assert_eq!(fx.lease_jobs_with(&fx.job_ask_of(session, &queues)).await.tasks.len(), 0);
    prune(fx, Prunable::Sessions, later(fx).await).await;
    let slice = Slice { after: None, order: Order::Ascending, limit: PLENTY };
    let listed = fx.read(query::Queues { scope: fx.scope(), slice: slice.clone() }).await;
    assert_eq!(listed.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>(), ["both", "keyed", "plain"]);
    for queue in queues {
        let found = fx.read(query::FindQueue { scope: fx.scope(), name: name(queue) }).await;
        assert_eq!(found, Some(Queue::new(name(queue))));
    }
    fx.accept(keyed("keyed", Some("a"))).await;
    assert_eq!(fx.lease_jobs_with(&fx.job_ask_of(session, &queues)).await.tasks.len(), 1, "and takes jobs as before");
}

pub(super) async fn everything_can_be_pruned_when_there_is_nothing(fx: &Fixture) {
    for what in Prunable::ALL {
        assert_eq!(prune(fx, what, Timestamp::default()).await, 0, "{what:?}");
    }
}

pub(super) async fn a_worker_is_a_session_that_says_what_it_takes(fx: &Fixture) {
    let id = SessionId(fx.id());
    let session = NewSession {
        id,
        node: "mailer".to_owned(),
        role: Role::Worker,
        version: "py".to_owned(),
        lease: HOUR,
        takes: None,
    };
    let takes = Takes { environment: fx.here, queues: vec![name("q"), name("r")], kinds: vec![name("k")] };
    for _ in 0..2 {
        fx.store.open_session(NewSession { takes: Some(takes.clone()), ..session.clone() }).await.unwrap();
    }
    let found = fx.read(query::FindWorker { scope: fx.scope(), id }).await.expect("it was just opened");
    assert_eq!((found.takes.clone(), found.session.node.as_str()), (takes.clone(), "mailer"));
    assert_eq!(fx.read(query::FindWorker { scope: Scope::of(fx.there), id }).await, None);
    assert_eq!(fx.read(query::Workers { scope: fx.scope() }).await.len(), 1);
    assert_eq!(fx.read(query::Workers { scope: Scope::of(fx.there) }).await, []);
    let more = Takes { kinds: Vec::new(), ..takes };
    fx.store.set_takes(id, more.clone()).await.unwrap();
    assert_eq!(fx.read(query::FindWorker { scope: fx.scope(), id }).await.unwrap().takes, more);
    fx.work().await;
    assert_eq!(fx.lease_jobs(id).await.len(), 1);
    fx.store.close_session(id).await.unwrap();
    assert_eq!(fx.read(query::Workers { scope: fx.scope() }).await, []);
    let closed = fx.read(query::FindWorker { scope: fx.scope(), id }).await.expect("still known");
    assert!(closed.session.closed_at.is_some());
}
