//! The async shell around core, store and sender.
//!
//! Does what the core decides: accepts messages in groups, leases tasks, runs them, settles them, keeps the node's session
//! alive and takes over what dead nodes held. Contains no decision about a task and no SQL.

pub mod accept;
pub mod clock;
pub mod delivery;
mod dispatcher;
pub mod engine;
pub mod entropy;
pub mod jobs;
mod metrics;
pub mod relay;
pub mod session;
mod settle;
mod sweeper;
pub mod transport;
mod wakeup;
