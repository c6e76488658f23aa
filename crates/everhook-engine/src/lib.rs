//! Connects the core, a store and a sender with async I/O.
//!
//! The engine executes the decisions of the core. It commits messages and jobs in groups, leases tasks, runs and
//! settles them, renews the node's session, takes over tasks of crashed nodes, and serves remote workers. It contains
//! no SQL and makes no decision about a task. A [`node::Node`] is the shared context: each component owns its state and
//! refers to the node for the rest.

pub mod activity;
mod alerts;
pub mod background;
mod breaker;
mod changes;
pub mod clock;
pub mod config;
mod counts;
mod dispatcher;
mod egress;
pub mod entropy;
mod failing;
pub mod intake;
pub mod metrics;
pub mod node;
pub mod outbox;
mod policies;
pub mod quotas;
pub mod remote;
pub mod retention;
pub mod run;
mod schedules;
pub mod session;
mod settle;
mod stall_watch;
mod sweep;
pub mod trace;
mod traffic;
pub mod transport;
mod wakeup;
