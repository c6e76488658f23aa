//! Tools for tests; the product does not contain them.
//!
//! [`mem`] is the lease engine in memory, which the simulator uses and [`conformance`] compares stores with.
//! [`receiver`] records requests, [`chat_room`] answers them as chat platforms do, [`process`] runs a server, [`proxy`]
//! sits between a server and its database, [`rng`] gives repeatable random numbers, and [`length`] tells the length of
//! a test. The crate depends only on the core and the storage seam, not on the SQL stores, the engine or the API. The
//! tests of all of them, the simulator, the benchmark and the fault suite can therefore use it.

mod background;
pub mod chat_room;
pub mod conformance;
pub mod http;
pub mod length;
pub mod mem;
pub mod process;
pub mod proxy;
pub mod receiver;
pub mod responder;
pub mod rng;
pub mod wait;
pub mod wire;
