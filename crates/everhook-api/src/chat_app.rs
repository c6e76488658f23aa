//! Chat apps: the credentials of an environment for direct messages, one app for each platform.
//!
//! Secrets are written and never returned.

use axum::Json;
use everhook_chat::notice::ChatText;
use everhook_core::chat::{ChatKind, ChatLevel, ChatSecret, Language};
use everhook_core::chat_app::{ChatApp, ChatApps, PersonAddress};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::error::StoreError;
use everhook_store::query;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::Input;
use crate::resource::{self, ApiResource};
use crate::routes::{Answer, EmptyAnswer, Routes};
use crate::scope::{self, AtPath, InEnvironment};
use crate::state::Api;

/// The credentials of an app.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"secret": "xoxb-…"}))]
pub(crate) struct ChatAppIn {
    /// The app id (`feishu`, `lark`), corp id (`wecom`), app key (`dingtalk`) or bot id (`teams`). Not for `slack`.
    #[schema(max_length = 512)]
    client_id: Option<String>,
    /// The secret of the app; for `slack` the token of its bot (`xoxb-…`). Never returned. Absent: an app that exists
    /// keeps it.
    #[schema(max_length = 512)]
    secret: Option<String>,
    /// The directory of the organisation. Required for `teams`, and only there.
    #[schema(max_length = 512)]
    tenant_id: Option<String>,
    /// The number of the app. Required for `wecom` and `dingtalk`, and only there.
    #[schema(minimum = 0)]
    agent_id: Option<u64>,
    /// Replaces the address of the platform, for private clouds and tests. `EVERHOOK_CHAT_HOSTS` must name its host.
    #[schema(format = "uri", max_length = 512, example = "https://lark.internal.example.com")]
    api_url: Option<String>,
}

/// An app without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatAppOut {
    /// The platform.
    #[schema(value_type = String, example = "slack")]
    kind: ChatKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_url: Option<String>,
}

/// The apps of the environment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatAppsOut {
    data: Vec<ChatAppOut>,
    /// The time of the last change; null before the first.
    #[schema(value_type = Option<String>, format = DateTime)]
    updated_at: Option<Timestamp>,
}

/// A person to write to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatAppTestIn {
    /// The e-mail address; for `dingtalk` the phone number.
    #[schema(example = "ann@example.com")]
    address: String,
}

/// The result of a test.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatAppTestOut {
    /// Whether the person got the message.
    reached: bool,
    /// One sentence about the result.
    explanation: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ChatAppPath {
    /// The platform: `slack`, `teams`, `feishu`, `lark`, `wecom` or `dingtalk`.
    kind: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list).add(put, __path_put).add(delete, __path_delete).add(test, __path_test)
}

/// List the chat apps of the environment.
#[utoipa::path(
    get, path = "/api/v1/chat-app", operation_id = "v1.chat-app.list", tag = "Chat",
    responses((status = 200, body = ChatAppsOut))
)]
async fn list(InEnvironment { api, scope }: InEnvironment) -> Answer<ChatAppsOut> {
    let found = find(&api, scope).await?;
    let updated_at = (found.revision > 0).then_some(found.updated_at);
    Ok(Json(ChatAppsOut { data: found.apps.into_iter().map(ChatAppOut::from).collect(), updated_at }))
}

/// Create or replace the chat app of a platform.
#[utoipa::path(
    put, path = "/api/v1/chat-app/{kind}", operation_id = "v1.chat-app.put", tag = "Chat",
    params(ChatAppPath), request_body = ChatAppIn, responses((status = 200, body = ChatAppOut))
)]
async fn put(AtPath { api, scope, path }: AtPath<ChatAppPath>, input: Input) -> Answer<ChatAppOut> {
    let kind = path.kind()?;
    let ChatAppIn { client_id, secret, tenant_id, agent_id, api_url } = input.json()?;
    let change = |mut apps: ChatApps| {
        // A secret stays only at the place that it was given for.
        let kept = apps.of(kind).filter(|old| old.api_url == api_url).map(|old| old.secret.clone());
        let secret = secret.clone().map(ChatSecret).or(kept);
        let secret = secret.ok_or_else(|| at("secret").breaks("is required"))?;
        let (client_id, tenant_id, api_url) = (client_id.clone(), tenant_id.clone(), api_url.clone());
        let app = ChatApp { kind, client_id, secret, tenant_id, agent_id, api_url };
        app.check(&api.config.chat_hosts)?;
        apps.put(app);
        Ok(apps)
    };
    let changed = resource::change(&api, scope, &(), None, change).await?;
    let app = changed.of(kind).cloned().ok_or_else(|| no_app(kind))?;
    Ok(Json(app.into()))
}

/// Delete the chat app of a platform. Its messages go to the rooms of their endpoints.
#[utoipa::path(
    delete, path = "/api/v1/chat-app/{kind}", operation_id = "v1.chat-app.delete", tag = "Chat",
    params(ChatAppPath), responses((status = 204, description = "Deleted"))
)]
async fn delete(AtPath { api, scope, path }: AtPath<ChatAppPath>) -> EmptyAnswer {
    let kind = path.kind()?;
    let change = |mut apps: ChatApps| if apps.remove(kind) { Ok(apps) } else { Err(no_app(kind)) };
    resource::change(&api, scope, &(), None, change).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Write a test message to one person. Nothing is stored.
#[utoipa::path(
    post, path = "/api/v1/chat-app/{kind}/test", operation_id = "v1.chat-app.test", tag = "Chat",
    params(ChatAppPath), request_body = ChatAppTestIn, responses((status = 200, body = ChatAppTestOut))
)]
async fn test(AtPath { api, scope, path }: AtPath<ChatAppPath>, input: Input) -> Answer<ChatAppTestOut> {
    let kind = path.kind()?;
    let ChatAppTestIn { address } = input.json()?;
    let address = PersonAddress::read(kind, &address).map_err(|reason| at("address").breaks(reason))?;
    let apps = find(&api, scope).await?;
    let app = apps.of(kind).ok_or_else(|| no_app(kind))?;
    let text = ChatText {
        level: ChatLevel::Info,
        title: "Test of Everhook".to_owned(),
        description: "You get direct messages from Everhook.".to_owned(),
        fields: Vec::new(),
        link: None,
        mentions: Vec::new(),
        language: Language::En,
    };
    let tried = api.node.try_direct(app, &address, &text).await;
    let explanation = match &tried {
        Ok(()) => format!("{address} got the message"),
        Err(reason) => format!("{address} did not get the message: {reason}"),
    };
    Ok(Json(ChatAppTestOut { reached: tried.is_ok(), explanation }))
}

async fn find(api: &Api, scope: Scope) -> Result<ChatApps, StoreError> {
    Ok(api.read(query::FindChatApps { scope }).await?.unwrap_or_default())
}

fn no_app(kind: ChatKind) -> ApiError {
    ApiError::not_found(scope::named("chat app", kind.as_str()))
}

impl ChatAppPath {
    fn kind(&self) -> Result<ChatKind, ApiError> {
        let found = ChatKind::find(&self.kind).filter(|kind| kind.app_needs().is_some());
        found.ok_or_else(|| ApiError::not_found(scope::named("chat platform with direct messages", &self.kind)))
    }
}

impl ApiResource for ChatApps {
    type Scope = Scope;
    type Place = ();

    const NOUN: &'static str = "a list of chat apps";

    /// Returns an empty list if there is none.
    async fn find(api: &Api, scope: Scope, (): &()) -> Result<Option<Self>, StoreError> {
        find(api, scope).await.map(Some)
    }
}

impl From<ChatApp> for ChatAppOut {
    fn from(ChatApp { kind, client_id, secret: _, tenant_id, agent_id, api_url }: ChatApp) -> ChatAppOut {
        ChatAppOut { kind, client_id, tenant_id, agent_id, api_url }
    }
}
