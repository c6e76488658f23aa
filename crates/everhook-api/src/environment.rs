//! Export and import of an environment's settings, for example from staging to production.
//!
//! The settings are its event types. An import only adds and changes event types, and never deletes one.

use std::collections::BTreeSet;

use axum::Json;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::catalog::ArchivedTypes;
use http::StatusCode;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event_type::{EventTypeIn, EventTypeOut};
use crate::event_type_import::{check_count, read_all, write};
use crate::input::{self, Input};
use crate::routes::{Answer, EmptyAnswer, Routes};
use crate::scope::InEnvironment;

/// The settings of an environment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentOut {
    /// The version of this format.
    version: u32,
    /// The time of the export.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Every event type, even an archived one.
    event_types: Vec<EventTypeOut>,
    /// Always null: an environment has no other settings.
    #[schema(value_type = Option<Object>)]
    settings: Option<()>,
    /// Always empty: Everhook has no connectors.
    #[schema(value_type = Vec<Object>)]
    connectors: [(); 0],
}

/// Settings to add to an environment, for example an export of another environment.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentIn {
    /// The event types to create or replace.
    #[serde(default, deserialize_with = "input::some_objects")]
    event_types: Option<Vec<EventTypeIn>>,
    /// Accepted and ignored.
    #[schema(value_type = Option<Object>)]
    #[allow(dead_code, reason = "clients send it, and it must be valid JSON")]
    settings: Option<IgnoredAny>,
    /// Must be absent or empty: Everhook has no connectors.
    #[schema(value_type = Option<Vec<Object>>, max_items = 0)]
    connectors: Option<Vec<IgnoredAny>>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(export, __path_export).add(import, __path_import)
}

/// Export the settings of the environment.
#[utoipa::path(
    post, path = "/api/v1/environment/export", operation_id = "v1.environment.export", tag = "Environment",
    responses((status = 200, body = EnvironmentOut))
)]
async fn export(InEnvironment { api, scope }: InEnvironment) -> Answer<EnvironmentOut> {
    let event_types = read_all(&api, scope, ArchivedTypes::Included).await?;
    Ok(Json(EnvironmentOut {
        version: 1,
        created_at: api.now(),
        event_types: event_types.into_iter().map(EventTypeOut::from).collect(),
        settings: None,
        connectors: [],
    }))
}

/// Import settings into the environment.
///
/// Event types are created or replaced, and others stay. Nothing is written if a part of the request is invalid. An
/// interrupted import may be repeated.
#[utoipa::path(
    post, path = "/api/v1/environment/import", operation_id = "v1.environment.import", tag = "Environment",
    request_body = EnvironmentIn, responses((status = 204))
)]
async fn import(InEnvironment { api, scope }: InEnvironment, input: Input) -> EmptyAnswer {
    let wanted: EnvironmentIn = input.json()?;
    if wanted.connectors.is_some_and(|connectors| !connectors.is_empty()) {
        return Err(at("connectors").breaks("must be empty: there are no connectors").into());
    }
    let event_types = wanted.event_types.unwrap_or_default();
    check_count("eventTypes", event_types.len())?;
    let (mut imports, mut seen) = (Vec::with_capacity(event_types.len()), BTreeSet::new());
    for (index, EventTypeIn { name, content }) in event_types.into_iter().enumerate() {
        let place = || at("eventTypes").index(index);
        let name: Name = place().member("name").check(Name::try_from(name))?;
        if !seen.insert(name.clone()) {
            return Err(place().member("name").breaks("must be listed once").into());
        }
        content.clone().check(&api, &name, None).map_err(|violation| violation.under(place()))?;
        imports.push((name, content));
    }
    for (name, content) in imports {
        write(&api, scope, &name, |old| content.clone().check(&api, &name, old)).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
