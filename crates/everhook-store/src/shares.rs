//! Shares of the connections for searches.
//!
//! No environment's searches use every connection, and all searches together leave some for other calls. Permits are
//! given in the order of the requests. A search without a permit after a while is refused, so that the queue stays
//! short.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use everhook_core::id::EnvironmentId;
use everhook_core::limits::SEARCH_WAIT_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::StoreError;
use crate::store::Op;

/// The permits of searches that may run at once.
pub struct SearchShares {
    all: Arc<Semaphore>,
    each: usize,
    /// One entry for each environment that ever searched. Operators create environments, so there are few.
    environments: Mutex<HashMap<EnvironmentId, Arc<Semaphore>>>,
}

/// Held while a search runs.
pub struct SearchShare {
    _of_environment: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Other searches kept the connections for too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no connection for the search within {} s: too many searches are running", SEARCH_WAIT_MAX.as_secs())]
struct NoTurn;

impl SearchShares {
    /// Gives searches half of the connections, and one environment half of those; at least one each.
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
            // The environment's own permit goes first: a search that waits for its own environment must not hold a
            // shared permit.
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
