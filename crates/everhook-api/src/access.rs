//! The right that each route needs of an API key, and the capability that it needs of an application token.
//!
//! Authentication looks every route up in two tables. Routes that are missing from [`NEEDS`] refuse application tokens,
//! so that a new route is closed to them by default. Routes that are missing from [`RIGHTS`] need `read` for GET and
//! `operate` for all other methods.

use axum::extract::MatchedPath;
use everhook_core::capability::Capability::{
    self, CreateAttempts, ManageEndpoint, ManageEndpointSecret, ViewBase, ViewEndpointSecret,
};
use everhook_core::right::Right::{self, Admin, ChangeUrl, ManageKeys, Operate, Read, RevealSecret, Write};
use http::request::Parts;

use crate::auth::Rights;
use crate::error::ApiError;

const NEEDS: &[(&str, &str, Capability)] = &[
    ("GET", "/api/v1/app/{app_id}", ViewBase),
    ("GET", "/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id}", ViewBase),
    ("GET", "/api/v1/app/{app_id}/attempt/msg/{msg_id}", ViewBase),
    ("GET", "/api/v1/app/{app_id}/delivery", ViewBase),
    ("GET", "/api/v1/app/{app_id}/endpoint", ViewBase),
    ("POST", "/api/v1/app/{app_id}/endpoint", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}", ViewBase),
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}", ManageEndpoint),
    ("PATCH", "/api/v1/app/{app_id}/endpoint/{endpoint_id}", ManageEndpoint),
    ("DELETE", "/api/v1/app/{app_id}/endpoint/{endpoint_id}", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/attempt-stats", ViewBase),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/basic-auth", ViewBase),
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/basic-auth", ManageEndpoint),
    ("DELETE", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/basic-auth", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/ca", ViewBase),
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/ca", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls", ViewBase),
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls", ManageEndpoint),
    ("DELETE", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls-config", ViewBase),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth", ViewBase),
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth", ManageEndpoint),
    ("DELETE", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth-config", ViewBase),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", ViewBase),
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", ManageEndpoint),
    ("PATCH", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/msg", ViewBase),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-redrive", CreateAttempts),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-replay", CreateAttempts),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover", CreateAttempts),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/redrive", CreateAttempts),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing", CreateAttempts),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/policy", ViewBase),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/filter/test", ViewBase),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret", ViewEndpointSecret),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate", ManageEndpointSecret),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example", CreateAttempts),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/stats", ViewBase),
    ("GET", "/api/v1/app/{app_id}/msg", ViewBase),
    ("GET", "/api/v1/app/{app_id}/msg/{msg_id}", ViewBase),
    ("GET", "/api/v1/app/{app_id}/msg/{msg_id}/attempt", ViewBase),
    ("GET", "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}", ViewBase),
    ("GET", "/api/v1/app/{app_id}/msg/{msg_id}/endpoint", ViewBase),
    ("GET", "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}", ViewBase),
    ("GET", "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/attempt", ViewBase),
    ("POST", "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/redrive", CreateAttempts),
    ("POST", "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend", CreateAttempts),
    ("POST", "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/retry-now", CreateAttempts),
    ("POST", "/api/v1/auth/logout", ViewBase),
    ("GET", "/api/v1/background-task", ViewBase),
    ("GET", "/api/v1/background-task/{task_id}", ViewBase),
    ("POST", "/api/v1/background-task/{task_id}/cancel", CreateAttempts),
    ("POST", "/api/v1/app/{app_id}/destination", ManageEndpoint),
    ("GET", "/api/v1/app/{app_id}/poller/{sink_id}", ViewBase),
    ("GET", "/api/v1/app/{app_id}/poller/{sink_id}/consumer/{consumer_id}", ViewBase),
    ("POST", "/api/v1/app/{app_id}/poller/{sink_id}/consumer/{consumer_id}/seek", CreateAttempts),
    ("GET", "/api/v1/portal-settings", ViewBase),
    ("GET", "/api/v1/event-type", ViewBase),
    ("GET", "/api/v1/event-type/{event_type_name}", ViewBase),
];

const RIGHTS: &[(&str, &str, Right)] = &[
    ("POST", "/api/v1/app", Write),
    ("PUT", "/api/v1/app/{app_id}", Write),
    ("PATCH", "/api/v1/app/{app_id}", Write),
    ("POST", "/api/v1/app/{app_id}/chat/preview", Read),
    // A test posts to the URL of the request.
    ("POST", "/api/v1/app/{app_id}/chat/test", ChangeUrl),
    ("POST", "/api/v1/app/{app_id}/webhook/test", ChangeUrl),
    ("POST", "/api/v1/app/{app_id}/destination", ChangeUrl),
    ("POST", "/api/v1/app/{app_id}/endpoint", ChangeUrl),
    // A changed URL needs `change-url`, too. The handlers check it.
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}", Write),
    ("PATCH", "/api/v1/app/{app_id}/endpoint/{endpoint_id}", Write),
    ("DELETE", "/api/v1/app/{app_id}/endpoint/{endpoint_id}", Write),
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", Write),
    ("PATCH", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", Write),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/filter/test", Read),
    ("GET", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret", RevealSecret),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate", RevealSecret),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example", Write),
    // The secret of the client is sent to the URL of the request.
    ("PUT", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth", ChangeUrl),
    // The key of an integration has all capabilities of its application.
    ("POST", "/api/v1/app/{app_id}/integration", ManageKeys),
    ("PUT", "/api/v1/app/{app_id}/integration/{integ_id}", ManageKeys),
    ("DELETE", "/api/v1/app/{app_id}/integration/{integ_id}", ManageKeys),
    ("POST", "/api/v1/app/{app_id}/integration/{integ_id}/key/rotate", ManageKeys),
    ("POST", "/api/v1/app/{app_id}/msg", Write),
    ("POST", "/api/v1/app/{app_id}/msg/batch", Write),
    ("POST", "/api/v1/app/{app_id}/msg/precheck/active", Read),
    ("POST", "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend", Write),
    ("POST", "/api/v1/app/{app_id}/poller/{sink_id}/consumer/{consumer_id}/seek", Write),
    ("POST", "/api/v1/auth/app-portal-access/{app_id}", ManageKeys),
    ("POST", "/api/v1/auth/app/{app_id}/expire-all", ManageKeys),
    ("POST", "/api/v1/auth/dashboard-access/{app_id}", ManageKeys),
    ("POST", "/api/v1/auth/logout", Read),
    ("POST", "/api/v1/batch", Write),
    ("POST", "/api/v1/batch/{batch_id}/job", Write),
    ("POST", "/api/v1/batch/{batch_id}/seal", Write),
    // The secret of an app is sent to the URL of the request.
    ("PUT", "/api/v1/chat-app/{kind}", ChangeUrl),
    ("POST", "/api/v1/environment/export", Read),
    ("POST", "/api/v1/event-type", Write),
    ("POST", "/api/v1/event-type/import/openapi", Write),
    ("PUT", "/api/v1/event-type/{event_type_name}", Write),
    ("PATCH", "/api/v1/event-type/{event_type_name}", Write),
    ("POST", "/api/v1/job", Write),
    ("POST", "/api/v1/job/bulk", Write),
    ("POST", "/api/v1/job/{job_id}/complete", Write),
    ("POST", "/api/v1/job/{job_id}/fail", Write),
    ("POST", "/api/v1/job/{job_id}/progress", Write),
    ("POST", "/api/v1/job/{job_id}/snooze", Write),
    ("GET", "/api/v1/key", ManageKeys),
    ("POST", "/api/v1/key", ManageKeys),
    ("GET", "/api/v1/key/{key_id}", ManageKeys),
    ("DELETE", "/api/v1/key/{key_id}", ManageKeys),
    ("GET", "/api/v1/audit", Operate),
    ("GET", "/api/v1/audit/verify", Operate),
    ("GET", "/api/v1/config", Admin),
    ("GET", "/api/v1/node", Admin),
    ("POST", "/api/v1/operational-webhook/endpoint", ChangeUrl),
    ("PUT", "/api/v1/operational-webhook/endpoint/{endpoint_id}", ChangeUrl),
    ("GET", "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret", RevealSecret),
    ("POST", "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret/rotate", RevealSecret),
    ("GET", "/api/v1/outbox", Admin),
    ("GET", "/api/v1/outbox/{outbox}/aside", Admin),
    ("POST", "/api/v1/outbox/{outbox}/aside/retry", Admin),
    ("DELETE", "/api/v1/outbox/{outbox}/aside/{row_id}", Admin),
    ("PATCH", "/api/v1/outbox/{outbox}/aside/{row_id}", Admin),
    ("POST", "/api/v1/outbox/{outbox}/aside/{row_id}/retry", Admin),
    ("GET", "/api/v1/queue/{queue}/secret", RevealSecret),
    ("POST", "/api/v1/schedule", Write),
    ("POST", "/api/v1/stats/usage/app", Read),
    ("PUT", "/api/v1/stats/usage/event-types", Read),
    ("POST", "/api/v1/worker", Write),
    ("DELETE", "/api/v1/worker/{worker_id}", Write),
    ("POST", "/api/v1/worker/{worker_id}/heartbeat", Write),
    ("POST", "/api/v1/worker/{worker_id}/lease", Write),
    ("GET", "/metrics", Admin),
];

/// Returns the right that an API key needs on a route.
pub(crate) fn right(method: &str, path: &str) -> Right {
    // HEAD needs the same right as GET.
    let method = if method == "HEAD" { "GET" } else { method };
    let path = path.strip_suffix('/').unwrap_or(path);
    let found = RIGHTS.iter().find(|need| (need.0, need.1) == (method, path)).map(|need| need.2);
    found.unwrap_or(if method == "GET" { Read } else { Operate })
}

/// Routes that change something and leave no entry in the audit log: the work of producers, workers and readers.
const NOT_AUDITED: &[(&str, &str)] = &[
    ("POST", "/api/v1/app/{app_id}/chat/preview"),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/filter/test"),
    ("POST", "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example"),
    ("POST", "/api/v1/app/{app_id}/msg"),
    ("POST", "/api/v1/app/{app_id}/msg/batch"),
    ("POST", "/api/v1/app/{app_id}/msg/precheck/active"),
    ("POST", "/api/v1/auth/logout"),
    ("POST", "/api/v1/batch"),
    ("POST", "/api/v1/batch/{batch_id}/job"),
    ("POST", "/api/v1/batch/{batch_id}/seal"),
    ("POST", "/api/v1/environment/export"),
    ("POST", "/api/v1/job"),
    ("POST", "/api/v1/job/bulk"),
    ("POST", "/api/v1/job/{job_id}/complete"),
    ("POST", "/api/v1/job/{job_id}/fail"),
    ("POST", "/api/v1/job/{job_id}/progress"),
    ("POST", "/api/v1/job/{job_id}/snooze"),
    ("POST", "/api/v1/stats/usage/app"),
    ("PUT", "/api/v1/stats/usage/event-types"),
    ("POST", "/api/v1/worker"),
    ("DELETE", "/api/v1/worker/{worker_id}"),
    ("POST", "/api/v1/worker/{worker_id}/heartbeat"),
    ("POST", "/api/v1/worker/{worker_id}/lease"),
];

/// Whether calls of a route are logged: all changes that are not listed above, and reads of secrets.
pub(crate) fn is_audited(method: &str, path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    match method {
        "GET" | "HEAD" => right(method, path) == RevealSecret,
        _ => !NOT_AUDITED.contains(&(method, path)),
    }
}

/// Returns the capability that an application token needs on a route, or none if the route refuses such tokens.
pub(crate) fn needed(method: &str, path: &str) -> Option<Capability> {
    // HEAD needs the same capability as GET.
    let method = if method == "HEAD" { "GET" } else { method };
    let path = path.strip_suffix('/').unwrap_or(path);
    NEEDS.iter().find(|need| (need.0, need.1) == (method, path)).map(|need| need.2)
}

/// Whether application tokens may use the route of a path.
pub(crate) fn is_for_tokens(method: &str, path: &str) -> bool {
    let method = if method == "HEAD" { "GET" } else { method };
    let path = path.strip_suffix('/').unwrap_or(path);
    let fits = |template: &str| {
        let (mut wanted, mut found) = (template.split('/'), path.split('/'));
        loop {
            match (wanted.next(), found.next()) {
                (None, None) => return true,
                (Some(wanted), Some(found)) if wanted == found || wanted.starts_with('{') => {}
                _ => return false,
            }
        }
    };
    NEEDS.iter().any(|need| need.0 == method && fits(need.1))
}

/// Refuses a key without the right, or an application token without the capability, that the route needs.
pub(crate) fn check(rights: &Rights, parts: &Parts) -> Result<(), ApiError> {
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let Rights::Application { capabilities, .. } = rights else {
        return rights.need(right(parts.method.as_str(), path));
    };
    match needed(parts.method.as_str(), path) {
        Some(capability) if capabilities.allow(capability) => Ok(()),
        Some(capability) => Err(ApiError::lacks(capability)),
        None => Err(ApiError::forbidden()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    #[test]
    fn a_path_is_found_by_the_form_of_its_route() {
        for (method, path) in [
            ("GET", "/api/v1/app/acme"),
            ("HEAD", "/api/v1/app/acme/"),
            ("PATCH", "/api/v1/app/acme/endpoint/main/headers"),
            ("GET", "/api/v1/event-type"),
        ] {
            assert!(is_for_tokens(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("DELETE", "/api/v1/app/acme"),
            ("POST", "/api/v1/app"),
            ("GET", "/api/v1/app"),
            ("GET", "/api/v1/job"),
            ("GET", "/"),
            ("GET", "/api/v1/app/acme/endpoint/main/headers/more"),
        ] {
            assert!(!is_for_tokens(method, path), "{method} {path}");
        }
    }

    #[test]
    fn every_entry_of_the_table_is_a_route() {
        let paths = routes::all().paths.paths;
        let needs = NEEDS.iter().map(|need| (need.0, need.1));
        let silent = NOT_AUDITED.iter().copied();
        let rights = RIGHTS.iter().map(|need| (need.0, need.1)).filter(|(_, path)| *path != "/metrics");
        for (method, path) in needs.chain(rights).chain(silent) {
            let item = paths.get(path).unwrap_or_else(|| panic!("no route {path}"));
            let operation = match method {
                "GET" => &item.get,
                "POST" => &item.post,
                "PUT" => &item.put,
                "PATCH" => &item.patch,
                "DELETE" => &item.delete,
                other => panic!("{other}"),
            };
            assert!(operation.is_some(), "{method} {path}");
        }
    }
}
