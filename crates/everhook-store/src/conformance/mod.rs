//! The suite that every store has to pass: one line per backend.
//!
//! In a store crate, with `everhook-store = { workspace = true, features = ["conformance"] }` among its dev-dependencies:
//!
//! ```ignore
//! // tests/it/conformance.rs
//! use everhook_store::conformance::{Backend, Fresh};
//!
//! struct Sqlite;
//!
//! impl Backend for Sqlite {
//!     type Store = SqliteStore;
//!
//!     /// An empty store of its own, with its schema. What has to outlive it (a folder, a database to drop) is its guard.
//!     async fn fresh() -> Fresh<SqliteStore> {
//!         let folder = tempfile::tempdir().unwrap();
//!         let store = SqliteStore::open(&folder.path().join("everhook.db")).await.unwrap();
//!         Fresh::one(store, folder)
//!         // or, where two nodes can have it open, each with its own connections: Fresh::two(store, other, database)
//!     }
//! }
//!
//! everhook_store::conformance_full!(Sqlite);
//! ```
//!
//! `conformance_full!` is everything: the lease engine, catalogue, history, races, and the model test against
//! [`MemStore`](crate::mem::MemStore). `conformance_lease!` is the lease engine alone, `conformance_jobs!` what jobs add to it and
//! `conformance_time!` schedules, workers and retention, for stores that are no more than that.
//! Each expands to one `#[test]` per case; a case gets a [`Fixture`](fixture::Fixture) on a fresh store.
//!
//! Cases neither sleep nor measure: a task is due at once or in an hour, a lease lasts no time or an hour. While a case runs in
//! one environment, the fixture repeats its appends in a second one with equal ids, uids and keys, held by a bystander, and
//! finds at the end that nothing happened there. The guard is dropped after the store, also when a case fails.

#![allow(clippy::unwrap_used, reason = "the suite is test code: an error is a failure")]

pub mod append;
pub mod applications;
pub mod batch;
pub mod dedup;
pub mod delivery;
pub mod endpoints;
pub mod fixture;
pub mod history;
pub mod job;
pub mod job_race;
pub mod job_stage;
pub mod lease;
mod list;
pub mod maintenance;
pub mod model;
pub mod mutants;
pub mod once;
pub mod outbox;
pub mod race;
pub mod schedule;
pub mod sessions;
pub mod settle;
pub mod stage;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use crate::conformance::fixture::Fixture;
use crate::conformance::stage::Stage;

/// A kind of store, for the suite to make as many of as it has cases.
pub trait Backend {
    /// The store.
    type Store: Stage + 'static;

    /// Makes an empty one.
    fn fresh() -> impl Future<Output = Fresh<Self::Store>> + Send;
}

/// An empty store.
pub struct Fresh<S> {
    store: Arc<S>,
    other: Arc<S>,
    guard: Box<dyn Any + Send + Sync>,
}

impl<S> Fresh<S> {
    /// A store that one process has open.
    pub fn one(store: S, guard: impl Any + Send + Sync) -> Fresh<S> {
        let store = Arc::new(store);
        Fresh { other: Arc::clone(&store), store, guard: Box::new(guard) }
    }

    /// A store that two nodes have open: configured through one, delivered from by the other, raced on by both.
    pub fn two(store: S, other: S, guard: impl Any + Send + Sync) -> Fresh<S> {
        Fresh { store: Arc::new(store), other: Arc::new(other), guard: Box::new(guard) }
    }
}

/// Runs one case on a fresh store.
pub fn run<B: Backend>(case: impl AsyncFnOnce(&Fixture<B::Store>)) {
    block_on(async {
        let fixture = Fixture::new(B::fresh().await).await;
        case(&fixture).await;
        fixture.check_bystander().await;
    });
}

/// Runs to its end what several threads take part in.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a thread can be started").block_on(work)
}
