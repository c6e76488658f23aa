//! The async shell around core, store and sender.
//!
//! Does what the core decides: accepts messages and jobs in groups, leases tasks, runs them, settles them, keeps the node's session
//! alive, takes over what dead nodes held, and speaks with remote workers. Contains no decision about a task and no SQL.

pub mod accept;
pub mod clock;
pub mod delivery;
mod dispatcher;
pub mod engine;
pub mod entropy;
mod group;
pub mod jobs;
mod metrics;
mod outbound;
pub mod relay;
pub mod session;
mod settle;
mod stall_watch;
mod sweeper;
pub mod transport;
mod wakeup;
