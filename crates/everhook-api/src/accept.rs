//! What the API needs of the node it runs in. Implemented by the engine, and by tests.

pub use everhook_engine::accept::{Accept, AcceptError, Accepted};
