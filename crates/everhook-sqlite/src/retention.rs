//! Intermediate: refuses everything.

use async_trait::async_trait;
use everhook_core::time::Timestamp;
use everhook_store::error::StoreError;
use everhook_store::retention::{Prunable, Retention};

use crate::SqliteStore;

#[async_trait]
impl Retention for SqliteStore {
    async fn prune(&self, _: Prunable, _: Timestamp, _: usize) -> Result<usize, StoreError> {
        Err(StoreError::Refused { op: "prune", source: "not there yet".into() })
    }
}
