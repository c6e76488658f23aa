//! The effective configuration of this node, for operators. The route needs an admin key.
//!
//! The binary hands over the settings as they are shown: it redacts secrets, and this module adds nothing.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::routes::{Answer, Routes};
use crate::scope::AsAdmin;

/// A setting of the server.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SettingOut)]
pub struct ShownSetting {
    /// The key in the configuration file.
    #[schema(example = "slots")]
    pub name: String,
    /// The value in force. Secrets and the passwords of URLs are redacted.
    pub value: serde_json::Value,
    /// `default`, `flag`, the name of a variable, or the path of the configuration file.
    #[schema(example = "EVERHOOK_SLOTS")]
    pub source: String,
}

/// The settings of the node that answers. Other nodes can have others.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConfigOut {
    data: Vec<ShownSetting>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list)
}

/// List the settings of this node with their sources. Requires an admin key.
#[utoipa::path(
    get, path = "/api/v1/config", operation_id = "v1.config.list", tag = "Node", responses((status = 200, body = ConfigOut))
)]
async fn list(AsAdmin { api }: AsAdmin) -> Answer<ConfigOut> {
    Ok(Json(ConfigOut { data: api.config.settings.clone() }))
}
