//! The async shell around core, store and sender.
//!
//! Does what the core decides: accepts messages and jobs in groups, leases tasks, runs them, settles them, keeps the node's session
//! alive, takes over what dead nodes held, and speaks with remote workers. Contains no decision about a task and no SQL.

pub mod accept;
mod changes;
pub mod clock;
pub mod delivery;
mod dispatcher;
pub mod entropy;
mod group;
pub mod jobs;
mod metrics;
pub mod node;
mod outbound;
pub mod relay;
pub mod session;
mod settle;
mod stall_watch;
mod sweeper;
pub mod transport;
mod wakeup;
