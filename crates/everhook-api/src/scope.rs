//! Extractors that find the objects of a path within the rights of the caller.
//!
//! Handlers take them as arguments, so that no handler can forget to check the caller. Objects of other environments
//! and of other applications are not found. A caller cannot distinguish "forbidden" from "absent", except on routes
//! that refuse application tokens. Extractors carry the state of the API, so that handlers need not ask for it.

use std::fmt::Display;
use std::ops::Deref;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EndpointId, MessageId};
use everhook_core::message::Message;
use everhook_core::scope::{AppScope, Scope};
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::query;
use everhook_store::resource::ResourceKey;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::auth::{Caller, Rights};
use crate::error::ApiError;
use crate::resource;
use crate::routes::EmptyAnswer;
use crate::state::Api;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ApplicationPath {
    /// The application's id or uid.
    pub(crate) app_id: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct EndpointPath {
    /// The endpoint's id or uid.
    pub(crate) endpoint_id: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct MessagePath {
    /// The message's id, or its event id.
    pub(crate) msg_id: String,
}

/// Extractor for routes of one object of an environment. The handler finds the object by the parameters of the path.
pub(crate) struct AtPath<P> {
    pub(crate) api: Arc<Api>,
    pub(crate) scope: Scope,
    pub(crate) path: P,
}

pub(crate) struct PathParams<T>(pub(crate) T);

impl<T> Deref for PathParams<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Extractor for routes that decide by the rights of the caller.
pub(crate) struct ByCaller {
    pub(crate) api: Arc<Api>,
    pub(crate) caller: Caller,
}

/// Extractor for routes that span environments. It requires an admin key.
pub(crate) struct AsAdmin {
    pub(crate) api: Arc<Api>,
}

/// Extractor for routes of an environment. It refuses application tokens.
pub(crate) struct InEnvironment {
    pub(crate) api: Arc<Api>,
    pub(crate) scope: Scope,
}

/// Extractor for routes of jobs, queues, batches and workers. It refuses application tokens, and all requests if jobs
/// are disabled.
pub(crate) struct InJobs {
    pub(crate) api: Arc<Api>,
    pub(crate) scope: Scope,
}

/// Extractor for routes of schedules. It refuses application tokens, and all requests if schedules are disabled.
pub(crate) struct InSchedules {
    pub(crate) api: Arc<Api>,
    pub(crate) scope: Scope,
    pub(crate) rights: Rights,
}

/// The future of an extractor. The extractors that nearly all handlers use are boxed by plain functions: each is then
/// compiled once, and not again inside every handler.
pub(crate) type Extracting<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + Send + 'a>>;

/// Extractor for routes of one application. It accepts callers of the environment and tokens of the application.
pub(crate) struct InApplication {
    pub(crate) api: Arc<Api>,
    pub(crate) scope: AppScope,
    pub(crate) application: Application,
}

/// Extractor for routes of one endpoint of an application.
pub(crate) struct AtEndpoint {
    pub(crate) api: Arc<Api>,
    pub(crate) scope: AppScope,
    pub(crate) endpoint: Endpoint,
}

/// Extractor for routes of one message of an application.
pub(crate) struct OfMessage {
    pub(crate) api: Arc<Api>,
    pub(crate) scope: AppScope,
    pub(crate) message: Message,
}

/// Parses a path parameter: an id if it begins with the prefix of ids, or else a uid. Other texts are not found.
pub(crate) fn locator<I: FromStr>(what: &str, text: &str, prefix: &str) -> Result<Locator<I>, ApiError> {
    let not_found = || ApiError::not_found(named(what, text));
    if text.starts_with(prefix) {
        return text.parse().map(Locator::Id).map_err(|_| not_found());
    }
    text.parse().map(Locator::Uid).map_err(|_| not_found())
}

pub(crate) fn application(text: &str) -> Result<Locator<ApplicationId>, ApiError> {
    locator("application", text, ApplicationId::PREFIX)
}

/// Gives a record the uid of its path. Without it, a repeated request would create a second record.
pub(crate) fn fill_uid<I>(uid: &mut Option<Option<String>>, locator: &Locator<I>) {
    if let (Locator::Uid(text), None) = (locator, &uid) {
        *uid = Some(Some(text.as_str().to_owned()));
    }
}

/// Formats a noun with the name from the request. Ids are written as they are, and other texts are quoted.
pub(crate) fn named(what: &str, text: &str) -> String {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain && text.contains('_') { format!("{what} {text}") } else { format!("{what} {text:?}") }
}

pub(crate) fn no_application(text: &str) -> ApiError {
    ApiError::not_found(named("application", text))
}

pub(crate) fn no_endpoint(text: &str) -> ApiError {
    ApiError::not_found(named("endpoint", text))
}

/// Returns the error for a locator that finds no object.
pub(crate) fn missing<I: Display>(what: &str, locator: &Locator<I>) -> ApiError {
    match locator {
        Locator::Id(id) => ApiError::not_found(format_args!("{what} {id}")),
        Locator::Uid(uid) => ApiError::not_found(named(what, uid.as_str())),
    }
}

pub(crate) async fn find_endpoint(api: &Api, scope: AppScope, slot: &str) -> Result<Option<Endpoint>, ApiError> {
    let locator = locator("endpoint", slot, EndpointId::PREFIX)?;
    Ok(api.read(query::FindEndpoint { scope, locator }).await?)
}

/// Finds the endpoint that a request must name.
pub(crate) async fn endpoint(api: &Api, scope: AppScope, slot: &str) -> Result<Endpoint, ApiError> {
    find_endpoint(api, scope, slot).await?.ok_or_else(|| no_endpoint(slot))
}

/// Finds the endpoint that a request may name. A name without an endpoint is an error.
pub(crate) async fn some_endpoint(
    api: &Api,
    scope: AppScope,
    slot: Option<&str>,
) -> Result<Option<Endpoint>, ApiError> {
    match slot {
        Some(slot) => endpoint(api, scope, slot).await.map(Some),
        None => Ok(None),
    }
}

/// Finds the message that a request names by its id or event id.
pub(crate) async fn message(api: &Api, scope: AppScope, slot: &str) -> Result<Message, ApiError> {
    let locator = locator("message", slot, MessageId::PREFIX)?;
    let found = api.read(query::FindMessage { scope, locator }).await?;
    found.ok_or_else(|| ApiError::not_found(named("message", slot)))
}

impl AtEndpoint {
    pub(crate) fn locator(&self) -> Locator<EndpointId> {
        Locator::Id(self.endpoint.id)
    }

    /// Changes the endpoint.
    pub(crate) async fn change(
        &self,
        key: Option<&DedupKey>,
        change: impl Fn(Endpoint) -> Result<Endpoint, ApiError>,
    ) -> Result<Endpoint, ApiError> {
        resource::change(&self.api, self.scope, &self.locator(), key, change).await
    }

    pub(crate) async fn delete(&self) -> EmptyAnswer {
        let key = ResourceKey::Endpoint(self.scope.application, self.endpoint.id);
        resource::delete::<Endpoint>(&self.api, self.scope, &self.locator(), key).await
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<Api>> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<PathParams<T>, ApiError> {
        let path = Path::<T>::from_request_parts(parts, api).await;
        // A path that is not UTF-8 is not found.
        path.map(|Path(params)| PathParams(params)).map_err(|_| ApiError::not_found("object of the path"))
    }
}

impl<P: DeserializeOwned + Send> FromRequestParts<Arc<Api>> for AtPath<P> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<AtPath<P>, ApiError> {
        let InEnvironment { api, scope } = InEnvironment::from_request_parts(parts, api).await?;
        let PathParams(path) = PathParams::from_request_parts(parts, &api).await?;
        Ok(AtPath { api, scope, path })
    }
}

/// Makes extractors from functions.
macro_rules! extractors {
    ($($extractor:ident by $function:ident),* $(,)?) => {$(
        impl FromRequestParts<Arc<Api>> for $extractor {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<$extractor, ApiError> {
                $function(parts, api).await
            }
        }
    )*};
}

extractors! {
    ByCaller by by_caller,
    AsAdmin by as_admin,
    InEnvironment by in_environment,
    InJobs by in_jobs,
    InSchedules by in_schedules,
    InApplication by in_application,
    AtEndpoint by at_endpoint,
    OfMessage by of_message,
}

async fn by_caller(parts: &mut Parts, api: &Arc<Api>) -> Result<ByCaller, ApiError> {
    let caller = Caller::from_request_parts(parts, api).await?;
    Ok(ByCaller { api: Arc::clone(api), caller })
}

async fn as_admin(parts: &mut Parts, api: &Arc<Api>) -> Result<AsAdmin, ApiError> {
    match Caller::from_request_parts(parts, api).await?.rights {
        Rights::Admin => Ok(AsAdmin { api: Arc::clone(api) }),
        Rights::Environment(_) | Rights::Application { .. } => Err(ApiError::not_admin()),
    }
}

async fn in_environment(parts: &mut Parts, api: &Arc<Api>) -> Result<InEnvironment, ApiError> {
    let caller = Caller::from_request_parts(parts, api).await?;
    match caller.rights {
        Rights::Admin | Rights::Environment(_) => Ok(InEnvironment { api: Arc::clone(api), scope: caller.scope() }),
        Rights::Application { .. } => Err(ApiError::forbidden()),
    }
}

async fn in_jobs(parts: &mut Parts, api: &Arc<Api>) -> Result<InJobs, ApiError> {
    let InEnvironment { api, scope } = InEnvironment::from_request_parts(parts, api).await?;
    need_jobs(&api).map(|()| InJobs { api, scope })
}

async fn in_schedules(parts: &mut Parts, api: &Arc<Api>) -> Result<InSchedules, ApiError> {
    let InEnvironment { scope, .. } = InEnvironment::from_request_parts(parts, api).await?;
    if !api.config.schedules {
        let detail = "Schedules are disabled on this server: set `schedules = true` (EVERHOOK_SCHEDULES).";
        return Err(ApiError::switched_off("schedules_disabled", detail));
    }
    let rights = Caller::from_request_parts(parts, api).await?.rights;
    Ok(InSchedules { api: Arc::clone(api), scope, rights })
}

/// Fails if jobs are disabled on this server.
pub(crate) fn need_jobs(api: &Api) -> Result<(), ApiError> {
    if api.config.jobs {
        return Ok(());
    }
    let detail = "Jobs are disabled on this server: set `jobs = true` (EVERHOOK_JOBS).";
    Err(ApiError::switched_off("jobs_disabled", detail))
}

fn in_application<'a>(parts: &'a mut Parts, api: &'a Arc<Api>) -> Extracting<'a, InApplication> {
    Box::pin(async move {
        let caller = Caller::from_request_parts(parts, api).await?;
        let PathParams(ApplicationPath { app_id }) = PathParams::from_request_parts(parts, api).await?;
        let scope = caller.scope();
        let found = api.read(query::FindApplication { scope, locator: self::application(&app_id)? }).await?;
        let application = found.ok_or_else(|| no_application(&app_id))?;
        match caller.rights {
            Rights::Application { id, .. } if id != application.id => Err(no_application(&app_id)),
            Rights::Application { .. } | Rights::Environment(_) | Rights::Admin => {
                Ok(InApplication { api: Arc::clone(api), scope: scope.application(application.id), application })
            }
        }
    })
}

fn at_endpoint<'a>(parts: &'a mut Parts, api: &'a Arc<Api>) -> Extracting<'a, AtEndpoint> {
    Box::pin(async move {
        let InApplication { api, scope, .. } = InApplication::from_request_parts(parts, api).await?;
        let PathParams(EndpointPath { endpoint_id }) = PathParams::from_request_parts(parts, &api).await?;
        let endpoint = endpoint(&api, scope, &endpoint_id).await?;
        Ok(AtEndpoint { api, scope, endpoint })
    })
}

fn of_message<'a>(parts: &'a mut Parts, api: &'a Arc<Api>) -> Extracting<'a, OfMessage> {
    Box::pin(async move {
        let InApplication { api, scope, .. } = InApplication::from_request_parts(parts, api).await?;
        let PathParams(MessagePath { msg_id }) = PathParams::from_request_parts(parts, &api).await?;
        let message = message(&api, scope, &msg_id).await?;
        Ok(OfMessage { api, scope, message })
    })
}
