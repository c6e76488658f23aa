//! API keys: names, scopes and ends. The text of a key is shown once, when it is created.
//!
//! A key of an environment manages the keys of its environment; an admin key manages all. No key creates one with more
//! rights than its own.

use axum::Json;
use everhook_core::api_key::{ApiKey, KEY_RANDOM_BYTES, KeyAccess, KeyRecord};
use everhook_core::application::Environment;
use everhook_core::id::{ApplicationId, KeyId};
use everhook_core::limits::TITLE_CHARS_MAX;
use everhook_core::right::{ExtraRights, Grants, KeyScope};
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::catalog::{KeyChange, NewKey};
use everhook_store::query;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Rights};
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::limits::KEYS_MAX;
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer};
use crate::scope::{self, ByCaller, PathParams};
use crate::state::Api;

/// A key to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyIn {
    /// A name for people, which the audit log shows.
    #[schema(min_length = 1, example = "billing service")]
    name: String,
    /// `read`, `write`, `operate` (everything in the environment) or `admin` (everything in all environments).
    #[schema(example = "write")]
    scope: String,
    /// Rights beyond the scope: `reveal-secret` and `change-url`. By default, the scopes `admin` and `operate` have
    /// both, and `write` and `read` have none.
    #[schema(max_items = 2)]
    rights: Option<Vec<String>>,
    /// Restricts the key to the routes of one application, by its id or uid.
    application_id: Option<String>,
    /// The time at which the key ends. Without it, the key works until it is revoked.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// A key, without its text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyOut {
    #[schema(value_type = String)]
    id: KeyId,
    /// The name; empty for a key from before keys had names.
    name: String,
    /// `admin`, `operate`, `write` or `read`.
    #[schema(value_type = String)]
    scope: &'static str,
    /// All rights of the key. Each operation of the OpenAPI document names the right that it needs, as `x-right`.
    #[schema(value_type = Vec<String>)]
    rights: Vec<&'static str>,
    /// The name of the environment; absent for an admin key.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    /// The only application whose routes the key may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    application_id: Option<ApplicationId>,
    /// The first and last characters of the key.
    hint: String,
    /// `active`, `expired` or `revoked`.
    #[schema(value_type = String)]
    state: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// The time of the last use, to about a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
    /// The time at which the key was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

/// A new key with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewKeyOut {
    /// The key, to be sent as `Authorization: Bearer <key>`. It is not shown again.
    key: String,
    #[serde(flatten)]
    record: KeyOut,
}

/// All keys that the caller may manage, oldest first, even ended ones.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyListOut {
    data: Vec<KeyOut>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct KeyPath {
    /// The id of the key.
    pub(crate) key_id: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list).add(create, __path_create).add(get, __path_get).add(revoke, __path_revoke)
}

/// List the API keys of the environment. With an admin key, list the keys of all environments.
#[utoipa::path(
    get, path = "/api/v1/key", operation_id = "v1.key.list", tag = "Key", responses((status = 200, body = KeyListOut))
)]
async fn list(ByCaller { api, caller }: ByCaller) -> Answer<KeyListOut> {
    let keys = managed(&api, &caller).await?;
    let (environments, now) = (api.read(query::Environments {}).await?, api.now());
    Ok(Json(KeyListOut { data: keys.into_iter().map(|key| KeyOut::new(key, &environments, now)).collect() }))
}

/// Create an API key, and return its text, which is not shown again.
///
/// With an admin key, the header `everhook-environment` names the environment of the new key.
#[utoipa::path(
    post, path = "/api/v1/key", operation_id = "v1.key.create", tag = "Key", request_body = KeyIn,
    responses((status = 201, body = NewKeyOut))
)]
async fn create(ByCaller { api, caller }: ByCaller, input: Input) -> StatusAnswer<NewKeyOut> {
    if input.key.is_some() {
        let rule = "is not supported here: a repeated answer would have to store the key";
        return Err(ApiError::invalid(["header", "idempotency-key"], rule));
    }
    let wanted: KeyIn = input.json()?;
    let now = api.now();
    let name = input::some_text("name", wanted.name, TITLE_CHARS_MAX)?;
    let scope: KeyScope = at("scope").check(wanted.scope.parse())?;
    let extra = match &wanted.rights {
        Some(names) => at("rights").check(ExtraRights::of_request(scope, names.iter().map(String::as_str)))?,
        None => scope.default_extra(),
    };
    let grants = Grants { scope, extra };
    if !own_grants(&caller).cover(grants) {
        return Err(at("scope").breaks("must not grant more rights than the key of the request has").into());
    }
    if wanted.expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(at("expiresAt").breaks("must be in the future").into());
    }
    let access = access(&api, &caller, grants, wanted.application_id).await?;
    let active = |key: &&KeyRecord| key.is_active(now) && key.access.environment == access.environment;
    if api.read(query::Keys {}).await?.iter().filter(active).count() >= KEYS_MAX {
        return Err(ApiError::limit_reached(format!("There are {KEYS_MAX} active keys: revoke one first.")));
    }
    let key = ApiKey::generate(random());
    let id = KeyId(api.new_id());
    let new = NewKey { id, hash: key.hash(), hint: key.hint(), name, access, expires_at: wanted.expires_at };
    api.node.create_key(new).await?;
    let record = shown(&api, &caller, id).await?;
    Ok((StatusCode::CREATED, Json(NewKeyOut { key: key.expose().to_owned(), record })))
}

/// Get an API key, without its text.
#[utoipa::path(
    get, path = "/api/v1/key/{key_id}", operation_id = "v1.key.get", tag = "Key", params(KeyPath),
    responses((status = 200, body = KeyOut))
)]
async fn get(ByCaller { api, caller }: ByCaller, path: PathParams<KeyPath>) -> Answer<KeyOut> {
    shown(&api, &caller, path.id()?).await.map(Json)
}

/// Revoke an API key for ever. Every replica rejects it within 5 seconds.
#[utoipa::path(
    delete, path = "/api/v1/key/{key_id}", operation_id = "v1.key.revoke", tag = "Key", params(KeyPath),
    responses((status = 204, description = "The key is revoked."))
)]
async fn revoke(ByCaller { api, caller }: ByCaller, path: PathParams<KeyPath>) -> EmptyAnswer {
    let id = path.id()?;
    let is_managed = managed(&api, &caller).await?.iter().any(|key| key.id == id);
    if !is_managed || !api.node.change_key(id, KeyChange::Revoke).await? {
        return Err(path.not_found());
    }
    api.keys.clear();
    Ok(StatusCode::NO_CONTENT)
}

/// Finds the place in which the new key has its rights.
async fn access(
    api: &Api,
    caller: &Caller,
    grants: Grants,
    application: Option<String>,
) -> Result<KeyAccess, ApiError> {
    let environment = (grants.scope != KeyScope::Admin).then_some(caller.environment);
    let Some(text) = application else { return Ok(KeyAccess { environment, application: None, grants }) };
    if environment.is_none() {
        return Err(at("applicationId").breaks("must be absent for a key with the scope admin").into());
    }
    let unknown = || at("applicationId").breaks("must be the id or uid of an application");
    let locator = scope::application(&text).map_err(|_| unknown())?;
    let found = api.read(query::FindApplication { scope: caller.scope(), locator }).await?;
    let application = Some(found.ok_or_else(unknown)?.id);
    Ok(KeyAccess { environment, application, grants })
}

/// Returns the keys that the caller may manage.
async fn managed(api: &Api, caller: &Caller) -> Result<Vec<KeyRecord>, ApiError> {
    let mut keys = api.read(query::Keys {}).await?;
    if !matches!(caller.rights, Rights::Admin) {
        keys.retain(|key| key.access.environment == Some(caller.environment));
    }
    Ok(keys)
}

async fn shown(api: &Api, caller: &Caller, id: KeyId) -> Result<KeyOut, ApiError> {
    let found = managed(api, caller).await?.into_iter().find(|key| key.id == id);
    let found = found.ok_or_else(|| ApiError::not_found(format_args!("key {id}")))?;
    Ok(KeyOut::new(found, &api.read(query::Environments {}).await?, api.now()))
}

fn own_grants(caller: &Caller) -> Grants {
    match &caller.rights {
        Rights::Admin => Grants::of(KeyScope::Admin),
        Rights::Environment(grants) => *grants,
        Rights::Application { .. } => Grants { scope: KeyScope::Read, extra: ExtraRights::NONE },
    }
}

impl KeyPath {
    fn id(&self) -> Result<KeyId, ApiError> {
        self.key_id.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(scope::named("key", &self.key_id))
    }
}

impl KeyOut {
    fn new(key: KeyRecord, environments: &[Environment], now: Timestamp) -> KeyOut {
        let KeyAccess { environment, application, grants } = key.access;
        let state = match key.revoked_at {
            Some(_) => "revoked",
            None if key.is_active(now) => "active",
            None => "expired",
        };
        let named = |id| environments.iter().find(|known| known.id == id).map(|known| known.name.clone());
        KeyOut {
            id: key.id,
            name: key.name,
            scope: grants.scope.name(),
            rights: grants.names(),
            environment: environment.and_then(named),
            application_id: application,
            hint: key.hint,
            state,
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a key has to be unpredictable, and no decision depends on it")]
pub(crate) fn random() -> [u8; KEY_RANDOM_BYTES] {
    let mut random = [0; KEY_RANDOM_BYTES];
    getrandom::fill(&mut random).expect("the system has randomness");
    random
}
