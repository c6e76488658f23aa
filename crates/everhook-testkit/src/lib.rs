//! The tools of the tests: nothing of this is part of the product.
//!
//! [`mem`] is the lease engine in memory, which the simulator runs nodes on and [`conformance`] compares stores with. [`receiver`]
//! records what a server sends, [`process`] is a server, [`proxy`] comes between a server and its database, [`rng`] is chance that a seed repeats. Knows the core and the storage seam; knows no store with SQL, no engine and no API, so that the
//! tests of all of them, the simulator, the benchmark and the fault suite can stand on it.

mod background;
pub mod conformance;
pub mod http;
pub mod mem;
pub mod process;
pub mod proxy;
pub mod receiver;
pub mod responder;
pub mod rng;
pub mod wait;
pub mod wire;
