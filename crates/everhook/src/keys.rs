//! API keys, as an operator handles them.

use anyhow::{Context, bail};
use everhook_core::api_key::{ApiKey, KEY_RANDOM_BYTES, KeyScope};
use everhook_core::application::Environment;
use everhook_core::id::{DEFAULT_ORG, KeyId, OrgId};
use everhook_core::name::Name;
use everhook_store::Store;
use everhook_store::catalog::NewKey;
use everhook_store::ids::Ids;

/// The environment of keys that name none.
pub(crate) const DEFAULT_ENVIRONMENT: &str = "default";

/// What a new key is for.
pub(crate) enum Wanted {
    /// One environment, by name.
    Environment(String),
    /// What spans environments.
    Admin,
}

/// What the flags ask for.
pub(crate) fn wanted(environment: Option<String>, admin: bool) -> Wanted {
    match environment {
        _ if admin => Wanted::Admin,
        Some(name) => Wanted::Environment(name),
        None => Wanted::Environment(DEFAULT_ENVIRONMENT.to_owned()),
    }
}

/// Creates a key, and its environment if that is new.
pub(crate) async fn create(store: &dyn Store, ids: &Ids, wanted: Wanted) -> anyhow::Result<ApiKey> {
    let now = store.now().await?;
    let scope = match wanted {
        Wanted::Admin => KeyScope::Admin,
        Wanted::Environment(name) => KeyScope::Environment(environment(store, ids, &name).await?.id),
    };
    let key = ApiKey::generate(random());
    let new = NewKey { id: KeyId(ids.next(now)), hash: key.hash(), hint: key.hint(), scope };
    store.create_key(&new).await.context("could not keep the key")?;
    Ok(key)
}

async fn environment(store: &dyn Store, ids: &Ids, name: &str) -> anyhow::Result<Environment> {
    name.parse::<Name>().with_context(|| format!("bad environment name {name:?}"))?;
    if let Some(known) = store.list_environments().await?.into_iter().find(|known| known.name == name) {
        return Ok(known);
    }
    let org = match name {
        DEFAULT_ENVIRONMENT => DEFAULT_ORG.parse().expect("the constant is an id"),
        _ => OrgId(ids.next(store.now().await?)),
    };
    Ok(store.ensure_environment(org, name).await?)
}

/// Every key as a table for people or as JSON for machines.
pub(crate) async fn list(store: &dyn Store, json: bool) -> anyhow::Result<String> {
    let environments = store.list_environments().await?;
    let name = |scope| match scope {
        KeyScope::Admin => "(admin)".to_owned(),
        KeyScope::Environment(id) => {
            environments.iter().find(|known| known.id == id).map_or_else(String::new, |known| known.name.clone())
        }
    };
    let keys = store.list_keys().await?;
    if json {
        let rows = keys.iter().map(|key| {
            serde_json::json!({
                "id": key.id, "environment": (key.scope != KeyScope::Admin).then(|| name(key.scope)),
                "admin": key.scope == KeyScope::Admin, "hint": key.hint,
                "createdAt": key.created_at, "revokedAt": key.revoked_at,
            })
        });
        return Ok(format!("{:#}\n", serde_json::Value::Array(rows.collect())));
    }
    if keys.is_empty() {
        return Ok("no keys yet: create one with `everhook key create`\n".to_owned());
    }
    let mut text = format!("{:<32} {:<16} {:<14} {:<28} STATE\n", "ID", "ENVIRONMENT", "KEY", "CREATED");
    for key in keys {
        let state = key.revoked_at.map_or_else(|| "works".to_owned(), |at| format!("revoked {at}"));
        let row = (key.id.to_string(), name(key.scope), key.hint, key.created_at.to_string());
        text += &format!("{:<32} {:<16} {:<14} {:<28} {state}\n", row.0, row.1, row.2, row.3);
    }
    Ok(text)
}

/// Stops a key.
pub(crate) async fn revoke(store: &dyn Store, id: &str) -> anyhow::Result<String> {
    let Ok(id) = id.parse::<KeyId>() else {
        bail!("{id:?} is not a key's handle: `everhook key list` shows them");
    };
    if !store.revoke_key(id).await? {
        bail!("there is no key {id} that works: `everhook key list` shows them");
    }
    Ok(format!("revoked {id}\n"))
}

#[expect(clippy::disallowed_methods, reason = "new keys are made of the system's randomness")]
fn random() -> [u8; KEY_RANDOM_BYTES] {
    let mut random = [0; KEY_RANDOM_BYTES];
    getrandom::fill(&mut random).expect("the system has randomness");
    random
}
