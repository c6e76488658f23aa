//! Event types: the catalogue of the types of messages in an environment.

use std::collections::BTreeMap;

use axum::Json;
use everhook_core::event_type::EventType;
use everhook_core::json_schema;
use everhook_core::limits::{
    DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, PAGE_MAX, SCHEMAS_BYTES_MAX, SCHEMAS_MAX, TITLE_CHARS_MAX,
};
use everhook_core::name::{self, Name};
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::catalog::{ArchivedTypes, Order, Slice};
use everhook_store::piece::Piece;
use everhook_store::query;
use everhook_store::resource::ResourceKey;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Rights};
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::limits::VISIBLE_ROUNDS_MAX;
use crate::merge::Form;
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::query::Query;
use crate::resource::{self, Creation};
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{AtPath, ByCaller, InEnvironment, PathParams};
use crate::state::Api;

/// An event type to create.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EventTypeIn {
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "user.signup")]
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) content: EventTypeUpdate,
}

/// The new content of an event type.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTypeUpdate {
    /// A description for display.
    pub(crate) description: String,
    /// Whether the type is archived. New endpoints cannot select archived types.
    pub(crate) archived: Option<bool>,
    /// Whether the type is deprecated.
    pub(crate) deprecated: Option<bool>,
    /// JSON Schemas (draft 7) by version.
    #[schema(value_type = Option<Object>)]
    pub(crate) schemas: Option<BTreeMap<String, Value>>,
    /// The feature flag of the type. Application tokens without this flag do not see the type.
    pub(crate) feature_flag: Option<String>,
    /// The feature flag as a list of at most one entry.
    pub(crate) feature_flags: Option<Vec<String>>,
    /// The group of the type in lists.
    pub(crate) group_name: Option<String>,
}

/// An event type.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTypeOut {
    #[schema(value_type = String)]
    name: Name,
    description: String,
    archived: bool,
    deprecated: bool,
    #[schema(value_type = Option<Object>)]
    schemas: Option<Box<RawValue>>,
    #[schema(value_type = Option<String>)]
    feature_flag: Option<Name>,
    #[schema(value_type = Option<Vec<String>>)]
    feature_flags: Option<[Name; 1]>,
    group_name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Include archived types.
    #[serde(deserialize_with = "crate::query::one")]
    include_archived: Option<bool>,
    /// Include the schemas.
    #[serde(deserialize_with = "crate::query::one")]
    with_content: Option<bool>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteParams {
    /// Remove the type permanently instead of archiving it.
    #[serde(deserialize_with = "crate::query::one")]
    expunge: Option<bool>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct EventTypePath {
    /// The event type's name.
    event_type_name: String,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, put __path_put, patch __path_patch,
        delete __path_delete,
    ]
}

/// List event types.
#[utoipa::path(
    get, path = "/api/v1/event-type", operation_id = "v1.event-type.list", tag = "Event Type",
    params(PageParams, OrderParams, ListParams),
    responses((status = 200, body = Page<EventTypeOut>))
)]
async fn list(
    ByCaller { api, caller }: ByCaller,
    listing: Listing,
    Query(params): Query<ListParams>,
) -> Answer<Page<EventTypeOut>> {
    let cursor = listing.cursor(Order::Ascending)?;
    let archived = match params.include_archived {
        Some(true) => ArchivedTypes::Included,
        Some(false) | None => ArchivedTypes::Excluded,
    };
    let piece = read_visible(&api, &caller, archived, cursor.slice()).await?;
    let show = |row: EventType| match params.with_content {
        Some(true) => row.into(),
        Some(false) | None => EventTypeOut::from(EventType { schemas: None, ..row }),
    };
    Ok(Json(cursor.page_of(piece, |row| row.name.clone(), show)))
}

/// Create an event type. An archived type of the same name is restored with the new content.
#[utoipa::path(
    post, path = "/api/v1/event-type", operation_id = "v1.event-type.create", tag = "Event Type",
    request_body = EventTypeIn, responses((status = 201, body = EventTypeOut))
)]
async fn create(InEnvironment { api, scope }: InEnvironment, input: Input) -> StatusAnswer<EventTypeOut> {
    let EventTypeIn { name, content } = input.json()?;
    let name = at("name").check(Name::try_from(name))?;
    let wanted = content.clone().check(&api, &name, None)?;
    match resource::create(&api, scope, wanted, input.key.as_ref()).await? {
        Creation::Taken(old) if old.archived => {
            let revive = |old: EventType| Ok(content.clone().check(&api, &name, Some(old))?);
            Ok((StatusCode::CREATED, Json(resource::change(&api, scope, &name, None, revive).await?.into())))
        }
        creation => creation.answer(),
    }
}

/// Get an event type.
#[utoipa::path(
    get, path = "/api/v1/event-type/{event_type_name}", operation_id = "v1.event-type.get", tag = "Event Type",
    params(EventTypePath), responses((status = 200, body = EventTypeOut))
)]
async fn get(ByCaller { api, caller }: ByCaller, path: PathParams<EventTypePath>) -> Answer<EventTypeOut> {
    let found = api.read(query::FindEventType { scope: caller.scope(), name: path.name()? }).await?;
    let found = found.filter(|found| is_visible(&caller, found)).ok_or_else(|| path.not_found())?;
    Ok(Json(found.into()))
}

/// Replace an event type, or create it.
#[utoipa::path(
    put, path = "/api/v1/event-type/{event_type_name}", operation_id = "v1.event-type.update", tag = "Event Type",
    params(EventTypePath), request_body = EventTypeUpdate,
    responses(
        (status = 200, body = EventTypeOut),
        (status = 201, body = EventTypeOut, description = "The event type was created."),
    )
)]
async fn put(AtPath { api, scope, path }: AtPath<EventTypePath>, input: Input) -> StatusAnswer<EventTypeOut> {
    let name = at("event_type_name").check(Name::try_from(path.event_type_name)).map_err(ApiError::in_path)?;
    let wanted: EventTypeUpdate = input.json()?;
    let check = |old| Ok(wanted.clone().check(&api, &name, old)?);
    resource::put(&api, scope, &name, |old| check(Some(old)), || check(None)).await
}

/// Change an event type. Absent members keep their values.
#[utoipa::path(
    patch, path = "/api/v1/event-type/{event_type_name}", operation_id = "v1.event-type.patch", tag = "Event Type",
    params(EventTypePath), request_body(content = ref("#/components/schemas/EventTypePatch")), responses((status = 200, body = EventTypeOut))
)]
async fn patch(AtPath { api, scope, path }: AtPath<EventTypePath>, input: Input) -> Answer<EventTypeOut> {
    let name = path.name()?;
    let change = |old| Ok(input.patched::<EventTypeUpdate>(&old)?.check(&api, &name, Some(old))?);
    Ok(Json(resource::change(&api, scope, &name, None, change).await?.into()))
}

/// Archive an event type, or remove it permanently.
#[utoipa::path(
    delete, path = "/api/v1/event-type/{event_type_name}", operation_id = "v1.event-type.delete",
    tag = "Event Type", params(EventTypePath, DeleteParams), responses((status = 204))
)]
async fn delete(AtPath { api, scope, path }: AtPath<EventTypePath>, Query(params): Query<DeleteParams>) -> EmptyAnswer {
    let name = path.name()?;
    if params.expunge == Some(true) {
        return resource::delete::<EventType>(&api, scope, &name, ResourceKey::EventType(name.clone())).await;
    }
    let archive = |old: EventType| Ok(EventType { archived: true, ..old });
    resource::change(&api, scope, &name, None, archive).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads the rows of a page, without the types that an application token must not see.
async fn read_visible(
    api: &Api,
    caller: &Caller,
    archived: ArchivedTypes,
    slice: Slice<Name>,
) -> Result<Piece<EventType, Name>, ApiError> {
    if let Rights::Environment(_) | Rights::Admin = caller.rights {
        return Ok(api.read(query::EventTypes { scope: caller.scope(), archived, slice: slice.clone() }).await?);
    }
    let mut visible = Vec::new();
    let mut part = Slice { limit: PAGE_MAX, ..slice.clone() };
    for _ in 0..VISIBLE_ROUNDS_MAX {
        let piece = api.read(query::EventTypes { scope: caller.scope(), archived, slice: part.clone() }).await?;
        let is_heavy = piece.next.is_some();
        part.after = piece.continues_after(part.limit, |row| row.name.clone());
        visible.extend(piece.rows.into_iter().filter(|row| is_visible(caller, row)));
        // A piece that ended early has reached the size limit of a page.
        if part.after.is_none() || is_heavy || visible.len() >= slice.limit {
            break;
        }
    }
    let next = part.after.filter(|_| visible.len() < slice.limit);
    visible.truncate(slice.limit);
    Ok(Piece { rows: visible, next })
}

pub(crate) fn is_visible(caller: &Caller, event_type: &EventType) -> bool {
    match (&caller.rights, &event_type.feature_flag) {
        (Rights::Environment(_) | Rights::Admin, _) | (_, None) => true,
        (Rights::Application { flags, .. }, Some(flag)) => flags.contains(flag),
    }
}

/// Checks that schemas are JSON Schemas of draft 7, without fetching references. If they equal the schemas of `old`,
/// keeps the stored text, byte for byte.
pub(crate) fn check_schemas(
    schemas: Option<BTreeMap<String, Value>>,
    old: Option<EventType>,
) -> Result<Option<String>, Violation> {
    if let Some(old) = old.filter(|old| EventTypeUpdate::of(old).schemas == schemas) {
        return Ok(old.schemas);
    }
    let Some(schemas) = schemas else { return Ok(None) };
    let refuse = |rule: String| Err(at("schemas").breaks(rule));
    if schemas.len() > SCHEMAS_MAX {
        return refuse(format!("must have at most {SCHEMAS_MAX} versions"));
    }
    for (version, schema) in &schemas {
        at("schemas").check(name::check_length(version, NAME_CHARS_MAX))?;
        at("schemas").check(name::check_text(version))?;
        json_schema::check(schema, &at("schemas").member(version.clone()))?;
    }
    let text = at("schemas").check(serde_json::to_string(&schemas))?;
    if text.len() > SCHEMAS_BYTES_MAX {
        return refuse(format!("must have at most {SCHEMAS_BYTES_MAX} bytes as JSON"));
    }
    Ok(Some(text))
}

fn check_flag(one: Option<String>, list: Option<Vec<String>>) -> Result<Option<Name>, Violation> {
    let mut flags = list.unwrap_or_default();
    if flags.len() > 1 {
        return Err(at("featureFlags").breaks("must have at most one entry"));
    }
    at("featureFlag").check(one.or(flags.pop()).map(Name::try_from).transpose())
}

pub(crate) fn check_group(group: Option<String>) -> Result<Option<String>, Violation> {
    group.map(|group| input::text("groupName", group, TITLE_CHARS_MAX)).transpose()
}

impl EventTypePath {
    /// Parses the name. A malformed name is not found.
    fn name(&self) -> Result<Name, ApiError> {
        self.event_type_name.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(format_args!("event type {:?}", self.event_type_name))
    }
}

impl Form for EventTypeUpdate {
    type Record = EventType;

    const ALIASES: &'static [(&'static str, &'static str)] = &[("featureFlags", "featureFlag")];

    fn of(event_type: &EventType) -> EventTypeUpdate {
        EventTypeUpdate {
            description: event_type.description.clone(),
            archived: Some(event_type.archived),
            deprecated: Some(event_type.deprecated),
            schemas: event_type.schemas.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            feature_flag: event_type.feature_flag.as_ref().map(Name::to_string),
            feature_flags: None,
            group_name: event_type.group_name.clone(),
        }
    }
}

impl EventTypeUpdate {
    /// Builds a new event type, or the replacement of `old`.
    pub(crate) fn check(self, api: &Api, name: &Name, old: Option<EventType>) -> Result<EventType, Violation> {
        let now = api.now();
        let (created_at, revision) = old.as_ref().map_or((now, 0), |old| (old.created_at, old.revision));
        Ok(EventType {
            name: name.clone(),
            description: input::text("description", self.description, DESCRIPTION_CHARS_MAX)?,
            archived: self.archived.unwrap_or(false),
            deprecated: self.deprecated.unwrap_or(false),
            schemas: check_schemas(self.schemas, old)?,
            feature_flag: check_flag(self.feature_flag, self.feature_flags)?,
            group_name: check_group(self.group_name)?,
            created_at,
            updated_at: now,
            revision,
        })
    }
}

impl From<EventType> for EventTypeOut {
    fn from(event_type: EventType) -> EventTypeOut {
        EventTypeOut {
            name: event_type.name,
            description: event_type.description,
            archived: event_type.archived,
            deprecated: event_type.deprecated,
            schemas: event_type.schemas.and_then(|text| RawValue::from_string(text).ok()),
            feature_flags: event_type.feature_flag.clone().map(|flag| [flag]),
            feature_flag: event_type.feature_flag,
            group_name: event_type.group_name,
            created_at: event_type.created_at,
            updated_at: event_type.updated_at,
        }
    }
}
