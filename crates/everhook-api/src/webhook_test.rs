//! A test request to a URL that no endpoint has yet, with the full request and reply.
//!
//! The request is that of a delivery, signed with a secret that is drawn for it and shown. Rules of egress apply.
//! Nothing is stored, and nothing is retried. Chat URLs have a route of their own, because a chat message has another
//! form.

use std::collections::BTreeMap;

use axum::Json;
use everhook_core::id::MessageId;
use everhook_core::message;
use everhook_core::name::Name;
use everhook_core::outcome::{Outcome, classify};
use everhook_core::policy::statuses::FinalStatuses;
use everhook_core::poll::POLL_URL;
use everhook_core::signing::SigningKeys;
use everhook_core::violation::at;
use everhook_engine::run::outbound::WebhookTrial;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::attempt::{self, millis};
use crate::endpoint_secret;
use crate::input::Input;
use crate::routes::{Answer, Routes};
use crate::scope::{ApplicationPath, InApplication};

/// A URL to try, and the message to send.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WebhookTestIn<'a> {
    /// The URL that gets the request.
    #[schema(format = "uri", example = "https://example.com/webhook")]
    url: String,
    /// Default: `everhook.test`.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    event_type: Option<String>,
    /// The JSON object to send. Default: a short text.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
}

/// The request and the reply of a test.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookTestOut {
    /// Whether a delivery with this reply would have succeeded.
    delivered: bool,
    /// One sentence about the result.
    #[schema(example = "the receiver answered 200: a delivery would succeed")]
    explanation: String,
    /// `success`, `status`, or the class of a failed request, such as `timeout`.
    class: String,
    /// The HTTP status; 0 if there was no reply.
    response_status_code: u16,
    /// The beginning of the reply's body.
    response: String,
    response_duration_ms: u64,
    /// The request that was sent.
    request: WebhookTestRequestOut,
    /// The secret that signed the request. It is used only once.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: String,
}

/// The request of a test, without the headers of routing and framing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookTestRequestOut {
    /// `POST`.
    #[schema(example = "POST")]
    method: &'static str,
    url: String,
    headers: BTreeMap<String, String>,
    /// The body, as it was sent and signed.
    body: String,
}

/// The payload of a test without one.
const SAMPLE: &str = r#"{"type":"everhook.test","message":"This is a test of Everhook."}"#;

pub(crate) fn routes() -> Routes {
    Routes::default().add(test, __path_test)
}

/// Send one signed request to a URL, before an endpoint has it, and show the request and the reply. Nothing is stored,
/// and nothing is retried.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/webhook/test", operation_id = "v1.webhook.test", tag = "Endpoint",
    params(ApplicationPath), request_body = WebhookTestIn, responses((status = 200, body = WebhookTestOut))
)]
async fn test(InApplication { api, .. }: InApplication, input: Input) -> Answer<WebhookTestOut> {
    let wanted: WebhookTestIn<'_> = input.json()?;
    if wanted.url == POLL_URL {
        return Err(at("url").breaks("must be the URL of a receiver").into());
    }
    let url = String::from(at("url").check(api.config.egress.check_url(&wanted.url))?);
    let event_type: Name = at("eventType").check(wanted.event_type.as_deref().unwrap_or("everhook.test").parse())?;
    let body = wanted.payload.map_or(SAMPLE, RawValue::get).to_owned();
    at("payload").check(message::check_payload(&body))?;
    let keys = SigningKeys::new(endpoint_secret::random(api.config.default_signature));
    let trial = WebhookTrial { url: url.clone(), id: MessageId(api.new_id()), event_type, keys: &keys, body };
    let began = api.node.elapsed();
    let tried = api.node.try_webhook(&trial).await;
    let took = api.node.elapsed().saturating_sub(began);
    let (class, outcome) = classify(&tried.answer, api.now(), &FinalStatuses::default());
    let (response_status_code, response) = attempt::tried(&tried.answer);
    let delivered = matches!(outcome, Outcome::Success | Outcome::LastSuccess);
    let explanation = match &tried.answer {
        Ok(reply) if delivered => format!("the receiver answered {}: a delivery would succeed", reply.status),
        Ok(reply) => format!("the receiver answered {}: a delivery would fail", reply.status),
        Err(failure) => format!("no reply: {}", failure.detail),
    };
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(Json(WebhookTestOut {
        delivered,
        explanation,
        class: class.to_string(),
        response_status_code,
        response,
        response_duration_ms: millis(took),
        request: WebhookTestRequestOut {
            method: "POST",
            url,
            headers: tried.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: trial.body.clone(),
        },
        secret: keys.current.shared(),
    }))
}
