//! The tasks of an open session are never taken over; those of a closed session are.

use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::lifecycle::NextRow;
use everhook_core::role::Role;
use everhook_store::lease::{Reclaim, ReclaimAsk, Reclaimed, Renewed, SessionRecord, Settlement};
use everhook_store::query;

use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast};

async fn is_open(fx: &Fixture, session: SessionId) -> bool {
    matches!(fx.store.renew_session(session).await.unwrap(), Renewed::Open(_))
}

pub(super) async fn close_expired(fx: &Fixture) -> Vec<SessionId> {
    let mut closed = fx.other.close_expired(HOUR).await.unwrap();
    closed.sort();
    closed
}

pub(super) async fn the_clock_does_not_run_backwards(fx: &Fixture) {
    let before = fx.store.now().await.unwrap();
    let session = fx.session().await;
    let Renewed::Open(renewed) = fx.store.renew_session(session).await.unwrap() else { panic!("it is open") };
    let after = fx.store.now().await.unwrap();
    assert!(before <= renewed && renewed <= after);
}

pub(super) async fn a_closed_session_never_renews(fx: &Fixture) {
    let session = fx.session().await;
    assert!(is_open(fx, session).await);
    fx.store.close_session(session).await.unwrap();
    assert!(!is_open(fx, session).await);
    fx.open(session, HOUR).await;
    assert!(!is_open(fx, session).await, "opening it again does not bring it back");
    fx.store.close_session(session).await.unwrap();
    assert!(!is_open(fx, session).await);
}

pub(super) async fn an_unknown_session_does_not_renew(fx: &Fixture) {
    let stranger = SessionId(fx.id());
    assert!(!is_open(fx, stranger).await);
    fx.store.close_session(stranger).await.unwrap();
}

pub(super) async fn opening_a_session_twice_is_harmless(fx: &Fixture) {
    let session = fx.session().await;
    fx.open(session, Duration::ZERO).await;
    assert_eq!(close_expired(fx).await, [], "it keeps its first lease");
    assert!(is_open(fx, session).await);
}

pub(super) async fn only_sessions_past_their_lease_are_closed_by_others(fx: &Fixture) {
    let living = fx.session().await;
    let mut expired = [fx.expired_session().await, fx.expired_session().await];
    expired.sort();
    assert_eq!(close_expired(fx).await, expired);
    assert_eq!(close_expired(fx).await, [], "each is closed once");
    assert!(is_open(fx, living).await);
    assert!(!is_open(fx, expired[0]).await);
}

/// A node that has just come back cannot know whether the holder was able to reach a server to renew its session.
pub(super) async fn a_session_with_a_lease_longer_than_its_closer_was_steady_goes_on(fx: &Fixture) {
    const LEASE: Duration = Duration::from_millis(2);
    let session = SessionId(fx.id());
    fx.open(session, LEASE).await;
    let opened = fx.store.now().await.unwrap();
    while fx.store.now().await.unwrap().since(opened) <= LEASE {
        tokio::task::yield_now().await;
    }
    assert_eq!(fx.other.close_expired(LEASE / 2).await.unwrap(), []);
    assert_eq!(fx.other.close_expired(LEASE).await.unwrap(), [session]);
}

pub(super) async fn an_expired_session_goes_on_if_nobody_closed_it(fx: &Fixture) {
    let session = fx.expired_session().await;
    assert!(is_open(fx, session).await);
}

pub(super) async fn nothing_is_taken_from_an_open_session_even_past_its_lease(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    let (slow, sweeper) = (fx.expired_session().await, fx.session().await);
    let leased = fx.lease_one(slow).await;
    assert_eq!(fx.reclaim(sweeper, PLENTY).await, []);
    assert_eq!(close_expired(fx).await, [slow]);
    let taken = fx.reclaim(sweeper, PLENTY).await;
    assert_eq!(taken.iter().map(|task| task.key).collect::<Vec<_>>(), [leased.task.key]);
}

pub(super) async fn sessions_are_listed_with_what_they_hold(fx: &Fixture) {
    let bystanders = fx.read(query::Sessions { closed_within: HOUR }).await;
    fx.endpoint().await;
    fx.send().await;
    let (holder, idle) = (SessionId(fx.id()), SessionId(fx.id()));
    let before = fx.store.now().await.unwrap();
    fx.open_as(holder, HOUR, Role::Worker).await;
    fx.open_as(idle, HOUR, Role::Api).await;
    let leased = fx.lease_one(holder).await;
    let list = async |closed_within| {
        let mut sessions = fx.read(query::Sessions { closed_within }).await;
        sessions.retain(|session| bystanders.iter().all(|known| known.id != session.id));
        sessions
    };
    let sessions = list(Duration::ZERO).await;
    let told = |sessions: &[SessionRecord]| sessions.iter().map(|one| (one.id, one.role, one.held)).collect::<Vec<_>>();
    assert_eq!(told(&sessions), [(holder, Role::Worker, 1), (idle, Role::Api, 0)], "oldest first");
    let first = &sessions[0];
    assert_eq!((first.node.as_str(), first.version.as_str(), first.lease), ("node:1", "0.0.0", HOUR));
    assert!(before <= first.started_at && first.started_at == first.renewed_at && first.closed_at.is_none());
    let Renewed::Open(renewed) = fx.store.renew_session(idle).await.unwrap() else { panic!("it is open") };
    assert_eq!(list(Duration::ZERO).await[1].renewed_at, renewed);

    fx.store.close_session(holder).await.unwrap();
    assert_eq!(told(&list(Duration::ZERO).await), [(idle, Role::Api, 0)]);
    let sessions = list(HOUR).await;
    assert_eq!(told(&sessions), [(holder, Role::Worker, 1), (idle, Role::Api, 0)], "what it held waits");
    assert!(sessions[0].closed_at.is_some_and(|at| at >= renewed));
    let taken = fx.reclaim(idle, PLENTY).await;
    assert_eq!(taken.iter().map(|task| task.key).collect::<Vec<_>>(), [leased.task.key]);
    assert_eq!(told(&list(HOUR).await), [(holder, Role::Worker, 0), (idle, Role::Api, 1)]);
}

pub(super) async fn what_a_closed_session_held_is_taken_over_once_with_a_new_epoch(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    let (first, second) = (fx.session().await, fx.session().await);
    let leased = fx.lease_one(first).await;
    let retry = fx.settlement(&leased.task, first, NextRow::Pending { due_in: Duration::ZERO });
    fx.settle(&Settlement { tries: 4, crashes: 1, ..retry }).await;
    let held = fx.lease_one(first).await.task;
    fx.store.close_session(first).await.unwrap();
    let taken = fx.reclaim(second, PLENTY).await;
    let [task] = taken[..] else { panic!("{taken:?}") };
    assert_eq!((task.key, task.lane, task.trigger), (held.key, held.lane, held.trigger));
    assert_eq!((task.tries, task.crashes, task.epoch), (4, 1, held.epoch + 1));
    let third = fx.session().await;
    assert_eq!(fx.reclaim(third, PLENTY).await, []);
    fx.store.close_session(second).await.unwrap();
    let taken = fx.reclaim(third, PLENTY).await;
    assert_eq!(taken.iter().map(|task| task.epoch).collect::<Vec<_>>(), [held.epoch + 2]);
    fx.end(&taken[0], third, NextRow::Gone).await;
}

/// The attempt log names the crashed holder.
pub(super) async fn a_takeover_tells_who_held_the_task_and_since_when(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    let (first, second, third) = (fx.session().await, fx.session().await, fx.session().await);
    let before = fx.store.now().await.unwrap();
    fx.lease_one(first).await;
    let leased = fx.store.now().await.unwrap();
    fx.store.close_session(first).await.unwrap();
    let taken = fx.store.reclaim(ReclaimAsk { session: second, limit: PLENTY, what: Reclaim::Orphaned }).await.unwrap();
    let [Reclaimed { from, .. }] = taken[..] else { panic!("{taken:?}") };
    assert_eq!(from.session, first);
    assert!(before <= from.since && from.since <= leased, "{from:?} was leased between {before} and {leased}");
    fx.store.close_session(second).await.unwrap();
    let taken = fx.store.reclaim(ReclaimAsk { session: third, limit: PLENTY, what: Reclaim::Orphaned }).await.unwrap();
    let [Reclaimed { from, .. }] = taken[..] else { panic!("{taken:?}") };
    assert!(from.session == second && leased <= from.since, "{from:?} took over after {leased}");
}

pub(super) async fn a_task_taken_at_once_is_held_since_it_was_appended(fx: &Fixture) {
    fx.endpoint().await;
    let (holder, sweeper) = (fx.session().await, fx.session().await);
    let before = fx.store.now().await.unwrap();
    fx.append_one(Some(fast(holder, &FixedCapacity::of(1))), fx.message()).await;
    let after = fx.store.now().await.unwrap();
    fx.store.close_session(holder).await.unwrap();
    let taken =
        fx.store.reclaim(ReclaimAsk { session: sweeper, limit: PLENTY, what: Reclaim::Orphaned }).await.unwrap();
    let [Reclaimed { from, .. }] = taken[..] else { panic!("{taken:?}") };
    assert!(from.session == holder && before <= from.since && from.since <= after, "{from:?}: {before} to {after}");
}

pub(super) async fn reclaiming_takes_no_more_than_it_was_asked_for(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(5).await;
    let (dead, sweeper) = (fx.session().await, fx.session().await);
    assert_eq!(fx.lease(dead).await.len(), 5);
    fx.store.close_session(dead).await.unwrap();
    let mut keys = Vec::new();
    for want in [2, 2, 1, 0] {
        let taken = fx.reclaim(sweeper, 2).await;
        assert_eq!(taken.len(), want);
        keys.extend(taken.iter().map(|task| task.key));
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 5);
}

pub(super) async fn pending_and_dead_tasks_are_nobodys_to_take_over(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.end(&leased.task, session, NextRow::Dead).await;
    fx.send().await;
    fx.store.close_session(session).await.unwrap();
    let sweeper = fx.session().await;
    assert_eq!(fx.reclaim(sweeper, PLENTY).await, []);
}

pub(super) async fn what_was_appended_for_a_closed_session_is_found(fx: &Fixture) {
    fx.endpoint().await;
    let (closed, sweeper) = (fx.session().await, fx.session().await);
    fx.store.close_session(closed).await.unwrap();
    let sent = fx.message();
    let id = sent.message.id.0;
    fx.append_one(Some(fast(closed, &FixedCapacity::of(1))), sent).await;
    let taken = fx.reclaim(sweeper, PLENTY).await;
    assert_eq!(taken.iter().map(|task| (task.key.subject, task.epoch)).collect::<Vec<_>>(), [(id, 2)]);
}

pub(super) async fn what_was_leased_for_a_session_nobody_knows_is_found(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    let leased = fx.lease_one(SessionId(fx.id())).await;
    let sweeper = fx.session().await;
    let taken = fx.reclaim(sweeper, PLENTY).await;
    assert_eq!(taken.iter().map(|task| task.key).collect::<Vec<_>>(), [leased.task.key]);
}

pub(super) async fn a_reclaimed_task_is_retried_like_any_other(fx: &Fixture) {
    let (dead, _) = fx.held().await;
    fx.store.close_session(dead).await.unwrap();
    let sweeper = fx.session().await;
    let taken = fx.reclaim(sweeper, PLENTY).await;
    let abandoned = fx.settlement(&taken[0], sweeper, NextRow::Pending { due_in: Duration::ZERO });
    fx.settle(&Settlement { tries: 0, crashes: 1, ..abandoned }).await;
    let again = fx.lease_one(sweeper).await.task;
    assert_eq!((again.tries, again.crashes, again.epoch), (0, 1, 3));
}
