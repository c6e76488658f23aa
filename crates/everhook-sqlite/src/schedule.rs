//! The history of schedules. Schedules are resources, and `schedule::fire` starts their runs.

use everhook_core::id::{EnvironmentId, ScheduleId};
use everhook_store::schedule::Run;
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;

pub(crate) mod fire;

statement! {
    ListScheduleRun = "list_schedule_run" { environment: EnvironmentId, schedule: ScheduleId, limit: usize }
        -> Vec<Run>;
}

pub(crate) fn list_runs(
    conn: &Connection,
    environment: EnvironmentId,
    id: ScheduleId,
    limit: usize,
) -> Result<Vec<Run>, Fault> {
    run(conn, ListScheduleRun { environment, schedule: id, limit })
}
