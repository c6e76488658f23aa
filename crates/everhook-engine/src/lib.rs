//! The async shell around core, store and sender.
//!
//! Does what the core decides: accepts messages and jobs in groups, leases tasks, runs them, settles them, keeps the
//! node's session alive, takes over tasks of dead nodes, and speaks with remote workers. Contains no decision about a
//! task and no SQL. Everything hangs on a [`node::Node`]: components own their state and share the node.

mod changes;
pub mod clock;
pub mod config;
mod counts;
mod dispatcher;
pub mod entropy;
pub mod intake;
mod metrics;
pub mod node;
pub mod outbox;
pub mod remote;
pub mod retention;
pub mod run;
mod schedules;
pub mod session;
mod settle;
mod stall_watch;
mod sweep;
pub mod transport;
mod wakeup;
