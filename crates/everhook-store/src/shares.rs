//! Shares of searches: no environment's searches take every connection, and all searches together leave some for the rest.
//!
//! A permit is waited for in the order of the callers, for a while; then the search is refused, so that no queue grows without end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use everhook_core::id::EnvironmentId;
use everhook_core::limits::SEARCH_WAIT_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::StoreError;
use crate::store::Op;

/// How many searches run at once.
pub struct SearchShares {
    all: Arc<Semaphore>,
    each: usize,
    /// One entry for each environment that ever searched: as many as operators created.
    environments: Mutex<HashMap<EnvironmentId, Arc<Semaphore>>>,
}

/// Kept while a search runs.
pub struct SearchShare {
    _of_environment: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Others searched for too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no turn within {} s: too many searches", SEARCH_WAIT_MAX.as_secs())]
struct NoTurn;

impl SearchShares {
    /// At most half of the connections for searches, and half of those for one environment; one of each at least.
    pub fn of(connections: usize) -> SearchShares {
        let all = (connections / 2).max(1);
        SearchShares { all: Arc::new(Semaphore::new(all)), each: all.div_ceil(2), environments: Mutex::default() }
    }

    /// Waits for the turn of a search.
    pub async fn wait(&self, environment: EnvironmentId, op: Op) -> Result<SearchShare, StoreError> {
        let own = {
            let mut environments = self.environments.lock().expect("nothing panics while it holds this lock");
            Arc::clone(environments.entry(environment).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
        };
        let turn = async {
            // Its own first: an environment that waits for itself holds up no other.
            let of_environment = own.acquire_owned().await;
            (of_environment, Arc::clone(&self.all).acquire_owned().await)
        };
        match tokio::time::timeout(SEARCH_WAIT_MAX, turn).await {
            Ok((Ok(of_environment), Ok(of_all))) => {
                Ok(SearchShare { _of_environment: of_environment, _of_all: of_all })
            }
            Ok(_) | Err(_) => Err(StoreError::Slow { op, source: Box::new(NoTurn) }),
        }
    }
}
