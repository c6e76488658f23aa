//! A cache from uid to application, so that a message needs no lookup of its own.
//!
//! A uid may move to another application at any time, so a cached entry is only a guess. It goes to the store with the
//! version at which it was read. The transaction that appends the message refuses it if the application has changed
//! since.

use std::collections::HashMap;
use std::sync::Mutex;

use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::limits::UIDS_CACHED_MAX;
use everhook_core::name::Name;

/// An application, and the version of its lane group at which it had the uid; none if the request named its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: ApplicationId,
    pub version: Option<i64>,
}

#[derive(Debug, Default)]
pub struct Uids(Mutex<HashMap<(EnvironmentId, Name), Found>>);

impl Uids {
    /// Returns the application that had this uid at the last lookup.
    pub fn guess(&self, environment: EnvironmentId, uid: &Name) -> Option<Found> {
        // The key is a pair of owned values; a lookup by borrowed values would need nested maps.
        self.lock().get(&(environment, uid.clone())).copied()
    }

    /// Stores the result of a lookup.
    pub fn remember(&self, environment: EnvironmentId, uid: &Name, found: Found) -> Found {
        let mut known = self.lock();
        if known.len() >= UIDS_CACHED_MAX {
            known.clear();
        }
        known.insert((environment, uid.clone()), found);
        found
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(EnvironmentId, Name), Found>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
