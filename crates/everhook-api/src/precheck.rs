//! The precheck of a message: whether any endpoint would get it, so that a producer need not build its payload.

use axum::Json;
use everhook_core::draft::Draft;
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::input::Input;
use crate::routes::{Answer, Routes};
use crate::scope::{ApplicationPath, InApplication};

/// A message without its payload.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessagePrecheckIn {
    /// The event type of the message. It need not be in the catalogue.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "user.signup")]
    event_type: String,
    /// The channels of the message.
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<Vec<String>>,
}

/// The result of a precheck.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessagePrecheckOut {
    /// Whether at least one enabled endpoint wants such a message now.
    active: bool,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(precheck, __path_precheck)
}

/// Tell whether any enabled endpoint would get a message of this type on these channels. Nothing is created.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/precheck/active", operation_id = "v1.message.precheck", tag = "Message",
    params(ApplicationPath), request_body = MessagePrecheckIn, responses((status = 200, body = MessagePrecheckOut))
)]
async fn precheck(InApplication { api, scope, .. }: InApplication, input: Input) -> Answer<MessagePrecheckOut> {
    let MessagePrecheckIn { event_type, channels } = input.json()?;
    let checked = Draft { event_type, channels, ..Draft::default() }.check()?;
    let (event_type, channels) = (checked.event_type, checked.channels);
    let active = api.read(query::HasSubscriber { scope, event_type, channels }).await?;
    Ok(Json(MessagePrecheckOut { active }))
}
