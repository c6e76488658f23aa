//! Environments and API keys are stored unchanged.

use everhook_core::api_key::{ApiKey, KEY_RANDOM_BYTES, KeyScope};
use everhook_core::id::{KeyId, OrgId};
use everhook_store::catalog::{KeyChange, NewKey};
use everhook_store::query;
use everhook_store::store::Reads;

use crate::conformance::fixture::Fixture;

pub(super) async fn an_environment_is_made_once(fx: &Fixture) {
    let org = OrgId(fx.id());
    let first = fx.store.ensure_environment(org, "production".to_owned()).await.unwrap();
    assert_eq!((first.org, first.name.as_str()), (org, "production"));
    assert_eq!(fx.other.ensure_environment(org, "production".to_owned()).await.unwrap(), first);
    let all = fx.store.read(query::Environments {}).await.unwrap();
    let ids: Vec<_> = all.iter().map(|environment| environment.id).collect();
    assert_eq!(ids[ids.len() - 3..], [fx.here, fx.there, first.id], "oldest first");
    assert!(all.contains(&first));
}

pub(super) async fn a_key_works_until_it_is_revoked(fx: &Fixture) {
    let scopes = [KeyScope::Environment(fx.here), KeyScope::Admin];
    let mut ids = Vec::new();
    for (n, scope) in (1..).zip(scopes) {
        let secret = ApiKey::generate([n; KEY_RANDOM_BYTES]);
        assert_eq!(fx.store.read(query::FindKey { hash: secret.hash() }).await.unwrap(), None);
        let id = KeyId(fx.id());
        let key = NewKey { id, hash: secret.hash(), hint: secret.hint(), scope };
        fx.store.create_key(key.clone()).await.unwrap();
        assert_eq!(fx.other.read(query::FindKey { hash: secret.hash() }).await.unwrap(), Some(scope));
        ids.push((id, secret));
    }
    let (revoked, secret) = &ids[0];
    assert!(fx.store.change_key(*revoked, KeyChange::Revoke).await.unwrap());
    assert!(!fx.store.change_key(*revoked, KeyChange::Revoke).await.unwrap());
    assert!(!fx.store.change_key(KeyId(fx.id()), KeyChange::Revoke).await.unwrap());
    assert_eq!(fx.store.read(query::FindKey { hash: secret.hash() }).await.unwrap(), None);
    assert_eq!(fx.other.read(query::FindKey { hash: ids[1].1.hash() }).await.unwrap(), Some(KeyScope::Admin));
    let list = fx.other.read(query::Keys {}).await.unwrap();
    let seen: Vec<_> = list.iter().map(|key| (key.id, key.scope, key.hint.clone(), key.revoked_at.is_some())).collect();
    assert_eq!(
        seen,
        [(ids[0].0, scopes[0], ids[0].1.hint(), true), (ids[1].0, scopes[1], ids[1].1.hint(), false)],
        "oldest first, revoked ones too"
    );
}
