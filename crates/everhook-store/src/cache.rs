//! A cache of the endpoints of applications and the targets of queues, by version.
//!
//! An append needs the current endpoints but must not read ten thousand of them each time. It reads the version of the
//! application's lane group inside its transaction, and reads the endpoints only if the version has changed. Targets of
//! queues are cached in the same way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use everhook_core::endpoint::Endpoint;
use everhook_core::filter::TypePattern;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_core::policy::Settings;
use everhook_core::queue::Target;
use everhook_core::scope::AppScope;

/// The limit of cached endpoints over all applications. A full cache is emptied.
const ENDPOINTS_CACHED_MAX: usize = 50_000;
/// The limit of cached bytes. One application with the most and largest endpoints that are allowed fits.
const BYTES_CACHED_MAX: usize = 512 * 1024 * 1024;

/// The endpoints of one application at one version, ordered by id.
#[derive(Debug)]
pub struct EndpointSet {
    /// The version of the lane group when the endpoints were read.
    pub version: i64,
    /// Every endpoint that is not deleted. Descriptions and metadata are left out: no delivery needs them.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Whether any of them is polled.
    pub has_polled: bool,
    /// Whether an append takes permits for any of them.
    pub has_rate: bool,
    bytes: usize,
}

impl EndpointSet {
    /// Builds a set from endpoints in any order, which inherit the settings of their application.
    pub fn new(version: i64, inherited: Option<Arc<Settings>>, mut endpoints: Vec<Endpoint>) -> EndpointSet {
        endpoints.sort_by_key(|endpoint| endpoint.id);
        let endpoints: Vec<Endpoint> =
            endpoints.into_iter().map(|endpoint| endpoint.inheriting(inherited.clone())).collect();
        let bytes = endpoints.iter().map(size).sum();
        let has_polled = endpoints.iter().any(Endpoint::is_polled);
        let has_rate = endpoints.iter().any(takes_permits);
        EndpointSet { version, endpoints: endpoints.into_iter().map(Arc::new).collect(), has_polled, has_rate, bytes }
    }

    pub fn find(&self, id: EndpointId) -> Option<&Arc<Endpoint>> {
        let at = self.endpoints.binary_search_by_key(&id, |endpoint| endpoint.id).ok()?;
        Some(&self.endpoints[at])
    }
}

/// Whether an append takes permits for deliveries to the endpoint.
pub fn takes_permits(endpoint: &Endpoint) -> bool {
    let limits = endpoint.limits();
    limits.rate.is_some() && !limits.needs_lease()
}

/// Returns the approximate memory of an endpoint.
fn size(endpoint: &Endpoint) -> usize {
    let types = endpoint.event_types.iter().flatten().map(|pattern| size_of::<TypePattern>() + pattern.as_str().len());
    let channels = endpoint.channels.iter().flatten().map(|name| size_of::<Name>() + name.as_str().len());
    // A compiled expression is a tree, larger than its text.
    let filter = endpoint.filter.as_ref().map_or(0, |filter| 32 * filter.as_str().len());
    let headers = endpoint.headers.iter().map(|(name, value)| 2 * size_of::<String>() + name.len() + value.len());
    size_of::<Endpoint>()
        + endpoint.url.len()
        + types.sum::<usize>()
        + channels.sum::<usize>()
        + filter
        + headers.sum::<usize>()
        + endpoint.auth.as_ref().map_or(0, |auth| auth.bytes())
        + endpoint.policy.as_ref().map_or(0, |_| size_of::<Settings>())
        + endpoint.chat.as_ref().map_or(0, |chat| chat.size())
}

#[derive(Debug, Default)]
pub struct EndpointCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sets: HashMap<(EnvironmentId, ApplicationId), Arc<EndpointSet>>,
    endpoints: usize,
    bytes: usize,
}

impl EndpointCache {
    /// Returns the set that was read last, at any version. The caller must check the version inside its transaction.
    pub fn peek(&self, environment: EnvironmentId, application: ApplicationId) -> Option<Arc<EndpointSet>> {
        self.lock().sets.get(&(environment, application)).cloned()
    }

    /// Returns the number of endpoints that was read last.
    pub fn count(&self, scope: AppScope) -> Option<usize> {
        self.lock().sets.get(&(scope.environment, scope.application)).map(|set| set.endpoints.len())
    }

    /// Returns the set that was read at exactly this version.
    pub fn get(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        version: i64,
    ) -> Option<Arc<EndpointSet>> {
        self.peek(environment, application).filter(|set| set.version == version)
    }

    /// Keeps a set, unless the cache has a newer one.
    pub fn put(&self, environment: EnvironmentId, application: ApplicationId, set: Arc<EndpointSet>) {
        let mut state = self.lock();
        let is_full = state.endpoints + set.endpoints.len() + state.sets.len() > ENDPOINTS_CACHED_MAX;
        if is_full || state.bytes + set.bytes > BYTES_CACHED_MAX {
            *state = State::default();
        }
        let known = state.sets.get(&(environment, application));
        if known.is_some_and(|known| known.version > set.version) {
            return;
        }
        let (endpoints, bytes) = known.map_or((0, 0), |known| (known.endpoints.len(), known.bytes));
        state.endpoints = state.endpoints + set.endpoints.len() - endpoints;
        state.bytes = state.bytes + set.bytes - bytes;
        state.sets.insert((environment, application), set);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

/// The limit of queues with a cached target. A full cache is emptied.
const TARGETS_CACHED_MAX: usize = 10_000;

/// The targets of queues by lane group, each with the version at which it was read.
#[derive(Debug, Default)]
pub struct TargetCache(Mutex<VersionedTargets>);

/// By lane group: the version, and the target that was read at it.
type VersionedTargets = HashMap<(EnvironmentId, Id), (i64, Arc<Target>)>;

impl TargetCache {
    /// Returns the target that was read at exactly this version.
    pub fn get(&self, environment: EnvironmentId, group: Id, version: i64) -> Option<Arc<Target>> {
        let known = self.lock();
        known.get(&(environment, group)).filter(|(at, _)| *at == version).map(|(_, target)| Arc::clone(target))
    }

    pub fn put(&self, environment: EnvironmentId, group: Id, version: i64, target: Arc<Target>) {
        let mut known = self.lock();
        if known.len() >= TARGETS_CACHED_MAX {
            known.clear();
        }
        known.insert((environment, group), (version, target));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VersionedTargets> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
