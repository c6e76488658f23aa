//! Environments and API keys are stored unchanged.

use std::time::Duration;

use everhook_core::api_key::{ApiKey, KEY_RANDOM_BYTES, KeyAccess};
use everhook_core::id::{ApplicationId, KeyId, OrgId};
use everhook_core::right::{ExtraRights, Grants, KeyScope};
use everhook_store::catalog::{KeyChange, NewKey};
use everhook_store::query;

use crate::conformance::fixture::Fixture;

pub(super) async fn an_environment_is_made_once(fx: &Fixture) {
    let org = OrgId(fx.id());
    let first = fx.store.ensure_environment(org, "production".to_owned()).await.unwrap();
    assert_eq!((first.org, first.name.as_str()), (org, "production"));
    assert_eq!(fx.other.ensure_environment(org, "production".to_owned()).await.unwrap(), first);
    let all = fx.read(query::Environments {}).await;
    let ids: Vec<_> = all.iter().map(|environment| environment.id).collect();
    assert_eq!(ids[ids.len() - 3..], [fx.here, fx.there, first.id], "oldest first");
    assert!(all.contains(&first));
}

pub(super) async fn a_key_works_until_it_is_revoked(fx: &Fixture) {
    let restricted = KeyAccess {
        application: Some(ApplicationId(fx.id())),
        grants: Grants { scope: KeyScope::Read, extra: ExtraRights::from_db(1) },
        ..KeyAccess::operate(fx.here)
    };
    let accesses = [KeyAccess::operate(fx.here), KeyAccess::ADMIN, restricted];
    let expires_at = Some(fx.store.now().await.unwrap().plus(Duration::from_secs(3600)));
    let mut ids = Vec::new();
    for (n, access) in (1..).zip(accesses) {
        let secret = ApiKey::generate([n; KEY_RANDOM_BYTES]);
        assert_eq!(fx.read(query::FindKey { hash: secret.hash() }).await, None);
        let id = KeyId(fx.id());
        let (hash, hint, name) = (secret.hash(), secret.hint(), format!("key {n}"));
        let key = NewKey { id, hash, hint: hint.clone(), name: name.clone(), access, expires_at };
        fx.store.create_key(key.clone()).await.unwrap();
        let found = fx.read(query::FindKey { hash }).await.unwrap();
        assert_eq!((found.id, found.name, found.access, found.hint), (id, name, access, hint));
        assert_eq!((found.expires_at, found.last_used_at, found.revoked_at), (expires_at, None, None));
        ids.push((id, secret));
    }
    let (revoked, secret) = &ids[0];
    assert!(fx.store.change_key(*revoked, KeyChange::Use).await.unwrap());
    let used = fx.read(query::FindKey { hash: secret.hash() }).await.unwrap();
    assert!(used.last_used_at.is_some_and(|at| at >= used.created_at));
    assert!(fx.store.change_key(*revoked, KeyChange::Revoke).await.unwrap());
    assert!(!fx.store.change_key(*revoked, KeyChange::Revoke).await.unwrap());
    assert!(!fx.store.change_key(*revoked, KeyChange::Use).await.unwrap());
    assert!(!fx.store.change_key(KeyId(fx.id()), KeyChange::Revoke).await.unwrap());
    assert_eq!(fx.read(query::FindKey { hash: secret.hash() }).await, None);
    assert!(fx.read(query::FindKey { hash: ids[1].1.hash() }).await.is_some());
    let list = fx.read(query::Keys {}).await;
    let seen: Vec<_> = list.iter().map(|key| (key.id, key.access, key.revoked_at.is_some())).collect();
    let want = [(ids[0].0, accesses[0], true), (ids[1].0, accesses[1], false), (ids[2].0, accesses[2], false)];
    assert_eq!(seen, want, "oldest first, revoked ones too");
}
