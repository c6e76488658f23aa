//! Joins the engine to the API, which knows it only by a trait.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_api::accept::{Accept, AcceptError, Accepted};
use everhook_core::id::Id;
use everhook_core::time::Timestamp;
use everhook_engine::accept::{AcceptError as EngineError, Accepted as EngineAccepted};
use everhook_engine::engine::Engine;
use everhook_store::error::StoreError;
use everhook_store::lease::NewMessage;

/// The engine, as the API sees it.
pub(crate) struct Gate(pub(crate) Arc<Engine>);

#[async_trait]
impl Accept for Gate {
    async fn accept(&self, message: NewMessage) -> Result<Accepted, AcceptError> {
        match self.0.accept(message).await {
            Ok(EngineAccepted::New(message)) => Ok(Accepted::New(message)),
            Ok(EngineAccepted::Repeated(id)) => Ok(Accepted::Repeated(id)),
            Ok(EngineAccepted::KeyReused) => Ok(Accepted::KeyReused),
            Ok(EngineAccepted::EventIdTaken) => Ok(Accepted::EventIdTaken),
            Ok(EngineAccepted::NoApplication) => Ok(Accepted::NoApplication),
            Err(EngineError::Stopping) => Err(AcceptError::Stopping),
            Err(EngineError::InDoubt) => {
                Err(AcceptError::Store(StoreError::InDoubt { op: "append", source: "deadline".into() }))
            }
            Err(EngineError::Store(error)) => {
                let op = "append";
                let source = error.to_string().into();
                Err(AcceptError::Store(match *error {
                    StoreError::InDoubt { .. } => StoreError::InDoubt { op, source },
                    StoreError::Full { .. } => StoreError::Full { op, source },
                    StoreError::Refused { .. } => StoreError::Refused { op, source },
                    StoreError::Corrupt { table, column } => StoreError::Corrupt { table, column },
                    StoreError::Unavailable { .. } => StoreError::Unavailable { op, source },
                }))
            }
        }
    }

    fn hint(&self) {
        self.0.hint();
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn new_id(&self) -> Id {
        self.0.new_id()
    }

    fn ready(&self) -> Result<(), String> {
        self.0.ready()
    }
}
