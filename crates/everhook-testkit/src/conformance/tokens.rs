//! Signing keys of tokens, and the ends of tokens.

use std::time::Duration;

use everhook_core::id::{ApplicationId, TokenKeyId};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenHash, TokenKeyChange, TokenMark, TokenSecret};
use everhook_store::catalog::NewTokenKey;
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};

use crate::conformance::fixture::{Fixture, PLENTY};

const HOUR: Duration = Duration::from_secs(3600);
const TOKEN: TokenHash = [1; 32];

async fn put(fx: &Fixture, byte: u8, change: TokenKeyChange) -> NewTokenKey {
    let key = NewTokenKey { id: TokenKeyId(fx.id()), secret: TokenSecret([byte; 32]) };
    fx.store.put_token_key(key.clone(), change).await.unwrap();
    key
}

/// Returns the keys, newest first, with the first byte of their secrets and whether a newer key signs.
async fn keys(fx: &Fixture) -> Vec<(TokenKeyId, u8, bool)> {
    let keys = fx.read(query::TokenKeys {}).await;
    keys.iter().map(|key| (key.id, key.secret.0[0], key.superseded_at.is_some())).collect()
}

pub(super) async fn a_signing_key_is_superseded_or_replaced(fx: &Fixture) {
    assert_eq!(keys(fx).await, []);
    let first = put(fx, 1, TokenKeyChange::First).await;
    put(fx, 2, TokenKeyChange::First).await;
    assert_eq!(keys(fx).await, [(first.id, 1, false)], "another key signs already");
    fx.store.put_token_key(first.clone(), TokenKeyChange::First).await.unwrap();
    let second = put(fx, 3, TokenKeyChange::Rotate).await;
    fx.store.put_token_key(second.clone(), TokenKeyChange::Rotate).await.unwrap();
    assert_eq!(keys(fx).await, [(second.id, 3, false), (first.id, 1, true)]);
    let now = fx.store.now().await.unwrap();
    prune(fx, now.minus(HOUR)).await;
    assert_eq!(keys(fx).await.len(), 2, "its last tokens may still be valid");
    prune(fx, now.plus(HOUR)).await;
    assert_eq!(keys(fx).await, [(second.id, 3, false)]);
    put(fx, 4, TokenKeyChange::Rotate).await;
    let last = put(fx, 5, TokenKeyChange::Revoke).await;
    assert_eq!(keys(fx).await, [(last.id, 5, false)]);
}

/// The time at which a token that was issued at `issued_at` ends.
async fn ends_at(fx: &Fixture, scope: AppScope, session: Option<&str>, issued_at: Timestamp) -> Option<Timestamp> {
    let mark = TokenMark { hash: TOKEN, session: session.map(str::to_owned), issued_at };
    fx.read(query::FindTokenEnd { scope, mark }).await
}

async fn prune(fx: &Fixture, before: Timestamp) -> usize {
    fx.store.prune(Prune { what: Prunable::Tokens, before, limit: PLENTY }).await.unwrap()
}

pub(super) async fn tokens_of_an_application_end(fx: &Fixture) {
    let scope = fx.app_scope();
    let now = fx.store.now().await.unwrap();
    let (before, after) = (now.minus(HOUR), now.plus(HOUR));
    assert_eq!(ends_at(fx, scope, None, before).await, None);
    let end = TokenEnd::all(now, HOUR);
    for store in [&fx.store, &fx.other] {
        store.end_tokens(scope, vec![end.clone()]).await.unwrap();
    }
    assert_eq!(ends_at(fx, scope, None, before).await, Some(after));
    assert_eq!(ends_at(fx, scope, None, now).await, Some(after));
    assert_eq!(ends_at(fx, scope, None, after).await, None, "tokens issued later stay valid");
    for other in [AppScope::of(fx.there, fx.application), AppScope::of(fx.here, ApplicationId(fx.id()))] {
        assert_eq!(ends_at(fx, other, None, before).await, None);
    }
    let later = TokenEnd::all(now.plus(Duration::from_secs(1)), 2 * HOUR);
    fx.store.end_tokens(scope, vec![later.clone()]).await.unwrap();
    assert_eq!(ends_at(fx, scope, None, before).await, Some(after), "an earlier end stays in force");
    assert_eq!(ends_at(fx, scope, None, later.issued_until).await, Some(later.ends_at));
    fx.store.end_tokens(scope, vec![TokenEnd::all(now.plus(2 * HOUR), Duration::ZERO)]).await.unwrap();
    assert_eq!(ends_at(fx, scope, None, before).await, Some(after), "it comes first");
    fx.store.end_tokens(scope, vec![TokenEnd::all(now.minus(HOUR), Duration::ZERO)]).await.unwrap();
    assert_eq!(ends_at(fx, scope, None, before).await, Some(before));
    assert_eq!(prune(fx, after).await, 0, "no one knows how long tokens of the user's own live");
}

pub(super) async fn one_token_or_a_session_ends_and_is_forgotten(fx: &Fixture) {
    let scope = fx.app_scope();
    let now = fx.store.now().await.unwrap();
    let sessions = ["ann", "eve"].map(|name| TokenEnd::session(name.to_owned(), now, HOUR));
    fx.store.end_tokens(scope, sessions.to_vec()).await.unwrap();
    assert_eq!(ends_at(fx, scope, Some("ann"), now).await, Some(now.plus(HOUR)));
    assert_eq!(ends_at(fx, scope, Some("bob"), now).await, None);
    assert_eq!(ends_at(fx, scope, None, now).await, None);
    fx.store.end_tokens(scope, vec![TokenEnd::one([2; 32], now, now.plus(HOUR))]).await.unwrap();
    assert_eq!(ends_at(fx, scope, Some("bob"), now).await, None, "another token ended");
    let own = TokenEnd::one(TOKEN, now, now.plus(HOUR));
    fx.store.end_tokens(scope, vec![own.clone()]).await.unwrap();
    assert_eq!(ends_at(fx, scope, Some("bob"), now.plus(HOUR)).await, Some(now), "the issuer's clock may be ahead");
    assert_eq!(ends_at(fx, scope, Some("ann"), now).await, Some(now), "the earliest end counts");
    assert_eq!(prune(fx, now).await, 0);
    let old = now.minus(24 * HOUR);
    let expired = TokenEnd { forget_at: now.minus(HOUR), ..TokenEnd::one([3; 32], old, old) };
    fx.store.end_tokens(scope, vec![expired]).await.unwrap();
    assert_eq!(prune(fx, old).await, 1, "by its own expiry, whatever the age");
    assert_eq!(ends_at(fx, scope, None, now).await, Some(now));
}
