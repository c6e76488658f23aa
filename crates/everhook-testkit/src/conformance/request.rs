//! A request with an idempotency key runs once, and its answer is kept.

use bytes::Bytes;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::request::{RequestAnswer, RequestClaim, RequestEnd};
use everhook_store::retention::{Prunable, Prune};

use crate::conformance::fixture::{Fixture, PLENTY, request_key};

async fn claim(fx: &Fixture, key: &str, body: &str, holder: everhook_core::id::Id) -> RequestClaim {
    fx.store.claim_request(fx.scope(), request_key(key, body), holder).await.unwrap()
}

async fn finish(fx: &Fixture, holder: everhook_core::id::Id, answer: Option<RequestAnswer>) {
    fx.other.finish_request(fx.scope(), RequestEnd { key: request_key("k", "body"), holder, answer }).await.unwrap();
}

fn answer(text: &'static str) -> RequestAnswer {
    RequestAnswer { status: 202, body: Some(Bytes::from_static(text.as_bytes())) }
}

pub(super) async fn a_request_is_answered_once_for_all_nodes(fx: &Fixture) {
    let (first, second) = (fx.id(), fx.id());
    assert_eq!(claim(fx, "k", "body", first).await, RequestClaim::Won);
    assert_eq!(claim(fx, "k", "body", first).await, RequestClaim::Won, "a claim may be repeated");
    assert_eq!(claim(fx, "k", "body", second).await, RequestClaim::Running);
    assert_eq!(claim(fx, "k", "another", second).await, RequestClaim::Reused);
    assert_eq!(claim(fx, "k 2", "another", second).await, RequestClaim::Won);
    let elsewhere = fx.store.claim_request(Scope::of(fx.there), request_key("k", "another"), second).await.unwrap();
    assert_eq!(elsewhere, RequestClaim::Won, "another environment has other keys");
    finish(fx, first, Some(answer("done"))).await;
    assert_eq!(claim(fx, "k", "body", second).await, RequestClaim::Answered(answer("done")));
    assert_eq!(claim(fx, "k", "body", first).await, RequestClaim::Answered(answer("done")));
    assert_eq!(claim(fx, "k", "another", second).await, RequestClaim::Reused);
    finish(fx, second, Some(answer("of a request that lost its key"))).await;
    finish(fx, first, None).await;
    assert_eq!(claim(fx, "k", "body", second).await, RequestClaim::Answered(answer("done")));
    let prune = Prune { what: Prunable::Answers, before: Timestamp::default(), limit: PLENTY };
    assert_eq!(fx.store.prune(prune).await.unwrap(), 0, "no answer has expired");
}

pub(super) async fn a_failed_request_leaves_its_key(fx: &Fixture) {
    let (first, second) = (fx.id(), fx.id());
    claim(fx, "k", "body", first).await;
    finish(fx, second, None).await;
    assert_eq!(claim(fx, "k", "body", second).await, RequestClaim::Running, "another holder cannot release it");
    finish(fx, first, None).await;
    assert_eq!(claim(fx, "k", "corrected", second).await, RequestClaim::Won);
}

pub(super) async fn an_expired_answer_is_forgotten(fx: &Fixture) {
    let mut key = request_key("k", "body");
    key.kept = std::time::Duration::ZERO;
    let (first, second) = (fx.id(), fx.id());
    let large = RequestAnswer { status: 200, body: None };
    for holder in [first, second] {
        assert_eq!(fx.store.claim_request(fx.scope(), key.clone(), holder).await.unwrap(), RequestClaim::Won);
        let end = RequestEnd { key: key.clone(), holder, answer: Some(large.clone()) };
        fx.store.finish_request(fx.scope(), end).await.unwrap();
    }
    let prune = Prune { what: Prunable::Answers, before: Timestamp::default(), limit: PLENTY };
    assert_eq!(fx.store.prune(prune).await.unwrap(), 1);
    assert_eq!(fx.store.prune(prune).await.unwrap(), 0);
}
