//! The history of schedules. Schedules are resources, and `schedule::fire` starts their runs.

pub(crate) mod fire;

use everhook_core::id::{EnvironmentId, ScheduleId};
use everhook_store::schedule::Run;
use everhook_store::statement;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    ListScheduleRun = "list_schedule_run" { environment: EnvironmentId, schedule: ScheduleId, limit: usize }
        -> Vec<Run>;
}

impl PostgresStore {
    pub(crate) async fn list_runs_once(
        &self,
        environment: EnvironmentId,
        id: ScheduleId,
        limit: usize,
    ) -> Result<Vec<Run>, Fault> {
        self.database.read(ListScheduleRun { environment, schedule: id, limit }).await
    }
}
