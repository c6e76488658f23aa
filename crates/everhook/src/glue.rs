//! Joins the engine to the API, which knows it only by a trait.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_api::accept::{Accept, AcceptError, Accepted};
use everhook_core::id::Id;
use everhook_core::time::Timestamp;
use everhook_engine::accept::{AcceptError as EngineError, Accepted as EngineAccepted};
use everhook_engine::engine::Engine;
use everhook_store::lease::NewMessage;

/// The engine, as the API sees it.
pub(crate) struct Gate(pub(crate) Arc<Engine>);
