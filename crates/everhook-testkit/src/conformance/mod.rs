//! The suite that every store must pass. A store needs a few lines to run it.
//!
//! For example, in the tests of a store:
//!
//! ```ignore
//! use everhook_testkit::conformance::{Backend, Fresh};
//!
//! struct Sqlite;
//!
//! impl Backend for Sqlite {
//!     type Store = SqliteStore;
//!
//!     /// The guard is anything that must outlive the store: a folder, or a database to drop.
//!     async fn fresh() -> Fresh<SqliteStore> {
//!         let folder = tempfile::tempdir().unwrap();
//!         let store = SqliteStore::open(&folder.path().join("everhook.db")).await.unwrap();
//!         Fresh::one(store, folder)
//!         // If two nodes can open the store: Fresh::two(store, other, database)
//!     }
//! }
//!
//! everhook_testkit::conformance_full!(Sqlite);
//! ```
//!
//! `conformance_full!` contains everything: the lease engine, catalogue, history, races, and the model test against
//! [`MemStore`](crate::mem::MemStore). `MemStore` itself runs `conformance_specified!`, the cases about the operations
//! that it has. Each macro expands to one `#[test]` per case. A case gets a [`Fixture`](fixture::Fixture) on a fresh
//! store. Cases call the store through a trait object, so that they are compiled once for all stores; `table` contains
//! them in that form.
//!
//! Cases neither sleep nor measure time: a task is due at once or in an hour, and a lease lasts no time or an hour.
//! While a case runs in one environment, the fixture repeats its appends in a second one with equal ids, uids and keys,
//! held by a bystander. At the end it checks that nothing changed there. The guard is dropped after the store, even if
//! a case fails.

#![allow(clippy::unwrap_used, reason = "the suite is test code: an error is a failure")]

mod alerts;
mod append;
mod applications;
mod attempts;
mod audit;
mod background;
mod batch;
mod breaker;
mod dedup;
mod deliveries;
mod delivery;
mod directory;
mod egress;
mod endpoints;
mod event_types;
mod failure;
pub mod fixture;
mod history;
mod integrations;
mod job;
mod job_race;
pub mod job_stage;
mod job_steer;
mod keys;
mod lease;
mod limits;
mod list;
mod maintenance;
pub mod model;
mod once;
mod operational;
pub mod order;
mod order_key;
pub mod outbox;
mod policy;
mod poll;
mod queue;
mod quota;
mod race;
mod request;
mod schedule;
mod sessions;
mod settings;
mod settle;
pub mod stage;
mod tokens;
mod traffic;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::conformance::fixture::Fixture;
use crate::conformance::stage::Stage;

/// A kind of store. The suite creates one store per case.
pub trait Backend: 'static {
    type Store: Stage + 'static;

    fn fresh() -> impl Future<Output = Fresh<Self::Store>> + Send;
}

pub struct Fresh<S: ?Sized> {
    store: Arc<S>,
    other: Arc<S>,
    guard: Box<dyn Any + Send + Sync>,
}

impl<S> Fresh<S> {
    /// A store that only one process can open.
    pub fn one(store: S, guard: impl Any + Send + Sync) -> Fresh<S> {
        let store = Arc::new(store);
        Fresh { other: Arc::clone(&store), store, guard: Box::new(guard) }
    }

    /// A store that two nodes open. One configures it, the other delivers, and both take part in races.
    pub fn two(store: S, other: S, guard: impl Any + Send + Sync) -> Fresh<S> {
        Fresh { store: Arc::new(store), other: Arc::new(other), guard: Box::new(guard) }
    }
}

/// Creates empty stores behind a trait object.
pub type Make = fn() -> Pin<Box<dyn Future<Output = Fresh<dyn Stage>> + Send>>;

/// Creates an empty store of a kind.
pub fn fresh<B: Backend>() -> Pin<Box<dyn Future<Output = Fresh<dyn Stage>> + Send>> {
    Box::pin(async {
        let Fresh { store, other, guard } = B::fresh().await;
        Fresh { store: store as Arc<dyn Stage>, other: other as Arc<dyn Stage>, guard }
    })
}

/// A case behind a function pointer.
type Case = for<'a> fn(&'a Fixture) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs one case on a fresh store.
fn run(fresh: Make, case: Case) {
    block_on(async {
        let fixture = Fixture::new(fresh().await).await;
        case(&fixture).await;
        fixture.check_bystander().await;
    });
}

/// The cases by the name of their module, ready to run on any store.
pub mod table {
    crate::conformance_full!(table);
}

/// Runs a future to its end on several threads.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a thread can be started").block_on(work)
}
