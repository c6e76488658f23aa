//! The HTTP API.
//!
//! Each resource has one file with its wire types, its rules and its handlers. [`auth`] authenticates a request,
//! `scope` finds the objects that its path names, within the caller's rights, and `input` reads its body. The handler
//! checks the request and calls the node for every read and write. Handlers hold no store, send no wake-ups, never
//! spawn tasks, read no clock and keep no state. `error` turns every failure into a response.

mod access;
mod addresses;
mod application;
mod attempt;
mod auth;
mod background_task;
mod batch;
mod bounds;
mod dashboard;
mod delivery;
mod delivery_steer;
mod destination;
mod direct;
mod directory;
mod document;
mod endpoint;
mod endpoint_headers;
mod endpoint_message;
mod endpoint_replay;
mod endpoint_secret;
mod endpoint_stats;
mod environment;
mod error;
mod event_type;
mod event_type_import;
mod example;
mod failure_group;
mod filter;
mod health;
mod http_metrics;
mod idempotency;
mod input;
mod integration;
mod job;
mod job_end;
mod limits;
mod live;
mod merge;
mod message;
mod message_batch;
mod message_content;
mod node;
mod once;
mod operational_webhook;
mod outbox;
mod overview;
mod paced;
mod page;
mod policy;
mod poller;
mod portal;
mod portal_settings;
mod precheck;
mod query;
mod queue;
mod redrive;
mod resource;
mod routes;
pub mod rules;
mod schedule;
mod scope;
mod serve;
mod session;
mod state;
mod statistics;
mod strict;
mod token_end;
mod viewer;
mod worker;

pub use crate::document::openapi;
pub use crate::health::ops_router;
pub use crate::http_metrics::HttpMetrics;
pub use crate::limits::CONNECTIONS_MAX;
pub use crate::outbox::NamedOutbox;
pub use crate::routes::router;
pub use crate::serve::{Budget, ConnectionMetrics, Server, Stop, listen};
pub use crate::session::sign_in_path;
pub use crate::state::ApiConfig;
