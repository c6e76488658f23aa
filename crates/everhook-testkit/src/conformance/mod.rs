//! The suite that every store has to pass: one line per backend.
//!
//! Where the tests of a store are:
//!
//! ```ignore
//! use everhook_testkit::conformance::{Backend, Fresh};
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
//! everhook_testkit::conformance_full!(Sqlite);
//! ```
//!
//! `conformance_full!` is everything: the lease engine, catalogue, history, races, and the model test against
//! [`MemStore`](crate::mem::MemStore). `conformance_lease!` is the lease engine alone, `conformance_jobs!` what jobs add to it `conformance_time!`
//! schedules, workers and retention, and `conformance_resources!` the catalogue, for stores that are no more than that.
//! Each expands to one `#[test]` per case; a case gets a [`Fixture`](fixture::Fixture) on a fresh store. Cases call the store
//! through a trait object, so that they are compiled once for all stores; `table` has them in that form.
//!
//! Cases neither sleep nor measure: a task is due at once or in an hour, a lease lasts no time or an hour. While a case runs in
//! one environment, the fixture repeats its appends in a second one with equal ids, uids and keys, held by a bystander, and
//! finds at the end that nothing happened there. The guard is dropped after the store, also when a case fails.

#![allow(clippy::unwrap_used, reason = "the suite is test code: an error is a failure")]

mod append;
mod applications;
mod batch;
mod dedup;
mod delivery;
mod endpoints;
pub mod fixture;
mod history;
mod job;
mod job_race;
pub mod job_stage;
mod keys;
mod lease;
mod list;
mod maintenance;
pub mod model;
mod once;
pub mod outbox;
mod race;
mod schedule;
mod sessions;
mod settle;
pub mod stage;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::conformance::fixture::Fixture;
use crate::conformance::stage::Stage;

/// A kind of store, for the suite to make as many of as it has cases.
pub trait Backend: 'static {
    /// The store.
    type Store: Stage + 'static;

    /// Makes an empty one.
    fn fresh() -> impl Future<Output = Fresh<Self::Store>> + Send;
}

/// An empty store.
pub struct Fresh<S: ?Sized> {
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

/// Makes empty stores whose type is no longer known.
pub type Make = fn() -> Pin<Box<dyn Future<Output = Fresh<dyn Stage>> + Send>>;

/// Makes an empty store of a kind.
pub fn fresh<B: Backend>() -> Pin<Box<dyn Future<Output = Fresh<dyn Stage>> + Send>> {
    Box::pin(async {
        let Fresh { store, other, guard } = B::fresh().await;
        Fresh { store: store as Arc<dyn Stage>, other: other as Arc<dyn Stage>, guard }
    })
}

/// A case whose future is no longer known.
type Case = for<'a> fn(&'a Fixture) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs one case on a fresh store.
fn run(fresh: Make, case: Case) {
    block_on(async {
        let fixture = Fixture::new(fresh().await).await;
        case(&fixture).await;
        fixture.check_bystander().await;
    });
}

/// Every case under the name of its module, ready to run on any store.
#[allow(missing_docs, reason = "the name of a case says it")]
pub mod table {
    crate::conformance_full!(table);
}

/// Runs to its end what several threads take part in.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a thread can be started").block_on(work)
}
