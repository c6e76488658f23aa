//! Converts rows of a Svix database to records, with the rules of the API. Errors are reasons for people.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use everhook_api::rules;
use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::event_type::EventType;
use everhook_core::filter::TypePattern;
use everhook_core::id::{ApplicationId, EndpointId};
use everhook_core::name::{Metadata, Name};
use everhook_core::signing::{SigningKey, SigningKeys};
use everhook_core::svix_key::{self, MainSecret};
use everhook_core::time::Timestamp;
use everhook_postgres::{SvixApplication, SvixEndpoint, SvixEventType};
use everhook_sender::egress::Egress;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A rotated key in the column `old_keys`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldKey {
    expiration: Timestamp,
    /// Base64 of a stored key.
    signing_key: String,
}

pub(super) fn application(row: SvixApplication) -> Result<Application, String> {
    let application = Application {
        id: row.id.parse().map_err(|_| unknown_id(&row.id))?,
        uid: uid(row.uid.as_deref(), ApplicationId::PREFIX)?,
        name: row.name,
        throttle_rate: rate(row.rate_limit)?,
        policy: None,
        metadata: json::<Metadata>("metadata", row.metadata.as_deref())?.unwrap_or_default(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
    };
    rules::check_application(&application).map_err(|broken| broken.to_string())?;
    Ok(application)
}

/// The new state of an application that may exist. Its policy, which Svix does not have, stays.
pub(super) fn application_after(new: Application, old: Option<&Application>) -> Application {
    let Some(old) = old else { return new };
    let (created_at, updated_at, revision) = (old.created_at, old.updated_at, old.revision);
    Application { policy: old.policy.clone(), created_at, updated_at, revision, ..new }
}

pub(super) fn endpoint(
    row: SvixEndpoint,
    main: Option<&MainSecret>,
    now: Timestamp,
    egress: &Egress,
) -> Result<Endpoint, String> {
    let names = |field, text: Option<String>| -> Result<Option<Vec<Name>>, String> {
        let names = json::<Vec<String>>(field, text.as_deref())?.filter(|names| !names.is_empty());
        names.map(|names| names.into_iter().map(|text| name(field, &text)).collect()).transpose()
    };
    let id = row.id.parse().map_err(|_| unknown_id(&row.id))?;
    let application = row.application.parse().map_err(|_| unknown_id(&row.application))?;
    let endpoint = Endpoint {
        uid: uid(row.uid.as_deref(), EndpointId::PREFIX)?,
        keys: keys(&row, main, now)?,
        description: row.description,
        state: if row.disabled { EndpointState::Disabled } else { EndpointState::Enabled },
        event_types: names("eventTypes", row.event_types)?
            .map(|names| names.into_iter().map(TypePattern::from).collect()),
        channels: names("channels", row.channels)?,
        headers: json::<BTreeMap<String, String>>("headers", row.headers.as_deref())?.unwrap_or_default(),
        throttle_rate: rate(row.rate_limit)?,
        metadata: json::<Metadata>("metadata", row.metadata.as_deref())?.unwrap_or_default(),
        version: u16::try_from(row.version).map_err(|_| format!("version {} is too large", row.version))?,
        ..Endpoint::new(id, application, row.url, Timestamp::default())
    };
    rules::check_endpoint(endpoint, egress).map_err(|broken| broken.to_string())
}

/// The new state of an endpoint that may exist. Fields that Svix does not have stay.
pub(super) fn endpoint_after(new: Endpoint, old: Option<&Endpoint>) -> Endpoint {
    let Some(old) = old else { return new };
    let (created_at, updated_at, revision) = (old.created_at, old.updated_at, old.revision);
    let (policy, filter, chat) = (old.policy.clone(), old.filter.clone(), old.chat.clone());
    Endpoint { policy, filter, chat, created_at, updated_at, revision, ..new }
}

pub(super) fn event_type(row: SvixEventType) -> Result<EventType, String> {
    let event_type = EventType {
        name: name("name", &row.name)?,
        description: row.description,
        archived: row.archived,
        deprecated: false,
        // Neither database stores an absence of schemas in one form only.
        schemas: row.schemas.filter(|text| text.trim() != "null"),
        feature_flag: row.feature_flag.map(|flag| name("featureFlag", &flag)).transpose()?,
        group_name: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
    };
    rules::check_event_type(&event_type).map_err(|broken| broken.to_string())?;
    Ok(event_type)
}

/// The new state of an event type that may exist. Fields that Svix does not have stay.
pub(super) fn event_type_after(new: EventType, old: Option<&EventType>) -> EventType {
    let Some(old) = old else { return new };
    EventType {
        deprecated: old.deprecated,
        group_name: old.group_name.clone(),
        created_at: old.created_at,
        updated_at: old.updated_at,
        revision: old.revision,
        ..new
    }
}

/// The current key, and rotated ones that still sign.
fn keys(row: &SvixEndpoint, main: Option<&MainSecret>, now: Timestamp) -> Result<SigningKeys, String> {
    let read = |stored: &[u8]| svix_key::read(stored, main).map_err(|bad| format!("secret {bad}"));
    let current = read(&row.key)?;
    let mut old: Vec<(SigningKey, Timestamp)> = Vec::new();
    for key in json::<Vec<OldKey>>("oldKeys", row.old_keys.as_deref())?.unwrap_or_default() {
        if key.expiration > now {
            let stored = BASE64.decode(&key.signing_key).map_err(|_| "old secret is not base64".to_owned())?;
            old.push((read(&stored)?, key.expiration));
        }
    }
    old.sort_by_key(|(_, until)| std::cmp::Reverse(*until));
    Ok(SigningKeys { current, old })
}

fn json<T: DeserializeOwned>(field: &str, text: Option<&str>) -> Result<Option<T>, String> {
    let read = text.map(serde_json::from_str::<Option<T>>).transpose();
    read.map(Option::flatten).map_err(|error| format!("{field} has an unknown form: {error}"))
}

fn uid(text: Option<&str>, prefix: &'static str) -> Result<Option<Name>, String> {
    text.map(|text| Name::uid(text, prefix)).transpose().map_err(|bad| format!("uid {bad}"))
}

fn name(field: &str, text: &str) -> Result<Name, String> {
    text.parse().map_err(|bad| format!("{field} {text:?} {bad}"))
}

fn rate(limit: Option<i32>) -> Result<Option<u16>, String> {
    let number = |limit| u16::try_from(limit).map_err(|_| format!("throttleRate {limit} must be from 1 to 65535"));
    limit.map(number).transpose()
}

fn unknown_id(text: &str) -> String {
    format!("{text:?} is not an id that Everhook can keep")
}
