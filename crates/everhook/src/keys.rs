//! API keys in the store of this machine, for `everhook key`, and the rotation of `everhook token`.

use std::time::Duration;

use anyhow::Context;
use everhook_core::api_key::{ApiKey, KeyAccess};
use everhook_core::application::Environment;
use everhook_core::id::{ApplicationId, DEFAULT_ORG, EnvironmentId, KeyId, OrgId, TokenKeyId};
use everhook_core::limits::TITLE_CHARS_MAX;
use everhook_core::name::Name;
use everhook_core::right::{ExtraRights, Grants, KeyScope};
use everhook_core::scope::Scope;
use everhook_core::token::{TokenKeyChange, TokenSecret};
use everhook_store::catalog::{KeyChange, Locator, NewKey, NewTokenKey};
use everhook_store::ids::Ids;
use everhook_store::query;
use everhook_store::store::{Reads, Store};
use serde_json::json;

use crate::exit::{Exit, Failure, usage};
use crate::key_command::{HEADS, row};
use crate::operator::{LoggedChange, Operator};
use crate::output::Answer;

/// Environment of keys that name none.
pub(crate) const DEFAULT_ENVIRONMENT: &str = "default";

/// A key to create.
pub(crate) struct Wanted {
    name: String,
    grants: Grants,
    /// None for an admin key.
    environment: Option<String>,
    application: Option<String>,
    expires_in: Option<Duration>,
}

/// The arguments of `key create`.
#[derive(Default)]
pub(crate) struct WantedText<'a> {
    pub(crate) name: &'a str,
    pub(crate) scope: &'a str,
    pub(crate) rights: Option<Vec<&'a str>>,
    pub(crate) environment: Option<&'a str>,
    pub(crate) application: Option<&'a str>,
    pub(crate) expires_in: Option<Duration>,
}

impl Wanted {
    /// A key for all operations in the default environment.
    pub(crate) fn first() -> Wanted {
        Wanted {
            name: "first key".to_owned(),
            grants: Grants::of(KeyScope::Operate),
            environment: Some(DEFAULT_ENVIRONMENT.to_owned()),
            application: None,
            expires_in: None,
        }
    }

    /// Checks the arguments of `key create`.
    pub(crate) fn new(text: WantedText<'_>) -> anyhow::Result<Wanted> {
        let scope: KeyScope = text.scope.parse().map_err(|error| usage(format!("--scope {error}")))?;
        let extra = match text.rights {
            Some(names) => ExtraRights::of_request(scope, names).map_err(|error| usage(format!("--right {error}")))?,
            None => scope.default_extra(),
        };
        if text.name.chars().count() > TITLE_CHARS_MAX {
            return Err(usage(format!("--name must have at most {TITLE_CHARS_MAX} characters")));
        }
        let environment = match scope {
            KeyScope::Admin if text.environment.is_some() || text.application.is_some() => {
                return Err(usage("an admin key spans environments: leave out --environment and --application"));
            }
            KeyScope::Admin => None,
            KeyScope::Operate | KeyScope::Write | KeyScope::Read => {
                let name = text.environment.unwrap_or(DEFAULT_ENVIRONMENT).to_owned();
                name.parse::<Name>().map_err(|error| usage(format!("invalid environment name {name:?}: {error}")))?;
                Some(name)
            }
        };
        Ok(Wanted {
            name: text.name.to_owned(),
            grants: Grants { scope, extra },
            environment,
            application: text.application.map(str::to_owned),
            expires_in: text.expires_in,
        })
    }
}

/// Returns a new key that no store knows.
pub(crate) fn generate() -> ApiKey {
    ApiKey::generate(random())
}

/// Stores a key. Creates its environment if it does not exist.
pub(crate) async fn keep(
    store: &dyn Store,
    ids: &Ids,
    operator: &Operator,
    key: &ApiKey,
    wanted: &Wanted,
) -> anyhow::Result<()> {
    let now = store.now().await?;
    let environment = match &wanted.environment {
        Some(name) => Some(environment(store, ids, name).await?.id),
        None => None,
    };
    let application = match (environment, &wanted.application) {
        (Some(environment), Some(text)) => Some(application(store, environment, text).await?),
        _ => None,
    };
    let id = KeyId(ids.next(now));
    let new = NewKey {
        id,
        hash: key.hash(),
        hint: key.hint(),
        name: wanted.name.clone(),
        access: KeyAccess { environment, application, grants: wanted.grants },
        expires_at: wanted.expires_in.map(|span| now.plus(span)),
    };
    let create = async { store.create_key(new.clone()).await.context("could not store the key") };
    let change = LoggedChange { environment, action: "key create", object: format!("/key/{id}"), reason: None };
    operator.logged(store, ids, change, create).await
}

async fn application(store: &dyn Store, environment: EnvironmentId, text: &str) -> anyhow::Result<ApplicationId> {
    let missing = || Failure::error(Exit::NotFound, format!("application {text:?} not found"));
    let locator = match text.parse() {
        Ok(id) => Locator::Id(id),
        Err(_) => Locator::Uid(text.parse().map_err(|_| missing())?),
    };
    let found = store.read(query::FindApplication { scope: Scope::of(environment), locator }).await?;
    found.map(|application| application.id).ok_or_else(missing)
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

pub(crate) async fn list(store: &dyn Store) -> anyhow::Result<Answer> {
    let (environments, now) = (store.read(query::Environments {}).await?, store.now().await?);
    let name = |id| environments.iter().find(|known| known.id == id).map(|known| known.name.clone());
    let keys = store.read(query::Keys {}).await?;
    let note = "no keys yet: create one with `everhook key create`";
    let rows = keys.iter().map(|key| {
        let grants = key.access.grants;
        let state = match key.revoked_at {
            Some(_) => "revoked",
            None if key.is_active(now) => "active",
            None => "expired",
        };
        json!({
            "id": key.id, "name": key.name, "scope": grants.scope.name(), "rights": grants.names(),
            "environment": key.access.environment.and_then(name), "applicationId": key.access.application,
            "admin": grants.scope == KeyScope::Admin, "hint": key.hint, "state": state, "createdAt": key.created_at,
            "expiresAt": key.expires_at, "lastUsedAt": key.last_used_at, "revokedAt": key.revoked_at,
        })
    });
    Ok(Answer::list(rows.collect(), HEADS, row).note_if(keys.is_empty(), note))
}

pub(crate) fn handle(text: &str) -> anyhow::Result<KeyId> {
    text.parse().map_err(|_| usage(format!("{text:?} is not the id of a key: `everhook key list` shows the ids")))
}

pub(crate) async fn revoke(store: &dyn Store, ids: &Ids, operator: &Operator, id: KeyId) -> anyhow::Result<()> {
    let known = store.read(query::Keys {}).await?.into_iter().find(|key| key.id == id && key.revoked_at.is_none());
    if let Some(key) = known {
        let revoke = async { Ok(store.change_key(id, KeyChange::Revoke).await?) };
        let environment = key.access.environment;
        let change = LoggedChange { environment, action: "key revoke", object: format!("/key/{id}"), reason: None };
        if operator.logged(store, ids, change, revoke).await? {
            return Ok(());
        }
    }
    Err(Failure::error(Exit::NotFound, format!("active key {id} not found: `everhook key list` shows all keys")))
}

/// Stores a new key that signs application tokens from now on.
pub(crate) async fn rotate_token_key(
    store: &dyn Store,
    ids: &Ids,
    operator: &Operator,
    change: TokenKeyChange,
) -> anyhow::Result<String> {
    let key = NewTokenKey { id: TokenKeyId(ids.next(store.now().await?)), secret: TokenSecret(random()) };
    let id = key.id;
    let action = if change == TokenKeyChange::Revoke { "token revoke-all" } else { "token rotate-key" };
    let logged = LoggedChange { action, object: format!("/token-key/{id}"), ..LoggedChange::default() };
    let put = async { store.put_token_key(key, change).await.context("could not store the key") };
    operator.logged(store, ids, logged, put).await?;
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
