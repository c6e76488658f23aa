//! The endpoints of applications, kept by version.
//!
//! An append has to know the endpoints of that moment without reading ten thousand of them every time: it reads the
//! version of the application's lane group inside its transaction and the endpoints only when that has moved. The target
//! of a queue is kept the same way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_core::queue::Target;

/// Endpoints kept at most, over all applications; beyond it the cache begins anew.
const ENDPOINTS_CACHED_MAX: usize = 50_000;
/// Their bytes at most: one application with as many and as large endpoints as it may have fits.
const BYTES_CACHED_MAX: usize = 512 * 1024 * 1024;

/// The endpoints of one application at one version, ordered by id.
#[derive(Debug)]
pub struct EndpointSet {
    /// The version of the lane group they were read at.
    pub version: i64,
    /// All of them but the deleted ones, without their descriptions and metadata, which no delivery needs.
    pub endpoints: Vec<Arc<Endpoint>>,
    bytes: usize,
}

impl EndpointSet {
    /// Makes a set of endpoints in any order.
    pub fn new(version: i64, mut endpoints: Vec<Endpoint>) -> EndpointSet {
        endpoints.sort_by_key(|endpoint| endpoint.id);
        let bytes = endpoints.iter().map(size).sum();
        EndpointSet { version, endpoints: endpoints.into_iter().map(Arc::new).collect(), bytes }
    }

    /// One of them.
    pub fn find(&self, id: EndpointId) -> Option<&Arc<Endpoint>> {
        let at = self.endpoints.binary_search_by_key(&id, |endpoint| endpoint.id).ok()?;
        Some(&self.endpoints[at])
    }
}

/// About how much memory an endpoint takes.
fn size(endpoint: &Endpoint) -> usize {
    let names = |list: &Option<Vec<Name>>| {
        list.iter().flatten().map(|name| size_of::<Name>() + name.as_str().len()).sum::<usize>()
    };
    let headers = endpoint.headers.iter().map(|(name, value)| 2 * size_of::<String>() + name.len() + value.len());
    size_of::<Endpoint>()
        + endpoint.url.len()
        + names(&endpoint.event_types)
        + names(&endpoint.channels)
        + headers.sum::<usize>()
}

/// Endpoint sets by application.
#[derive(Debug, Default)]
pub struct EndpointCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sets: HashMap<(EnvironmentId, ApplicationId), Arc<EndpointSet>>,
    endpoints: usize,
    bytes: usize,
}

impl EndpointCache {
    /// What was last read, whatever its version: a guess, to be checked inside the transaction.
    pub fn peek(&self, environment: EnvironmentId, application: ApplicationId) -> Option<Arc<EndpointSet>> {
        self.lock().sets.get(&(environment, application)).cloned()
    }

    /// What was read at exactly this version.
    pub fn get(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        version: i64,
    ) -> Option<Arc<EndpointSet>> {
        self.peek(environment, application).filter(|set| set.version == version)
    }

    /// Keeps what was read, unless something newer is there.
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

/// Queues whose targets are kept at most; beyond it the cache begins anew.
const TARGETS_CACHED_MAX: usize = 10_000;

/// The targets of queues by lane group, each with the version that it was read at.
#[derive(Debug, Default)]
pub struct TargetCache(Mutex<VersionedTargets>);

/// By lane group: the version, and the target that was read at it.
type VersionedTargets = HashMap<(EnvironmentId, Id), (i64, Arc<Target>)>;

impl TargetCache {
    /// The target that was read at exactly this version.
    pub fn get(&self, environment: EnvironmentId, group: Id, version: i64) -> Option<Arc<Target>> {
        let known = self.lock();
        known.get(&(environment, group)).filter(|(at, _)| *at == version).map(|(_, target)| Arc::clone(target))
    }

    /// Keeps a target.
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
