//! Creation and change of resources: a compare-and-set loop, and the mapping of the store's answers to responses.
//!
//! Handlers define how a record is found and changed. A change is tried again if a concurrent change came first.

use std::fmt::Display;

use axum::Json;
use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, IntegrationId};
use everhook_core::name::Name;
use everhook_core::queue::Queue;
use everhook_core::scope::{AppScope, Scope};
use everhook_store::catalog::{Created, Locator, Replaced};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::resource::{Changed, Create, Deleted, Record, ResourceKey};
use everhook_store::schedule::ScheduleRecord;
use http::StatusCode;

use crate::audit;
use crate::error::ApiError;
use crate::limits::REPLACE_TRIES_MAX;
use crate::routes::{EmptyAnswer, StatusAnswer};
use crate::scope;
use crate::state::Api;

/// A kind of resource, as handlers find and change it.
pub(crate) trait ApiResource: Record + Clone + PartialEq + Sync {
    /// The owner of records: an environment or an application.
    type Scope: Copy + Into<Scope> + Send + Sync;
    /// The part of a path that names a record of the owner.
    type Place: Place;

    /// The noun with its article, for error texts.
    const NOUN: &'static str;
    /// Whether a change without effect is not written. Writing a schedule would reset its state.
    const SKIPS_EQUAL: bool = false;

    fn find(
        api: &Api,
        scope: Self::Scope,
        place: &Self::Place,
    ) -> impl Future<Output = Result<Option<Self>, StoreError>> + Send;

    /// Returns the error for a uid or name that another record has.
    fn taken() -> ApiError {
        ApiError::conflict(format!("{} with this uid already exists.", capitalized(Self::NOUN)))
    }

    /// The error of a creation beyond the maximum number.
    fn full(_: &Api) -> ApiError {
        ApiError::full()
    }
}

/// The name of a record among the records of its owner.
pub(crate) trait Place: Sync {
    /// Returns the error for a place without a record.
    fn missing(&self, noun: &str) -> ApiError;

    /// Whether a record can be created here. Ids are chosen by the server.
    fn can_be_new(&self) -> bool {
        true
    }
}

impl Place for Name {
    fn missing(&self, noun: &str) -> ApiError {
        ApiError::not_found(format_args!("{noun} {:?}", self.as_str()))
    }
}

impl<I: Display + Sync> Place for Locator<I> {
    fn missing(&self, noun: &str) -> ApiError {
        scope::missing(noun, self)
    }

    fn can_be_new(&self) -> bool {
        matches!(self, Locator::Uid(_))
    }
}

impl Place for IntegrationId {
    fn missing(&self, noun: &str) -> ApiError {
        ApiError::not_found(format_args!("{noun} {self}"))
    }
}

/// The only record of an environment.
impl Place for () {
    fn missing(&self, noun: &str) -> ApiError {
        ApiError::not_found(noun)
    }
}

/// The only record of an environment or of one of its applications.
impl Place for Option<ApplicationId> {
    fn missing(&self, noun: &str) -> ApiError {
        ApiError::not_found(noun)
    }
}

/// The result of a creation that was not refused.
pub(crate) enum Creation<R> {
    /// This request, or an earlier request with the same key, created the record.
    Done(R),
    /// This record already has the uid or name.
    Taken(R),
}

impl<R: ApiResource> Creation<R> {
    /// Returns the created record, or fails if the uid or name is taken.
    pub(crate) fn done(self) -> Result<R, ApiError> {
        match self {
            Creation::Done(record) => Ok(record),
            Creation::Taken(_) => Err(R::taken()),
        }
    }

    /// Answers with the created record, or fails if the uid or name is taken.
    pub(crate) fn answer<O: From<R>>(self) -> StatusAnswer<O> {
        Ok((StatusCode::CREATED, Json(O::from(self.done()?))))
    }

    /// Returns the record, created or found.
    pub(crate) fn any(self) -> R {
        match self {
            Creation::Done(record) | Creation::Taken(record) => record,
        }
    }
}

pub(crate) async fn create<C: Create<Record: ApiResource>>(
    api: &Api,
    scope: <C::Record as ApiResource>::Scope,
    new: C,
    key: Option<&DedupKey>,
) -> Result<Creation<C::Record>, ApiError> {
    create_or(api, scope, new, key, || C::Record::full(api)).await
}

/// Creates a record, with an error of the caller's choice for a creation beyond the maximum number.
pub(crate) async fn create_or<C: Create<Record: ApiResource>>(
    api: &Api,
    scope: <C::Record as ApiResource>::Scope,
    new: C,
    key: Option<&DedupKey>,
    full: impl FnOnce() -> ApiError + Send,
) -> Result<Creation<C::Record>, ApiError> {
    match api.node.create(scope.into(), new, key.cloned()).await? {
        Created::New(new) | Created::Repeated(new) => {
            audit::note(scope.into(), None, Some(&new.clone().into()));
            Ok(Creation::Done(new))
        }
        Created::Taken(old) => Ok(Creation::Taken(old)),
        Created::KeyReused => Err(ApiError::key_reused()),
        // The application was deleted during the request.
        Created::NoParent => Err(ApiError::not_found(format_args!("application of the {}", bare(C::Record::NOUN)))),
        Created::Full => Err(full()),
    }
}

pub(crate) async fn get<R: ApiResource>(api: &Api, scope: R::Scope, place: &R::Place) -> Result<R, ApiError> {
    R::find(api, scope, place).await?.ok_or_else(|| place.missing(bare(R::NOUN)))
}

/// Changes a resource. A repeated key changes nothing and returns the record.
pub(crate) async fn change<R: ApiResource>(
    api: &Api,
    scope: R::Scope,
    place: &R::Place,
    key: Option<&DedupKey>,
    change: impl Fn(R) -> Result<R, ApiError>,
) -> Result<R, ApiError> {
    change_if_found(api, scope, place, key, change).await?.ok_or_else(|| place.missing(bare(R::NOUN)))
}

/// Changes a resource, or creates it if its place allows that.
pub(crate) async fn put<C: Create<Record: ApiResource>, O: From<C::Record>>(
    api: &Api,
    scope: <C::Record as ApiResource>::Scope,
    place: &<C::Record as ApiResource>::Place,
    change: impl Fn(C::Record) -> Result<C::Record, ApiError>,
    new: impl FnOnce() -> Result<C, ApiError>,
) -> StatusAnswer<O> {
    match change_if_found(api, scope, place, None, change).await? {
        Some(changed) => Ok((StatusCode::OK, Json(O::from(changed)))),
        None if place.can_be_new() => create(api, scope, new()?, None).await?.answer(),
        None => Err(place.missing(bare(C::Record::NOUN))),
    }
}

/// Changes a resource, and returns none if it does not exist.
pub(crate) async fn change_if_found<R: ApiResource>(
    api: &Api,
    scope: R::Scope,
    place: &R::Place,
    key: Option<&DedupKey>,
    change: impl Fn(R) -> Result<R, ApiError>,
) -> Result<Option<R>, ApiError> {
    for _ in 0..REPLACE_TRIES_MAX {
        let Some(old) = R::find(api, scope, place).await? else { return Ok(None) };
        let new = change(old.clone())?;
        if R::SKIPS_EQUAL && new == old {
            return Ok(Some(old));
        }
        let changed = Changed { record: new, key: key.cloned(), messages: Vec::new() };
        match api.node.replace(scope.into(), changed).await? {
            Replaced::Done(new) => {
                audit::note(scope.into(), Some(&old.into()), Some(&new.clone().into()));
                return Ok(Some(new));
            }
            Replaced::Repeated => return Ok(Some(old)),
            Replaced::Stale => {}
            Replaced::Taken => return Err(R::taken()),
            Replaced::KeyReused => return Err(ApiError::key_reused()),
        }
    }
    let noun = bare(R::NOUN);
    Err(ApiError::conflict(format!("Other requests keep changing the {noun}: try again.")))
}

/// Deletes the resource with this place and key.
pub(crate) async fn delete<R: ApiResource>(
    api: &Api,
    scope: R::Scope,
    place: &R::Place,
    key: ResourceKey,
) -> EmptyAnswer {
    match try_delete::<R>(api, scope, place, key).await?.is_done() {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(place.missing(bare(R::NOUN))),
    }
}

/// Deletes a resource, unless it does not exist or is in use.
pub(crate) async fn try_delete<R: ApiResource>(
    api: &Api,
    scope: R::Scope,
    place: &R::Place,
    key: ResourceKey,
) -> Result<Deleted, ApiError> {
    if let Some(old) = R::find(api, scope, place).await? {
        audit::note(scope.into(), Some(&old.into()), None);
    }
    Ok(api.node.delete(scope.into(), key).await?)
}

/// Removes the article.
fn bare(noun: &'static str) -> &'static str {
    noun.split_once(' ').map_or(noun, |(_, bare)| bare)
}

fn capitalized(noun: &str) -> String {
    noun.replacen('a', "A", 1)
}

impl ApiResource for Application {
    type Scope = Scope;
    type Place = Locator<ApplicationId>;

    const NOUN: &'static str = "an application";

    async fn find(api: &Api, scope: Scope, place: &Self::Place) -> Result<Option<Self>, StoreError> {
        api.read(query::FindApplication { scope, locator: place.clone() }).await
    }
}

impl ApiResource for Endpoint {
    type Scope = AppScope;
    type Place = Locator<EndpointId>;

    const NOUN: &'static str = "an endpoint";

    async fn find(api: &Api, scope: AppScope, place: &Self::Place) -> Result<Option<Self>, StoreError> {
        api.read(query::FindEndpoint { scope, locator: place.clone() }).await
    }

    fn full(api: &Api) -> ApiError {
        let detail = format!("An application has at most {} endpoints: delete one first.", api.config.endpoints_max);
        ApiError::limit_reached(detail)
    }
}

impl ApiResource for EventType {
    type Scope = Scope;
    type Place = Name;

    const NOUN: &'static str = "an event type";

    async fn find(api: &Api, scope: Scope, place: &Name) -> Result<Option<Self>, StoreError> {
        api.read(query::FindEventType { scope, name: place.clone() }).await
    }

    fn taken() -> ApiError {
        let detail = "An event type with this name already exists.";
        ApiError::new(StatusCode::CONFLICT, "event_type_exists", detail)
    }
}

impl ApiResource for Queue {
    type Scope = Scope;
    type Place = Name;

    const NOUN: &'static str = "a queue";

    /// Returns a default queue if none exists, because a queue can be configured before its first job.
    async fn find(api: &Api, scope: Scope, place: &Name) -> Result<Option<Self>, StoreError> {
        let found = api.read(query::FindQueue { scope, name: place.clone() }).await?;
        Ok(found.or_else(|| Some(Queue::new(place.clone()))))
    }
}

impl ApiResource for ScheduleRecord {
    type Scope = Scope;
    type Place = Name;

    const NOUN: &'static str = "a schedule";
    const SKIPS_EQUAL: bool = true;

    async fn find(api: &Api, scope: Scope, place: &Name) -> Result<Option<Self>, StoreError> {
        api.read(query::FindSchedule { scope, name: place.clone() }).await
    }

    fn taken() -> ApiError {
        ApiError::conflict("A schedule with this name already exists.")
    }
}
