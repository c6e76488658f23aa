//! The lease engine in memory: its executable specification.
//!
//! The store consists of plain collections behind one lock. Every operation is written for clarity, not for speed. The
//! SQL stores must behave like this one, which the model test checks. Time and ids come from the caller, so that the
//! same calls give the same rows. It persists nothing, and has only the operations that the simulator, the model test
//! and the tests of the engine need, with the reads of single records by which cases observe them. It refuses all
//! others by name.

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
mod schedule;
mod sessions;
mod settle;
mod tables;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use everhook_core::time::Timestamp;
use everhook_store::ids::Ids;

pub use crate::mem::tables::{
    AttemptRow, JobRow, KeyRow, LaneRow, LaneState, OnceRow, ResourceEntry, SessionRow, Tables, TaskPlace, TaskRow,
};

pub type MemClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub struct MemStore {
    ids: Ids,
    clock: MemClock,
    tables: Mutex<Tables>,
}

impl MemStore {
    /// Creates an empty store with this source of ids and this clock.
    pub fn new(ids: Ids, clock: MemClock) -> MemStore {
        MemStore { ids, clock, tables: Mutex::default() }
    }

    /// Returns a copy of all rows, in the order of their keys.
    pub fn dump(&self) -> Tables {
        self.lock().0.clone()
    }

    /// Reads all rows at one instant.
    pub fn look<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.lock().0)
    }

    /// Starts an operation: takes the lock, and then reads the clock.
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
