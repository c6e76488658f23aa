//! `everhook key`: create, list and revoke API keys. `everhook token`: rotate the key that signs application tokens.

use anyhow::{Context, anyhow, bail};
use everhook_core::api_key::{ApiKey, KeyScope};
use everhook_core::application::Environment;
use everhook_core::id::{DEFAULT_ORG, KeyId, OrgId, TokenKeyId};
use everhook_core::name::Name;
use everhook_core::token::{TokenKeyChange, TokenSecret};
use everhook_store::catalog::{KeyChange, NewKey, NewTokenKey};
use everhook_store::ids::Ids;
use everhook_store::query;
use everhook_store::store::{Reads, Store};

use crate::table::table;

/// Environment of keys that name none.
pub(crate) const DEFAULT_ENVIRONMENT: &str = "default";

pub(crate) enum Wanted {
    Environment(String),
    /// Grants the routes that span environments.
    Admin,
}

impl Wanted {
    /// Checks the flags of `key create`.
    pub(crate) fn new(environment: Option<String>, admin: bool) -> anyhow::Result<Wanted> {
        if admin {
            return Ok(Wanted::Admin);
        }
        let name = environment.unwrap_or_else(|| DEFAULT_ENVIRONMENT.to_owned());
        name.parse::<Name>().with_context(|| format!("invalid environment name {name:?}"))?;
        Ok(Wanted::Environment(name))
    }
}

/// Returns a new key that no store knows.
pub(crate) fn generate() -> ApiKey {
    ApiKey::generate(random())
}

/// Stores a key. Creates its environment if it does not exist.
pub(crate) async fn keep(store: &dyn Store, ids: &Ids, key: &ApiKey, wanted: &Wanted) -> anyhow::Result<()> {
    let now = store.now().await?;
    let scope = match wanted {
        Wanted::Admin => KeyScope::Admin,
        Wanted::Environment(name) => KeyScope::Environment(environment(store, ids, name).await?.id),
    };
    let new = NewKey { id: KeyId(ids.next(now)), hash: key.hash(), hint: key.hint(), scope };
    store.create_key(new.clone()).await.context("could not store the key")
}

/// Returns the environment of this name. Creates it if it does not exist.
pub(crate) async fn environment(store: &dyn Store, ids: &Ids, name: &str) -> anyhow::Result<Environment> {
    if let Some(known) = store.read(query::Environments {}).await?.into_iter().find(|known| known.name == name) {
        return Ok(known);
    }
    let org = match name {
        DEFAULT_ENVIRONMENT => DEFAULT_ORG.parse().expect("the constant is an id"),
        _ => OrgId(ids.next(store.now().await?)),
    };
    Ok(store.ensure_environment(org, name.to_owned()).await?)
}

/// Returns all keys, as a table or as JSON.
pub(crate) async fn list(store: &dyn Store, json: bool) -> anyhow::Result<String> {
    let environments = store.read(query::Environments {}).await?;
    let name = |scope| match scope {
        KeyScope::Admin => "(admin)".to_owned(),
        KeyScope::Environment(id) => {
            environments.iter().find(|known| known.id == id).map_or_else(String::new, |known| known.name.clone())
        }
    };
    let keys = store.read(query::Keys {}).await?;
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
    let mut rows = vec![["ID", "ENVIRONMENT", "KEY", "CREATED", "STATE"].map(str::to_owned)];
    rows.extend(keys.into_iter().map(|key| {
        let state = key.revoked_at.map_or_else(|| "active".to_owned(), |at| format!("revoked {at}"));
        [key.id.to_string(), name(key.scope), key.hint, key.created_at.to_string(), state]
    }));
    Ok(table(&rows))
}

pub(crate) fn handle(text: &str) -> anyhow::Result<KeyId> {
    text.parse().map_err(|_| anyhow!("{text:?} is not the id of a key: `everhook key list` shows the ids"))
}

pub(crate) async fn revoke(store: &dyn Store, id: KeyId) -> anyhow::Result<String> {
    if !store.change_key(id, KeyChange::Revoke).await? {
        bail!("active key {id} not found: `everhook key list` shows all keys");
    }
    Ok(format!("revoked {id}\n"))
}

/// Stores a new key that signs application tokens from now on.
pub(crate) async fn rotate_token_key(store: &dyn Store, ids: &Ids, change: TokenKeyChange) -> anyhow::Result<String> {
    let key = NewTokenKey { id: TokenKeyId(ids.next(store.now().await?)), secret: TokenSecret(random()) };
    let id = key.id;
    store.put_token_key(key, change).await.context("could not store the key")?;
    Ok(match change {
        TokenKeyChange::Revoke => format!("{id} signs application tokens; all earlier tokens have ended\n"),
        TokenKeyChange::First | TokenKeyChange::Rotate => {
            format!("{id} signs application tokens; earlier tokens stay valid until they expire\n")
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "new keys are made of the system's randomness")]
fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut random = [0; BYTES];
    getrandom::fill(&mut random).expect("the system has randomness");
    random
}
