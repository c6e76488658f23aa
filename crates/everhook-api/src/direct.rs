//! Messages with a URL of their own, in the place of subscriptions.
//!
//! The URL becomes an endpoint of the application that subscribes to nothing, so that its deliveries are guarded,
//! signed, retried, limited and shown like all others. All messages to the same URL share the endpoint.

use everhook_core::endpoint::{self, Endpoint};
use everhook_core::fanout::Audience;
use everhook_core::scope::AppScope;
use everhook_core::violation::at;
use everhook_store::catalog::Locator;
use everhook_store::query;

use crate::endpoint::Checks;
use crate::error::ApiError;
use crate::quota;
use crate::state::Api;

/// Finds or creates the endpoint for messages to `url`. Call it last, so that a bad request creates nothing.
pub(crate) async fn audience(api: &Api, scope: AppScope, url: &str) -> Result<Audience, ApiError> {
    let url = String::from(at("url").check(api.config.egress.check_url(url))?);
    let uid = endpoint::direct_uid(&url);
    let found = api.read(query::FindEndpoint { scope, locator: Locator::Uid(uid.clone()) }).await?;
    let endpoint = match found {
        Some(found) => found,
        None => {
            let endpoint = Endpoint {
                uid: Some(uid),
                url: url.clone(),
                description: "For messages that name this URL.".to_owned(),
                event_types: Some(Vec::new()),
                ..Checks::none(api).blank(scope.application, None)
            };
            // If another request has created the endpoint meanwhile, both requests use that endpoint.
            quota::create_endpoint(api, scope, endpoint, None).await?.any()
        }
    };
    if endpoint.url != url || endpoint.chat.is_some() {
        let rule = format!("leads to the endpoint {}, whose URL was changed: delete that endpoint first", endpoint.id);
        return Err(at("url").breaks(rule).into());
    }
    match endpoint.accepts() {
        true => Ok(Audience::Only(endpoint.id)),
        false => {
            let detail = format!("The endpoint {} for this URL is disabled: enable it, then send again.", endpoint.id);
            Err(ApiError::bad_request("endpoint_disabled", detail))
        }
    }
}
