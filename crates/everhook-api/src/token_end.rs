//! Ends application tokens before they expire: one by itself, or those of an application or of sessions.
//!
//! Every replica refuses an ended token within seconds, because it caches tokens as it caches keys.

use std::collections::BTreeSet;
use std::time::Duration;

use everhook_core::token::TokenEnd;
use everhook_core::violation::{Field, Violation, at};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::Rights;
use crate::error::ApiError;
use crate::input::Input;
use crate::limits::{TOKEN_END_DELAY_MAX, TOKEN_SESSION_CHARS_MAX, TOKEN_SESSIONS_MAX};
use crate::routes::{EmptyAnswer, Routes};
use crate::scope::{ApplicationPath, ByCaller, InApplication};

/// The tokens to end. All members are optional.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationTokenExpireIn {
    /// Seconds until the tokens end. Default: 0.
    #[schema(minimum = 0, maximum = 259_200)]
    expiry: Option<u64>,
    /// Only tokens of these sessions end. Default: all tokens of the application, also if the list is empty.
    #[schema(max_items = 1000)]
    session_ids: Option<Vec<String>>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(logout, __path_logout).add(expire_all, __path_expire_all)
}

/// End the application token of this request. Keys and tokens of environments are refused.
#[utoipa::path(
    post, path = "/api/v1/auth/logout", operation_id = "v1.authentication.logout", tag = "Authentication",
    responses((status = 204, description = "The token has ended."))
)]
async fn logout(ByCaller { api, caller }: ByCaller) -> EmptyAnswer {
    let Rights::Application { id, token: Some(token), .. } = caller.rights else {
        let detail = "Only an application token can end itself: revoke a key, or rotate the key of an integration.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "insufficient access", detail));
    };
    let end = TokenEnd::one(token.hash, api.now(), token.expires_at);
    api.node.end_tokens(caller.scope().application(id), vec![end]).await?;
    api.tokens.forget_ends();
    Ok(StatusCode::NO_CONTENT)
}

/// End the tokens of an application, or those of some sessions. Tokens that are issued later stay valid, and so do
/// the keys of integrations.
#[utoipa::path(
    post, path = "/api/v1/auth/app/{app_id}/expire-all",
    operation_id = "v1.authentication.expire-all", tag = "Authentication",
    params(ApplicationPath), request_body = Option<ApplicationTokenExpireIn>,
    responses((status = 204, description = "The tokens end after `expiry`."))
)]
async fn expire_all(InApplication { api, scope, .. }: InApplication, input: Input) -> EmptyAnswer {
    let wanted: ApplicationTokenExpireIn = input.json_or_default()?;
    let delay = Duration::from_secs(wanted.expiry.unwrap_or_default());
    if delay > TOKEN_END_DELAY_MAX {
        let rule = format!("must be from 0 to {} seconds", TOKEN_END_DELAY_MAX.as_secs());
        return Err(at("expiry").breaks(rule).into());
    }
    let now = api.now();
    let sessions = sessions(wanted.session_ids.unwrap_or_default())?;
    let ends = if sessions.is_empty() {
        vec![TokenEnd::all(now, delay)]
    } else {
        sessions.into_iter().map(|name| TokenEnd::session(name, now, delay)).collect()
    };
    api.node.end_tokens(scope, ends).await?;
    api.tokens.forget_ends();
    Ok(StatusCode::NO_CONTENT)
}

fn sessions(ids: Vec<String>) -> Result<BTreeSet<String>, Violation> {
    if ids.len() > TOKEN_SESSIONS_MAX {
        return Err(at("sessionIds").breaks(format!("must have at most {TOKEN_SESSIONS_MAX} entries")));
    }
    let check = |(index, id)| session(at("sessionIds").index(index), id);
    ids.into_iter().enumerate().map(check).collect()
}

/// Checks a session id at this place of the body.
pub(crate) fn session(place: Field, id: String) -> Result<String, Violation> {
    let fits = (1..=TOKEN_SESSION_CHARS_MAX).contains(&id.len());
    if fits && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@_-".contains(&byte)) {
        return Ok(id);
    }
    let rule = format!("must have 1 to {TOKEN_SESSION_CHARS_MAX} letters, digits, '@', '_' and '-'");
    Err(place.breaks(rule))
}
