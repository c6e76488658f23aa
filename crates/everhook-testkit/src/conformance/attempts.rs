//! Attempts are found by all their filters, in their own environment only.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{AttemptId, EndpointId, MessageId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::outcome::Class;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Slice};
use everhook_store::delivery::{EndpointCounts, Period};
use everhook_store::history::{Attempt, AttemptFilter, AttemptResult, AttemptsOf, Expunge};
use everhook_store::lease::Settled;
use everhook_store::query;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name, pages};
use crate::conformance::history::{append, labelled};

fn attempts(of: AttemptsOf) -> AttemptFilter {
    AttemptFilter::of(of, Slice { after: None, order: Order::Ascending, limit: PLENTY }, PLENTY)
}

/// Two endpoints and two messages with the following attempts, in the order of their ids.
struct Tried {
    endpoints: [EndpointId; 2],
    messages: [MessageId; 2],
    /// The first message to the first endpoint: 500, then 204. To the second: no answer, dead. The second message to
    /// the first endpoint: 302, dead.
    attempts: [AttemptId; 4],
}

async fn tried(fx: &Fixture) -> Tried {
    let first = fx.endpoint().await;
    let second = fx.endpoint_with(|endpoint| endpoint.event_types = Some(vec![name("a").into()])).await;
    let a = append(fx, labelled(fx, "a", &["x"], &["t"])).await.id;
    let session = fx.session().await;
    let mut ids = Vec::new();
    let mut attempt = async |message: MessageId, endpoint: EndpointId, class, status, row, end| {
        let leased = fx.lease(session).await.into_iter().map(|leased| leased.task).collect::<Vec<_>>();
        for task in leased {
            let wanted = task.key.subject == message.0 && task.lane == endpoint.lane();
            let mut settlement = fx.settlement(&task, session, row);
            if wanted {
                let attempt = settlement.attempt.as_mut().expect("it is logged");
                (attempt.class, attempt.status, attempt.end) = (class, status, end);
                ids.push(attempt.id);
            } else {
                settlement.attempt = None;
                settlement.row = NextRow::Pending { due_in: Duration::ZERO };
            }
            assert_eq!(fx.settle(&settlement).await, Settled::Done);
        }
    };
    let now = NextRow::Pending { due_in: Duration::ZERO };
    attempt(a, first, Class::Status, 500, now, EndState::Open).await;
    attempt(a, first, Class::Success, 204, NextRow::Gone, EndState::Succeeded).await;
    attempt(a, second, Class::Connect, 0, NextRow::Dead, EndState::Dead).await;
    let b = append(fx, labelled(fx, "b", &["xx"], &["u"])).await.id;
    attempt(b, first, Class::Status, 302, NextRow::Dead, EndState::Dead).await;
    let attempts = ids.try_into().expect("four attempts");
    Tried { endpoints: [first, second], messages: [a, b], attempts }
}

async fn list(fx: &Fixture, filter: AttemptFilter) -> Vec<AttemptId> {
    let list = fx.read(query::Attempts { scope: fx.app_scope(), filter: filter.clone() }).await.rows;
    list.iter().map(|attempt| attempt.id).collect()
}

pub(super) async fn attempts_are_found_by_message_and_endpoint(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    assert_eq!(list(fx, attempts(AttemptsOf::Message(messages[0], None))).await, [one, two, three]);
    assert_eq!(list(fx, attempts(AttemptsOf::Message(messages[0], Some(endpoints[0])))).await, [one, two]);
    assert_eq!(list(fx, attempts(AttemptsOf::Message(messages[1], Some(endpoints[1])))).await, []);
    assert_eq!(list(fx, attempts(AttemptsOf::Endpoint(endpoints[0]))).await, [one, two, four]);
    assert_eq!(list(fx, attempts(AttemptsOf::Endpoint(endpoints[1]))).await, [three]);
    assert_eq!(list(fx, attempts(AttemptsOf::Endpoint(EndpointId(fx.id())))).await, []);
    let there = attempts(AttemptsOf::Endpoint(endpoints[0]));
    assert_eq!(
        fx.read(query::Attempts { scope: AppScope::of(fx.there, fx.application), filter: there.clone() }).await.rows,
        []
    );
}

pub(super) async fn attempts_are_found_by_result_and_status(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    let of_endpoint = || attempts(AttemptsOf::Endpoint(endpoints[0]));
    let of_message = || attempts(AttemptsOf::Message(messages[0], None));
    let with = |result| AttemptFilter { result: Some(result), ..of_endpoint() };
    assert_eq!(list(fx, with(AttemptResult::Succeeded)).await, [two]);
    assert_eq!(list(fx, with(AttemptResult::Failed)).await, [one, four]);
    let with = |status| AttemptFilter { status_class: Some(status), ..of_message() };
    assert_eq!(list(fx, with(500)).await, [one]);
    assert_eq!(list(fx, with(200)).await, [two]);
    assert_eq!(list(fx, with(0)).await, [three], "no status at all");
    assert_eq!(list(fx, with(400)).await, []);
    assert_eq!(list(fx, AttemptFilter { status_class: Some(300), ..of_endpoint() }).await, [four]);
}

pub(super) async fn attempts_are_found_by_what_their_message_is(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    for (of, expected) in [
        (AttemptsOf::Endpoint(endpoints[0]), vec![one, two]),
        (AttemptsOf::Message(messages[0], None), vec![one, two, three]),
    ] {
        let all = || attempts(of);
        assert_eq!(list(fx, AttemptFilter { channel: Some(name("x")), ..all() }).await, expected);
        assert_eq!(list(fx, AttemptFilter { tag: Some(name("t")), ..all() }).await, expected);
        assert_eq!(list(fx, AttemptFilter { event_types: vec![name("a")], ..all() }).await, expected);
    }
    let all = || attempts(AttemptsOf::Endpoint(endpoints[0]));
    assert_eq!(list(fx, AttemptFilter { event_types: vec![name("b"), name("c")], ..all() }).await, [four]);
    assert_eq!(list(fx, AttemptFilter { tag: Some(name("x")), ..all() }).await, []);
}

pub(super) async fn attempts_are_found_by_time(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    let now = fx.store.now().await.unwrap();
    let (past, future) = (Some(now.minus(HOUR)), Some(now.plus(HOUR)));
    for (of, all) in [
        (AttemptsOf::Endpoint(endpoints[0]), vec![one, two, four]),
        (AttemptsOf::Message(messages[0], None), vec![one, two, three]),
    ] {
        assert_eq!(list(fx, AttemptFilter { before: future, after: past, ..attempts(of) }).await, all);
        assert_eq!(list(fx, AttemptFilter { before: past, ..attempts(of) }).await, []);
        assert_eq!(list(fx, AttemptFilter { after: future, ..attempts(of) }).await, []);
    }
}

pub(super) async fn attempts_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    let Tried { endpoints, messages, attempts: [one, two, three, four] } = tried(fx).await;
    for (of, mut want) in [
        (AttemptsOf::Endpoint(endpoints[0]), vec![one, two, four]),
        (AttemptsOf::Message(messages[0], None), vec![one, two, three]),
    ] {
        for order in [Order::Ascending, Order::Descending] {
            let read = async |slice| list(fx, AttemptFilter { slice, ..attempts(of) }).await;
            let slice = Slice { after: None, order, limit: 2 };
            assert_eq!(pages(slice, |id: &AttemptId| *id, read).await, want);
            want.reverse();
        }
    }
}

pub(super) async fn an_attempt_is_found_in_its_message_and_its_reply_removed(fx: &Fixture) {
    let Tried { messages, attempts: [one, two, ..], .. } = tried(fx).await;
    let find = async |message, id| fx.read(query::FindAttempt { scope: fx.scope(), message, id }).await;
    let seen = find(messages[0], one).await.expect("it is there");
    assert_eq!((seen.id, seen.message, seen.status), (one, messages[0], 500));
    assert!(!seen.reply.is_empty());
    assert_eq!(seen.exchange, Some(super::fixture::exchange()));
    assert_eq!(find(messages[1], one).await, None);
    assert_eq!(find(messages[0], AttemptId(fx.id())).await, None);
    assert_eq!(fx.read(query::FindAttempt { scope: Scope::of(fx.there), message: messages[0], id: one }).await, None);
    assert!(
        !fx.store
            .expunge(AppScope::of(fx.there, fx.application), Expunge::Attempt { message: messages[0], id: one })
            .await
            .unwrap()
    );
    assert!(!fx.store.expunge(fx.app_scope(), Expunge::Attempt { message: messages[1], id: one }).await.unwrap());
    for _ in 0..2 {
        assert!(fx.store.expunge(fx.app_scope(), Expunge::Attempt { message: messages[0], id: one }).await.unwrap());
    }
    assert_eq!(
        find(messages[0], one).await,
        Some(Attempt { reply: Bytes::from_static(b"EXPUNGED"), exchange: None, ..seen })
    );
    assert!(!find(messages[0], two).await.expect("it is there").reply.is_empty());
}

pub(super) async fn a_search_of_attempts_looks_at_a_few_and_goes_on(fx: &Fixture) {
    let Tried { endpoints, attempts: [_, two, _, four], .. } = tried(fx).await;
    let failed = AttemptFilter { status_class: Some(300), scan: 2, ..attempts(AttemptsOf::Endpoint(endpoints[0])) };
    let piece = fx.read(query::Attempts { scope: fx.app_scope(), filter: failed.clone() }).await;
    assert_eq!((piece.rows.len(), piece.next), (0, Some(two)));
    let slice = Slice { after: Some(two), order: Order::Ascending, limit: PLENTY };
    let piece = fx.read(query::Attempts { scope: fx.app_scope(), filter: AttemptFilter { slice, ..failed } }).await;
    let ids: Vec<_> = piece.rows.iter().map(|attempt| attempt.id).collect();
    assert_eq!((ids, piece.next), (vec![four], None));
}

pub(super) async fn the_attempts_of_an_endpoint_are_counted_by_result(fx: &Fixture) {
    let (endpoint, other) = (fx.endpoint().await, fx.endpoint().await);
    let session = fx.session().await;
    let sent = fx.send_many(3).await;
    for leased in fx.lease(session).await {
        let row = if leased.task.key.subject == sent[0].0 { NextRow::Gone } else { NextRow::Dead };
        fx.end(&leased.task, session, row).await;
    }
    fx.send().await;
    fx.lease(session).await;
    fx.send().await;
    let count = async |endpoint, since: Timestamp, until: Timestamp| {
        let (scope, period) = (fx.scope(), Period { since, until });
        fx.read(query::CountEndpoint { scope, endpoint, period }).await
    };
    let now = fx.store.now().await.unwrap();
    let want = EndpointCounts { succeeded: 1, failed: 2, cancelled: 0, pending: 1, sending: 1, is_capped: false };
    assert_eq!(count(endpoint, now.minus(HOUR), now.plus(HOUR)).await, want);
    assert_eq!(count(other, now.minus(HOUR), now.plus(HOUR)).await, want);
    let earlier = count(endpoint, now.minus(2 * HOUR), now.minus(HOUR)).await;
    assert_eq!((earlier.succeeded, earlier.failed), (0, 0));
    let none = count(EndpointId(fx.id()), now.minus(HOUR), now.plus(HOUR)).await;
    assert_eq!(none, EndpointCounts::default());
}
