//! Which application a uid means, remembered so that a message costs no look-up of its own.
//!
//! A uid may move to another application at any time. So what is remembered is only a guess: it goes to the store with the
//! version it was read at, and the transaction that appends the message refuses it if the application has changed since.

use std::collections::HashMap;
use std::sync::Mutex;

use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::limits::UIDS_CACHED_MAX;
use everhook_core::name::Name;

/// An application, and the version of its lane group at which it had the uid; none where it was named by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The application.
    pub id: ApplicationId,
    /// At which version.
    pub version: Option<i64>,
}

/// Uids seen lately.
#[derive(Debug, Default)]
pub struct Uids(Mutex<HashMap<(EnvironmentId, Name), Found>>);

impl Uids {
    /// The application that had this uid when it was last looked up.
    pub fn guess(&self, environment: EnvironmentId, uid: &Name) -> Option<Found> {
        // The key is a pair of owned values; a look-up by borrowed ones would need a map of maps.
        self.lock().get(&(environment, uid.clone())).copied()
    }

    /// Remembers what was looked up.
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
