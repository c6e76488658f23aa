//! The rules of the API for records that reach the store by another way, such as an import.
//!
//! The types of a record already guarantee the form of its names and ids. Here are the bounds and formats that requests
//! have to keep as well, so that every stored record could have been written through the API.

use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::limits::{
    DESCRIPTION_CHARS_MAX, ENDPOINT_CHANNELS_MAX, ENDPOINT_EVENT_TYPES_BYTES_MAX, ENDPOINT_EVENT_TYPES_MAX,
    OLD_KEYS_MAX, TITLE_CHARS_MAX,
};
use everhook_core::violation::{Violation, at};
use everhook_sender::egress::Egress;

use crate::{endpoint_headers, event_type, input};

/// Checks an application against the rules for requests.
pub fn check_application(application: &Application) -> Result<(), Violation> {
    input::some_text("name", application.name.clone(), TITLE_CHARS_MAX)?;
    input::throttle_rate(application.throttle_rate)?;
    input::metadata(application.metadata.clone()).map(drop)
}

/// Checks an endpoint against the rules for requests, and returns it with its URL in the stored form. Its event types
/// need not exist.
pub fn check_endpoint(endpoint: Endpoint, egress: &Egress) -> Result<Endpoint, Violation> {
    let url = at("url").check(egress.check_url(&endpoint.url))?.into();
    input::text("description", endpoint.description.clone(), DESCRIPTION_CHARS_MAX)?;
    input::throttle_rate(endpoint.throttle_rate)?;
    input::metadata(endpoint.metadata.clone())?;
    endpoint_headers::check(endpoint.headers.clone())?;
    let too_many = |field: &'static str, max: usize| Err(at(field).breaks(format!("must have at most {max} entries")));
    let types = endpoint.event_types.as_deref().unwrap_or_default();
    if types.len() > ENDPOINT_EVENT_TYPES_MAX {
        return too_many("eventTypes", ENDPOINT_EVENT_TYPES_MAX);
    }
    if types.iter().map(|name| name.as_str().len()).sum::<usize>() > ENDPOINT_EVENT_TYPES_BYTES_MAX {
        let rule = format!("must have at most {ENDPOINT_EVENT_TYPES_BYTES_MAX} characters in all its names");
        return Err(at("eventTypes").breaks(rule));
    }
    if endpoint.channels.as_ref().is_some_and(|channels| channels.len() > ENDPOINT_CHANNELS_MAX) {
        return too_many("channels", ENDPOINT_CHANNELS_MAX);
    }
    if endpoint.keys.old.len() > OLD_KEYS_MAX {
        return too_many("old keys", OLD_KEYS_MAX);
    }
    Ok(Endpoint { url, ..endpoint })
}

/// Checks an event type against the rules for requests.
pub fn check_event_type(event_type: &EventType) -> Result<(), Violation> {
    input::text("description", event_type.description.clone(), DESCRIPTION_CHARS_MAX)?;
    let schemas = event_type.schemas.as_deref().map(serde_json::from_str).transpose();
    event_type::check_schemas(at("schemas").check(schemas)?, None)?;
    event_type::check_group(event_type.group_name.clone()).map(drop)
}
