//! The nouns of Everhook and every decision it makes.
//!
//! Pure: no I/O, no clock, no randomness. Callers pass time and random values, so that the same code runs in the
//! server, the conformance suite and the simulator.

pub mod api_key;
pub mod application;
pub mod background;
pub mod batch;
pub mod capability;
pub mod chat;
pub mod delivery;
pub mod dispatch;
pub mod draft;
pub mod egress;
pub mod endpoint;
pub mod endpoint_auth;
pub mod event_type;
pub mod example;
pub mod failing;
pub mod failure_group;
pub mod fair;
pub mod fanout;
pub mod filter;
pub mod id;
pub mod integration;
pub mod job;
pub mod lane;
pub mod lifecycle;
pub mod limits;
pub mod message;
pub mod name;
pub mod nearest;
pub mod once;
pub mod openapi;
pub mod operational;
pub mod outcome;
pub mod policy;
pub mod poll;
pub mod queue;
pub mod relay;
pub mod resource;
pub mod retry;
pub mod right;
pub mod role;
pub mod schedule;
pub mod scope;
pub mod seal;
pub mod share;
pub mod signing;
pub mod svix_key;
pub mod task;
pub mod time;
pub mod token;
pub mod trace;
pub mod traffic;
pub mod verify;
pub mod violation;
