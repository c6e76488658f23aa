//! The policies in force for an application and for an environment: those of an endpoint without settings of its own.

use axum::Json;
use everhook_core::policy::Settings;
use everhook_core::policy::effective::{Levels, ServerDefaults};
use everhook_core::scope::Scope;
use everhook_store::query;

use crate::policy::EffectiveOut;
use crate::routes::{Answer, Routes};
use crate::scope::{ApplicationPath, InApplication, InEnvironment};
use crate::state::Api;

pub(crate) fn routes() -> Routes {
    Routes::default().add(of_application, __path_of_application).add(of_environment, __path_of_environment)
}

/// Get the effective policy of an application, with the origin of each setting: the policy of its endpoints that have
/// no settings of their own.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/policy", operation_id = "v1.policy.get-application", tag = "Policy",
    params(ApplicationPath), responses((status = 200, body = EffectiveOut))
)]
async fn of_application(InApplication { api, scope, application }: InApplication) -> Answer<EffectiveOut> {
    effective(&api, scope.scope(), application.inherited().as_deref()).await
}

/// Get the effective policy of the environment, with the origin of each setting.
#[utoipa::path(
    get, path = "/api/v1/environment/effective-policy", operation_id = "v1.policy.get-environment", tag = "Policy",
    responses((status = 200, body = EffectiveOut))
)]
async fn of_environment(InEnvironment { api, scope }: InEnvironment) -> Answer<EffectiveOut> {
    effective(&api, scope, None).await
}

async fn effective(api: &Api, scope: Scope, application: Option<&Settings>) -> Answer<EffectiveOut> {
    let outer = api.read(query::FindEnvironmentPolicy { scope }).await?;
    let server = ServerDefaults { retry: api.node.retry_policy().clone(), timeout: api.config.delivery_timeout };
    let levels = Levels { endpoint: None, application, environment: outer.as_ref().map(|policy| &policy.settings) };
    Ok(Json(EffectiveOut::new(levels.effective(None, &server), None)))
}
