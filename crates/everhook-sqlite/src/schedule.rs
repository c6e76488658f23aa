//! Intermediate: refuses everything.

use async_trait::async_trait;
use everhook_core::id::{EnvironmentId, ScheduleId};
use everhook_core::name::Name;
use everhook_store::catalog::{Created, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::schedule::{FiredAll, Run, ScheduleRecord, ScheduleStore};

use crate::SqliteStore;

fn refused<T>(op: &'static str) -> Result<T, StoreError> {
    Err(StoreError::Refused { op, source: "not there yet".into() })
}

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn create_schedule(
        &self,
        _: EnvironmentId,
        _: &ScheduleRecord,
        _: Option<&DedupKey>,
    ) -> Result<Created<ScheduleRecord>, StoreError> {
        refused("create_schedule")
    }
    async fn find_schedule(&self, _: EnvironmentId, _: &Name) -> Result<Option<ScheduleRecord>, StoreError> {
        refused("find_schedule")
    }
    async fn list_schedules(&self, _: EnvironmentId, _: &Slice<Name>) -> Result<Vec<ScheduleRecord>, StoreError> {
        refused("list_schedules")
    }
    async fn replace_schedule(
        &self,
        _: EnvironmentId,
        _: &ScheduleRecord,
    ) -> Result<Replaced<ScheduleRecord>, StoreError> {
        refused("replace_schedule")
    }
    async fn delete_schedule(&self, _: EnvironmentId, _: &Name) -> Result<bool, StoreError> {
        refused("delete_schedule")
    }
    async fn fire_due(&self, _: usize) -> Result<FiredAll, StoreError> {
        refused("fire_due")
    }
    async fn run_schedule(&self, _: EnvironmentId, _: &Name) -> Result<Option<Run>, StoreError> {
        refused("run_schedule")
    }
    async fn list_runs(&self, _: EnvironmentId, _: ScheduleId, _: usize) -> Result<Vec<Run>, StoreError> {
        refused("list_runs")
    }
}
