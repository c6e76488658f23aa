//! The lease engine in memory: its executable specification.
//!
//! Plain collections behind one lock, every operation written as its definition and nothing for speed: the SQL stores have to
//! behave like this one, and the model test holds them to it. Time is the caller's function and ids are the caller's source,
//! so the same calls give the same rows; the simulator runs many nodes on one of these. Not a product: keeps nothing, and
//! knows of the catalogue and of history only what the lease engine needs.

mod append;
mod backlog;
mod batch;
mod history;
mod job;
mod lease;
mod once;
mod operations;
mod queue;
mod resource;
mod retention;
mod schedule;
mod sessions;
mod settle;
mod tables;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use everhook_core::time::Timestamp;
use everhook_store::ids::Ids;

pub use crate::mem::tables::{
    AttemptRow, JobRow, KeyRow, LaneRow, LaneState, OnceRow, ResourceEntry, SessionRow, Tables, TaskPlace, TaskRow,
};

/// Reads the store's clock.
pub type MemClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The lease engine in memory.
pub struct MemStore {
    ids: Ids,
    clock: MemClock,
    tables: Mutex<Tables>,
}

impl MemStore {
    /// An empty store with this source of ids and this clock.
    pub fn new(ids: Ids, clock: MemClock) -> MemStore {
        MemStore { ids, clock, tables: Mutex::default() }
    }

    /// Everything it holds, in the order of its keys.
    pub fn dump(&self) -> Tables {
        self.lock().0.clone()
    }

    /// Looks at everything it holds, at one instant.
    pub fn look<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.lock().0)
    }

    /// Begins an operation: nobody else is inside, and the clock is read once that is so.
    fn lock(&self) -> (MutexGuard<'_, Tables>, Timestamp) {
        let tables = self.tables.lock().expect("nothing panics while it holds this lock");
        let now = (self.clock)();
        (tables, now)
    }
}

impl fmt::Debug for MemStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemStore").finish_non_exhaustive()
    }
}
