//! The HTTP API.
//!
//! One file per resource, each with its wire types, its rules and its handlers. A request is authenticated by [`auth`],
//! what its path names is resolved within the caller's rights by `scope`, its body is read by `input`; the resource
//! decides what it means and calls the node, which is the door for every read and write. Handlers hold no store, send no
//! wake-ups, never spawn, read no clock and keep no state; what goes wrong is told by `error`, in one place.

mod access;
mod addresses;
mod application;
mod attempt;
mod auth;
mod batch;
mod bounds;
mod destination;
mod document;
mod endpoint;
mod endpoint_headers;
mod endpoint_secret;
mod error;
mod event_type;
mod example;
mod health;
mod idempotency;
mod input;
mod job;
mod job_end;
mod limits;
mod merge;
mod message;
mod message_batch;
mod node;
mod once;
mod outbox;
mod paced;
mod page;
mod poller;
mod portal;
mod precheck;
mod query;
mod queue;
mod redrive;
mod resource;
mod routes;
mod schedule;
mod scope;
mod serve;
mod state;
mod strict;
mod worker;

pub use crate::document::openapi;
pub use crate::health::ops_router;
pub use crate::limits::CONNECTIONS_MAX;
pub use crate::outbox::NamedOutbox;
pub use crate::routes::router;
pub use crate::serve::{Budget, ConnectionMetrics, Server, Stop, listen};
pub use crate::state::ApiConfig;
