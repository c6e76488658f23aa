//! Event types from outside: from an OpenAPI document, and from another environment.
//!
//! Everything is checked before the first change. Each event type is then written by itself: an import that is
//! interrupted is repeated as a whole, and skips the event types that already have the wanted content.

use std::collections::BTreeMap;

use axum::Json;
use everhook_core::event_type::EventType;
use everhook_core::limits::PAGE_MAX;
use everhook_core::name::Name;
use everhook_core::openapi::{self, Described};
use everhook_core::scope::Scope;
use everhook_core::violation::{Violation, at};
use everhook_store::catalog::{ArchivedTypes, Order, Slice};
use everhook_store::query;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::event_type::EventTypeUpdate;
use crate::input::Input;
use crate::limits::EVENT_TYPES_MOVED_MAX;
use crate::merge::Form;
use crate::resource::{self, Creation};
use crate::routes::{Answer, Routes};
use crate::scope::InEnvironment;
use crate::state::Api;

/// An OpenAPI document whose webhooks become event types.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTypeImportOpenApiIn {
    /// The document as JSON. Either `spec` or `specRaw` is required.
    #[schema(value_type = Option<Object>)]
    spec: Option<Value>,
    /// The document as YAML or JSON text.
    spec_raw: Option<String>,
    /// Whether to only show the changes instead of making them.
    #[serde(default)]
    dry_run: bool,
    /// Whether to archive the event types that the document lacks.
    #[serde(default)]
    replace_all: bool,
}

/// The result of an import.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventTypeImportOpenApiOut {
    data: EventTypeImportOpenApiOutData,
}

/// The changes of an import.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventTypeImportOpenApiOutData {
    /// The names of the event types that were created, changed or archived; empty after a dry run.
    modified: Vec<String>,
    /// The event types that would be created or changed; only after a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    to_modify: Option<Vec<EventTypeFromOpenApi>>,
}

/// An event type that a document describes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTypeFromOpenApi {
    name: String,
    description: String,
    deprecated: bool,
    /// JSON Schemas by version.
    #[schema(value_type = Option<Object>)]
    schemas: Option<BTreeMap<String, Value>>,
    /// The group under which lists show the event type.
    group_name: Option<String>,
    /// Application tokens without this flag do not see the event type.
    feature_flag: Option<String>,
    /// The same flag as a list.
    feature_flags: Option<Vec<String>>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(import_openapi, __path_import_openapi)
}

/// Create and update event types from the webhooks of an OpenAPI document.
///
/// Archived event types of the document are revived. Groups and feature flags stay if the document has none.
#[utoipa::path(
    post, path = "/api/v1/event-type/import/openapi", operation_id = "v1.event-type.import-openapi",
    tag = "Event Type", request_body = EventTypeImportOpenApiIn,
    responses((status = 200, body = EventTypeImportOpenApiOut))
)]
async fn import_openapi(
    InEnvironment { api, scope }: InEnvironment,
    input: Input,
) -> Answer<EventTypeImportOpenApiOut> {
    let wanted: EventTypeImportOpenApiIn = input.json()?;
    let (dry_run, replace_all) = (wanted.dry_run, wanted.replace_all);
    let (field, document) = wanted.document()?;
    let described = openapi::event_types(&document).map_err(|violation| violation.under(at(field)))?;
    let mut imports = Vec::with_capacity(described.len());
    for one in described {
        let place = || at(field).member("webhooks").member(one.name.clone());
        imports.push(Import::new(&api, one.clone()).map_err(|violation| violation.under(place()))?);
    }
    check_count(field, imports.len())?;
    if dry_run {
        let to_modify = rehearse(&api, scope, imports).await?;
        let data = EventTypeImportOpenApiOutData { modified: Vec::new(), to_modify: Some(to_modify) };
        return Ok(Json(EventTypeImportOpenApiOut { data }));
    }
    let mut modified = Vec::new();
    for import in &imports {
        if write(&api, scope, &import.name, |old| import.apply(&api, old)).await? {
            modified.push(import.name.to_string());
        }
    }
    if replace_all {
        for old in read_all(&api, scope, ArchivedTypes::Excluded).await? {
            if !imports.iter().any(|import| import.name == old.name) {
                let archive = |old: EventType| Ok(EventType { archived: true, ..old });
                resource::change_if_found(&api, scope, &old.name, None, archive).await?;
                modified.push(old.name.to_string());
            }
        }
    }
    Ok(Json(EventTypeImportOpenApiOut { data: EventTypeImportOpenApiOutData { modified, to_modify: None } }))
}

/// Returns the event types that an import would create or change.
async fn rehearse(api: &Api, scope: Scope, imports: Vec<Import>) -> Result<Vec<EventTypeFromOpenApi>, ApiError> {
    let mut changed = Vec::new();
    for import in imports {
        let find = query::FindEventType { scope, name: import.name.clone() };
        let old = api.read(find).await?;
        let new = import.apply(api, old.clone())?;
        if !old.is_some_and(|old| is_same(&old, &new)) {
            changed.push(import.described.into());
        }
    }
    Ok(changed)
}

/// Creates or replaces an event type with the result of `wanted`; returns whether it was changed.
pub(crate) async fn write(
    api: &Api,
    scope: Scope,
    name: &Name,
    wanted: impl Fn(Option<EventType>) -> Result<EventType, Violation>,
) -> Result<bool, ApiError> {
    let find = query::FindEventType { scope, name: name.clone() };
    match api.read(find).await? {
        Some(old) if is_same(&old, &wanted(Some(old.clone()))?) => return Ok(false),
        Some(_) => {}
        None => match resource::create(api, scope, wanted(None)?, None).await? {
            Creation::Done(_) => return Ok(true),
            Creation::Taken(_) => {}
        },
    }
    let changed = resource::change_if_found(api, scope, name, None, |old| Ok(wanted(Some(old))?)).await?;
    changed.map(|_| true).ok_or_else(|| ApiError::conflict("An event type was deleted during the import: try again."))
}

/// Reads every event type of an environment.
pub(crate) async fn read_all(api: &Api, scope: Scope, archived: ArchivedTypes) -> Result<Vec<EventType>, ApiError> {
    let mut all = Vec::new();
    let mut slice = Slice { after: None, order: Order::Ascending, limit: PAGE_MAX };
    loop {
        let piece = api.read(query::EventTypes { scope, archived, slice: slice.clone() }).await?;
        slice.after = piece.continues_after(slice.limit, |row| row.name.clone());
        all.extend(piece.rows);
        if all.len() > EVENT_TYPES_MOVED_MAX {
            let detail =
                format!("The environment has more than {EVENT_TYPES_MOVED_MAX} event types: list them instead.");
            return Err(ApiError::limit_reached(detail));
        }
        if slice.after.is_none() {
            return Ok(all);
        }
    }
}

/// Refuses more event types than one request may write.
pub(crate) fn check_count(field: &'static str, count: usize) -> Result<(), Violation> {
    if count > EVENT_TYPES_MOVED_MAX {
        return Err(at(field).breaks(format!("must have at most {EVENT_TYPES_MOVED_MAX} event types")));
    }
    Ok(())
}

/// Whether two event types have the same content.
fn is_same(old: &EventType, new: &EventType) -> bool {
    *old == EventType { created_at: old.created_at, updated_at: old.updated_at, revision: old.revision, ..new.clone() }
}

/// An event type of a document whose content is valid.
struct Import {
    name: Name,
    described: Described,
}

impl Import {
    fn new(api: &Api, described: Described) -> Result<Import, Violation> {
        let name = at("name").check(Name::try_from(described.name.clone()))?;
        let import = Import { name, described };
        import.apply(api, None)?;
        Ok(import)
    }

    /// Returns the event type after the import.
    fn apply(&self, api: &Api, old: Option<EventType>) -> Result<EventType, Violation> {
        let known = old.as_ref().map(EventTypeUpdate::of);
        let Described { description, deprecated, schema, group_name, feature_flags, .. } = self.described.clone();
        let schemas = schema.map(|schema| BTreeMap::from([("1".to_owned(), schema)]));
        let wanted = EventTypeUpdate {
            description,
            archived: Some(false),
            deprecated: Some(deprecated),
            schemas: schemas.or_else(|| known.as_ref().and_then(|known| known.schemas.clone())),
            feature_flag: match &feature_flags {
                Some(_) => None,
                None => known.as_ref().and_then(|known| known.feature_flag.clone()),
            },
            feature_flags,
            group_name: group_name.or_else(|| known.and_then(|known| known.group_name)),
        };
        wanted.check(api, &self.name, old)
    }
}

impl EventTypeImportOpenApiIn {
    /// Returns the document and the name of its field.
    fn document(self) -> Result<(&'static str, Value), ApiError> {
        match (self.spec, self.spec_raw) {
            (Some(spec), None) => Ok(("spec", spec)),
            (None, Some(text)) => Ok(("specRaw", parse(&text)?)),
            (None, None) | (Some(_), Some(_)) => {
                Err(ApiError::bad_request("invalid_spec", "Either `spec` or `specRaw` is required, but not both."))
            }
        }
    }
}

/// Parses YAML, of which JSON is a part. Aliases are refused: with them, a small text could become a huge document.
fn parse(text: &str) -> Result<Value, Violation> {
    let budget = serde_saphyr::budget! { max_aliases: 0 };
    let options = serde_saphyr::options! { budget: budget, with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options(text, options);
    parsed.map_err(|error| at("specRaw").breaks(format!("is neither YAML nor JSON: {error}")))
}

impl From<Described> for EventTypeFromOpenApi {
    fn from(described: Described) -> EventTypeFromOpenApi {
        EventTypeFromOpenApi {
            name: described.name,
            description: described.description,
            deprecated: described.deprecated,
            schemas: described.schema.map(|schema| BTreeMap::from([("1".to_owned(), schema)])),
            group_name: described.group_name,
            feature_flag: described.feature_flags.as_ref().and_then(|flags| flags.first().cloned()),
            feature_flags: described.feature_flags,
        }
    }
}
