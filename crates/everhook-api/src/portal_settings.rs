//! The look of the consumer portal. Application tokens may read it; keys of the environment change it.

use axum::Json;
use everhook_core::portal::{PortalLook, PortalSettings};
use everhook_core::scope::Scope;
use everhook_store::error::StoreError;
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::input::Input;
use crate::resource::{self, ApiResource};
use crate::routes::{Answer, Routes};
use crate::scope::{ByCaller, InEnvironment};
use crate::state::Api;

/// The look of the portals of an environment. Absent members have their defaults.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = PortalSettings, example = json!({"name": "Osprey", "accent": "#5b5bd6", "backUrl": "https://app.example.com"}))]
pub(crate) struct PortalSettingsBody {
    /// The name in the head of the portal. Default: `Webhooks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    name: Option<String>,
    /// The logo: a `data:` URL of a PNG, JPEG, WebP or SVG image in base64. The portal loads nothing from elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 65_536, example = "data:image/png;base64,iVBORw0KGgo=")]
    logo_url: Option<String>,
    /// The colour of buttons and links.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 7, pattern = "^#[0-9a-fA-F]{6}$", example = "#5b5bd6")]
    accent: Option<String>,
    /// The address of your own site, for the link that leads back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048, pattern = "^https://", example = "https://app.example.com")]
    back_url: Option<String>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(get, __path_get).add(put, __path_put)
}

/// Get the look of the portals.
#[utoipa::path(
    get, path = "/api/v1/portal-settings", operation_id = "v1.portal-settings.get", tag = "Portal",
    responses((status = 200, body = PortalSettingsBody))
)]
async fn get(ByCaller { api, caller }: ByCaller) -> Answer<PortalSettingsBody> {
    Ok(Json(resource::get::<PortalSettings>(&api, caller.scope(), &()).await?.look.into()))
}

/// Replace the look of the portals.
#[utoipa::path(
    put, path = "/api/v1/portal-settings", operation_id = "v1.portal-settings.put", tag = "Portal",
    request_body = PortalSettingsBody, responses((status = 200, body = PortalSettingsBody))
)]
async fn put(InEnvironment { api, scope }: InEnvironment, input: Input) -> Answer<PortalSettingsBody> {
    let look: PortalLook = input.json::<PortalSettingsBody>()?.into();
    look.check()?;
    let change = |old: PortalSettings| Ok(PortalSettings { look: look.clone(), ..old });
    Ok(Json(resource::change(&api, scope, &(), None, change).await?.look.into()))
}

impl ApiResource for PortalSettings {
    type Scope = Scope;
    type Place = ();

    const NOUN: &'static str = "a look of the portal";

    /// Returns an empty look if none was set.
    async fn find(api: &Api, scope: Scope, (): &()) -> Result<Option<Self>, StoreError> {
        let found = api.read(query::FindPortalSettings { scope }).await?;
        Ok(Some(found.unwrap_or_default()))
    }
}

impl From<PortalSettingsBody> for PortalLook {
    fn from(PortalSettingsBody { name, logo_url, accent, back_url }: PortalSettingsBody) -> PortalLook {
        PortalLook { name, logo_url, accent, back_url }
    }
}

impl From<PortalLook> for PortalSettingsBody {
    fn from(PortalLook { name, logo_url, accent, back_url }: PortalLook) -> PortalSettingsBody {
        PortalSettingsBody { name, logo_url, accent, back_url }
    }
}
