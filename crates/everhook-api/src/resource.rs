//! Creation and change of resources: a compare-and-set loop, and the mapping of the store's answers to responses.
//!
//! Handlers define how a record is found and changed. A change is tried again if a concurrent change came first.

use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
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
use crate::state::Api;

/// A kind of resource, as handlers find and change it.
pub(crate) trait ApiResource: Record + Clone + PartialEq + Sync {
    /// The location of a record: the part of a path that names it.
    type Place: Sync;

    /// The noun with its article, for error texts.
    const NOUN: &'static str;
    /// Whether a change without effect is not written. Writing a schedule would reset its state.
    const SKIPS_EQUAL: bool = false;

    fn find(
        api: &Api,
        environment: EnvironmentId,
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

    /// Returns the record, created or found.
    pub(crate) fn any(self) -> R {
        match self {
            Creation::Done(record) | Creation::Taken(record) => record,
        }
    }
}

pub(crate) async fn create<C: Create<Record: ApiResource>>(
    api: &Api,
    environment: EnvironmentId,
    new: C,
    key: Option<&DedupKey>,
) -> Result<Creation<C::Record>, ApiError> {
    create_or(api, environment, new, key, || C::Record::full(api)).await
}

/// Creates a record, with an error of the caller's choice for a creation beyond the maximum number.
pub(crate) async fn create_or<C: Create<Record: ApiResource>>(
    api: &Api,
    environment: EnvironmentId,
    new: C,
    key: Option<&DedupKey>,
    full: impl FnOnce() -> ApiError + Send,
) -> Result<Creation<C::Record>, ApiError> {
    match api.node.create(Scope::of(environment), new, key.cloned()).await? {
        Created::New(new) | Created::Repeated(new) => {
            audit::note(environment, None, Some(&new.clone().into()));
            Ok(Creation::Done(new))
        }
        Created::Taken(old) => Ok(Creation::Taken(old)),
        Created::KeyReused => Err(ApiError::key_reused()),
        // The application was deleted during the request.
        Created::NoParent => Err(ApiError::not_found(format_args!("application of the {}", bare(C::Record::NOUN)))),
        Created::Full => Err(full()),
    }
}

/// Changes a resource, and returns none if it does not exist. A repeated key changes nothing and returns the record.
pub(crate) async fn change<R: ApiResource>(
    api: &Api,
    environment: EnvironmentId,
    place: &R::Place,
    key: Option<&DedupKey>,
    change: impl Fn(R) -> Result<R, ApiError>,
) -> Result<Option<R>, ApiError> {
    for _ in 0..REPLACE_TRIES_MAX {
        let Some(old) = R::find(api, environment, place).await? else { return Ok(None) };
        let new = change(old.clone())?;
        if R::SKIPS_EQUAL && new == old {
            return Ok(Some(old));
        }
        match api
            .node
            .replace(Scope::of(environment), Changed { record: new, key: key.cloned(), messages: Vec::new() })
            .await?
        {
            Replaced::Done(new) => {
                audit::note(environment, Some(&old.into()), Some(&new.clone().into()));
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
    environment: EnvironmentId,
    place: &R::Place,
    key: ResourceKey,
) -> Result<Deleted, ApiError> {
    if let Some(old) = R::find(api, environment, place).await? {
        audit::note(environment, Some(&old.into()), None);
    }
    Ok(api.node.delete(Scope::of(environment), key).await?)
}

/// Removes the article.
fn bare(noun: &'static str) -> &'static str {
    noun.split_once(' ').map_or(noun, |(_, bare)| bare)
}

fn capitalized(noun: &str) -> String {
    noun.replacen('a', "A", 1)
}

impl ApiResource for Application {
    type Place = Locator<ApplicationId>;

    const NOUN: &'static str = "an application";

    async fn find(api: &Api, environment: EnvironmentId, place: &Self::Place) -> Result<Option<Self>, StoreError> {
        api.read(query::FindApplication { scope: Scope::of(environment), locator: place.clone() }).await
    }
}

impl ApiResource for Endpoint {
    type Place = (ApplicationId, Locator<EndpointId>);

    const NOUN: &'static str = "an endpoint";

    async fn find(api: &Api, environment: EnvironmentId, place: &Self::Place) -> Result<Option<Self>, StoreError> {
        let scope = AppScope::of(environment, place.0);
        api.read(query::FindEndpoint { scope, locator: place.1.clone() }).await
    }

    fn full(api: &Api) -> ApiError {
        let detail = format!("An application has at most {} endpoints: delete one first.", api.endpoints_max);
        ApiError::limit_reached(detail)
    }
}

impl ApiResource for EventType {
    type Place = Name;

    const NOUN: &'static str = "an event type";

    async fn find(api: &Api, environment: EnvironmentId, place: &Name) -> Result<Option<Self>, StoreError> {
        api.read(query::FindEventType { scope: Scope::of(environment), name: place.clone() }).await
    }

    fn taken() -> ApiError {
        let detail = "An event type with this name already exists.";
        ApiError::new(StatusCode::CONFLICT, "event_type_exists", detail)
    }
}

impl ApiResource for Queue {
    type Place = Name;

    const NOUN: &'static str = "a queue";

    /// Returns a default queue if none exists, because a queue can be configured before its first job.
    async fn find(api: &Api, environment: EnvironmentId, place: &Name) -> Result<Option<Self>, StoreError> {
        let found = api.read(query::FindQueue { scope: Scope::of(environment), name: place.clone() }).await?;
        Ok(found.or_else(|| Some(Queue::new(place.clone()))))
    }
}

impl ApiResource for ScheduleRecord {
    type Place = Name;

    const NOUN: &'static str = "a schedule";
    const SKIPS_EQUAL: bool = true;

    async fn find(api: &Api, environment: EnvironmentId, place: &Name) -> Result<Option<Self>, StoreError> {
        api.read(query::FindSchedule { scope: Scope::of(environment), name: place.clone() }).await
    }

    fn taken() -> ApiError {
        ApiError::conflict("A schedule with this name already exists.")
    }
}
