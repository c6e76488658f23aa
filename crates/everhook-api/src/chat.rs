//! Chat endpoints: their settings, a preview of the text, and a test post with the platform's answer explained.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use everhook_chat::notice::ChatFacts;
use everhook_chat::post::{Post, post};
use everhook_chat::reply::judge;
use everhook_chat::template;
use everhook_core::chat::{Chat, ChatKind, ChatSecret, Language, Template};
use everhook_core::endpoint::Endpoint;
use everhook_core::id::MessageId;
use everhook_core::message::{Message, Rest};
use everhook_core::name::Name;
use everhook_core::outcome::Outcome;
use everhook_core::policy::statuses::FinalStatuses;
use everhook_core::policy::{Settings, Switch};
use everhook_core::poll::POLL_URL;
use everhook_core::scope::AppScope;
use everhook_core::violation::{Violation, at};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;
use utoipa::ToSchema;

use crate::attempt::tried;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::routes::{Answer, Routes};
use crate::scope::{self, ApplicationPath, InApplication};
use crate::state::Api;

/// The text of a chat endpoint.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChatIn {
    /// The language of default titles: `en` or `zh`.
    #[schema(value_type = Option<String>)]
    language: Option<Language>,
    /// The secret of a signed webhook, for `dingtalk`, `feishu` and `lark`. Never shown. Absent: an existing endpoint
    /// keeps it. Null: removes it.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>, max_length = 256)]
    secret: Option<Option<String>>,
    /// The text of all event types without a template of their own.
    #[schema(value_type = Option<ChatTemplate>)]
    template: Option<Template>,
    /// Templates of single event types. A missing member is taken from `template`.
    #[schema(value_type = Option<BTreeMap<String, ChatTemplate>>)]
    event_types: Option<BTreeMap<Name, Template>>,
    /// A JSON pointer to the e-mail addresses (phone numbers for `dingtalk`) of people in the payload: a text or a list
    /// of up to 10 texts. They get the message through the chat app of the environment, and the room gets it if a
    /// person cannot be reached. Absent: an existing endpoint keeps it. Null: removes it.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>, max_length = 256, example = "/owner/email")]
    people: Option<Option<String>>,
}

/// The text of a chat endpoint, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatOut {
    /// The language of default titles.
    #[schema(value_type = String)]
    language: Language,
    /// The text of all event types without a template of their own.
    #[schema(value_type = ChatTemplate)]
    template: Template,
    /// Templates of single event types.
    #[schema(value_type = BTreeMap<String, ChatTemplate>)]
    event_types: BTreeMap<Name, Template>,
    /// A JSON pointer to the people in the payload who get the message instead of the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    people: Option<String>,
}

/// The parts of a message. Each text is a template (a subset of Jinja), in which `payload`, `eventType`, `eventId`,
/// `channels`, `tags`, `messageId`, `applicationId`, `createdAt`, `publicUrl`, `level` and `title` are known. Values
/// are escaped for the platform.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the template of the core")]
pub(crate) struct ChatTemplate {
    /// Renders to `info`, `success`, `warning` or `error`. Default: by the payload's `level`, or the event type.
    #[schema(max_length = 2048)]
    level: Option<String>,
    /// Default: the payload's `title`, or the event type.
    #[schema(max_length = 2048, example = "Pipeline {{ payload.name }} failed")]
    title: Option<String>,
    /// May contain the markup of the platform. Default: the payload's `message`.
    #[schema(max_length = 2048)]
    description: Option<String>,
    /// Labelled values. Default: the members of the payload.
    #[schema(max_items = 10, example = json!([{ "name": "Stage", "value": "{{ payload.stage }}" }]))]
    fields: Option<Vec<ChatField>>,
    /// Renders to an absolute URL. Default: the message in the dashboard, if the server has a public URL.
    #[schema(max_length = 2048)]
    link: Option<String>,
    /// Ids of people to mention, in the form of the platform, or `all`.
    #[schema(max_items = 20)]
    mentions: Option<Vec<String>>,
}

/// A labelled value of a chat message.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the field of the core")]
pub(crate) struct ChatField {
    #[schema(max_length = 2048)]
    name: String,
    #[schema(max_length = 2048)]
    value: String,
}

/// A chat endpoint and a message to try: both stored, or described here.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChatTryIn<'a> {
    /// The id or uid of a stored chat endpoint.
    endpoint_id: Option<String>,
    /// The platform, in the place of `endpointId`.
    kind: Option<String>,
    /// The URL of the webhook, in the place of `endpointId`. A preview needs none.
    #[schema(format = "uri")]
    url: Option<String>,
    /// The text. Default: that of the stored endpoint, or the default text.
    chat: Option<ChatIn>,
    /// The id or event id of an accepted message.
    msg_id: Option<String>,
    /// The event type of a sample message, in the place of `msgId`.
    event_type: Option<String>,
    /// The payload of a sample message.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
}

/// The request for a message, as the platform would get it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatPreviewOut {
    /// The body of the request.
    #[schema(value_type = Object)]
    body: Value,
    /// Why the default text replaces the template. Null: the template works.
    template_error: Option<String>,
}

/// The answer of a platform to a test post.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatTestOut {
    /// Whether the platform has posted the message.
    posted: bool,
    /// One sentence about the answer.
    #[schema(example = "slack has posted the message")]
    explanation: String,
    /// `success`, `status`, `throttled`, `gone`, or the class of a failed request.
    class: String,
    /// The HTTP status; 0 if there was no reply.
    response_status_code: u16,
    /// The body of the reply.
    response: String,
    /// The body of the request.
    #[schema(value_type = Object)]
    body: Value,
    /// Why the default text replaces the template. Null: the template works.
    template_error: Option<String>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(preview, __path_preview).add(test, __path_test)
}

/// Preview the text of a chat endpoint for a message. Nothing is sent.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/chat/preview", operation_id = "v1.chat.preview", tag = "Chat",
    params(ApplicationPath), request_body = ChatTryIn, responses((status = 200, body = ChatPreviewOut))
)]
async fn preview(InApplication { api, scope, .. }: InApplication, input: Input) -> Answer<ChatPreviewOut> {
    let trial = Trial::new(&api, scope, input.json()?, Url::parse(PLACEHOLDER).ok()).await?;
    let Post { body, failure, .. } = trial.post(&api)?;
    Ok(Json(ChatPreviewOut { body: serde_json::from_slice(&body).unwrap_or_default(), template_error: failure }))
}

/// Post a message to a chat room once, and explain the answer. Nothing is stored, and nothing is retried. The request
/// has neither the headers nor the credentials of the endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/chat/test", operation_id = "v1.chat.test", tag = "Chat",
    params(ApplicationPath), request_body = ChatTryIn, responses((status = 200, body = ChatTestOut))
)]
async fn test(InApplication { api, scope, .. }: InApplication, input: Input) -> Answer<ChatTestOut> {
    let trial = Trial::new(&api, scope, input.json()?, None).await?;
    let Post { url, body, failure } = trial.post(&api)?;
    let request = serde_json::from_slice(&body).unwrap_or_default();
    let answer = api.node.try_post(url, body).await;
    let judged = judge(trial.chat.kind, &trial.url, &answer, api.now(), &FinalStatuses::default());
    let (response_status_code, response) = tried(&answer);
    Ok(Json(ChatTestOut {
        posted: judged.outcome == Outcome::Success,
        explanation: judged.explanation,
        class: judged.class.to_string(),
        response_status_code,
        response,
        body: request,
        template_error: failure,
    }))
}

/// The host decides about the form of a preview without a URL.
const PLACEHOLDER: &str = "https://preview.invalid/";

/// A chat endpoint and a message that are complete.
struct Trial {
    chat: Chat,
    url: String,
    message: Message,
}

impl Trial {
    async fn new(
        api: &Api,
        scope: AppScope,
        mut wanted: ChatTryIn<'_>,
        placeholder: Option<Url>,
    ) -> Result<Trial, ApiError> {
        let old = scope::some_endpoint(api, scope, wanted.endpoint_id.as_deref()).await?;
        if old.is_some() && (wanted.kind.is_some() || wanted.url.is_some()) {
            let name = if wanted.kind.is_some() { "kind" } else { "url" };
            return Err(at(name).breaks("cannot be combined with endpointId").into());
        }
        if old.is_none() && wanted.kind.is_none() {
            return Err(at("kind").breaks("is required, or endpointId").into());
        }
        let chat = changed(wanted.kind.as_deref(), wanted.chat.take().map(Some), old.as_ref())?;
        let chat = chat.ok_or_else(|| at("endpointId").breaks("must name a chat endpoint"))?;
        let url = match (&old, wanted.url.take(), placeholder) {
            (Some(old), _, _) => checked_url(api, old.url.clone(), &chat, Some(old))?,
            (None, Some(url), _) => checked_url(api, url, &chat, None)?,
            (None, None, Some(url)) => {
                check_settings(&chat, &url)?;
                url.into()
            }
            (None, None, None) => return Err(at("url").breaks("is required, or endpointId").into()),
        };
        let message = message(api, scope, wanted).await?;
        Ok(Trial { chat: Arc::unwrap_or_clone(chat), url, message })
    }

    fn post(&self, api: &Api) -> Result<Post, ApiError> {
        let now = api.now();
        let removed = || ApiError::bad_request("payload_removed", "The payload of this message was removed.");
        let payload = self.message.payload_at(now).ok_or_else(removed)?;
        let facts = ChatFacts { message: &self.message, payload, public_url: api.config.public_url.as_deref() };
        Ok(post(&self.chat, &self.url, &facts, now))
    }
}

async fn message(api: &Api, scope: AppScope, wanted: ChatTryIn<'_>) -> Result<Message, ApiError> {
    if let Some(id) = &wanted.msg_id {
        if wanted.event_type.is_some() || wanted.payload.is_some() {
            let name = if wanted.payload.is_some() { "payload" } else { "eventType" };
            return Err(at(name).breaks("cannot be combined with msgId").into());
        }
        return scope::message(api, scope, id).await;
    }
    let event_type = wanted.event_type.as_deref().unwrap_or("everhook.test");
    let payload = match wanted.payload {
        Some(payload) => payload.get().to_owned(),
        None => SAMPLE.to_owned(),
    };
    Ok(Message {
        id: MessageId(api.new_id()),
        application: scope.application,
        event_type: at("eventType").check(event_type.parse())?,
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: Some(payload.into()),
        created_at: api.now(),
        rest: Rest::default(),
    })
}

/// The payload of a test without one.
const SAMPLE: &str = r#"{"title": "Test of Everhook", "message": "This room gets messages from Everhook."}"#;

/// Returns the settings after a request. Absent members stay; null resets the text.
pub(crate) fn changed(
    kind: Option<&str>,
    wanted: Option<Option<ChatIn>>,
    old: Option<&Endpoint>,
) -> Result<Option<Arc<Chat>>, Violation> {
    let old = old.and_then(|old| old.chat.as_ref());
    let kind = match kind {
        None => old.map(|old| old.kind),
        Some("http") => None,
        Some(name) => {
            let names = ChatKind::ALL.map(ChatKind::as_str).join(", ");
            let found = ChatKind::find(name).ok_or_else(|| at("kind").breaks(format!("must be http, {names}")))?;
            Some(found)
        }
    };
    let Some(kind) = kind else {
        return match wanted {
            Some(Some(_)) => Err(at("chat").breaks("is only for chat endpoints: set kind")),
            Some(None) | None => Ok(None),
        };
    };
    let kept = old.filter(|old| old.kind == kind);
    let secret = kept.and_then(|old| old.secret.clone());
    Ok(Some(match wanted {
        None => kept.cloned().unwrap_or_else(|| Arc::new(Chat::new(kind))),
        Some(None) => Arc::new(Chat { secret, ..Chat::new(kind) }),
        Some(Some(wanted)) => Arc::new(Chat {
            kind,
            secret: match wanted.secret {
                None => secret,
                Some(secret) => secret.map(ChatSecret),
            },
            language: wanted.language.unwrap_or_default(),
            template: wanted.template.unwrap_or_default(),
            event_types: wanted.event_types.unwrap_or_default(),
            people: match wanted.people {
                None => kept.and_then(|old| old.people.clone()),
                Some(people) => people,
            },
        }),
    }))
}

/// Adds the rate of the platform to the policy of an endpoint that becomes a chat endpoint without a rate.
pub(crate) fn with_rate(
    policy: Option<Arc<Settings>>,
    throttle_rate: Option<u16>,
    chat: Option<&Chat>,
    old: Option<&Chat>,
) -> Option<Arc<Settings>> {
    let is_new = chat.map(|chat| chat.kind) != old.map(|old| old.kind);
    let has_rate = throttle_rate.is_some() || policy.as_ref().is_some_and(|policy| policy.rate.is_some());
    match chat {
        Some(chat) if is_new && !has_rate => {
            let rate = Some(Switch::On(chat.kind.rate()));
            Some(Arc::new(Settings { rate, ..policy.as_deref().cloned().unwrap_or_default() }))
        }
        Some(_) | None => policy,
    }
}

/// Checks the URL and the settings of a chat endpoint. A URL that is unchanged or masked is kept.
pub(crate) fn checked_url(api: &Api, url: String, chat: &Chat, old: Option<&Endpoint>) -> Result<String, Violation> {
    let same = old.filter(|old| old.chat.as_ref().is_some_and(|old| old.kind == chat.kind));
    let kept = same.filter(|old| old.url == url || old.shown_url() == url);
    let url = match kept {
        Some(old) => at("url").check(Url::parse(&old.url))?,
        None if url == POLL_URL => return Err(at("url").breaks("must be the URL of a webhook of the platform")),
        None => {
            let url = at("url").check(api.config.egress.check_url(&url))?;
            at("url").check(chat.kind.check_url(&url, &api.config.chat_hosts))?;
            url
        }
    };
    check_settings(chat, &url)?;
    Ok(url.into())
}

fn check_settings(chat: &Chat, url: &Url) -> Result<(), Violation> {
    chat.check(url).and_then(|()| template::check(chat)).map_err(|violation| violation.under(at("chat")))
}

impl From<&Chat> for ChatOut {
    fn from(chat: &Chat) -> ChatOut {
        ChatOut {
            language: chat.language,
            template: chat.template.clone(),
            event_types: chat.event_types.clone(),
            people: chat.people.clone(),
        }
    }
}
