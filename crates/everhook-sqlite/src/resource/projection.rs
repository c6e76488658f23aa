//! The narrow tables that are derived from resources: lanes, lane groups, and the states of schedules.

use everhook_core::id::{ApplicationId, EnvironmentId, Id, LaneId};
use everhook_core::lane::LaneState;
use everhook_core::queue::{QueueState, Rate};
use everhook_core::resource::ResourceKind;
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::time::Timestamp;
use everhook_store::queue::LaneGroup;
use everhook_store::resource::encoding::{Columns, LimitHolds};
use everhook_store::resource::{Parent, Projection, Resource};
use everhook_store::sql::rows::FiringRow;
use everhook_store::sql::shared::{
    CloseBreaker, CountResource, DeleteLaneGroup, PutSchedule, ReleaseLaneLimit, TouchEnvironmentGroup, TouchLaneGroup,
};
use everhook_store::statement;

use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    PutLaneGroup = "put_lane_group" {
        environment: EnvironmentId, id: Id, state: QueueState, limit_max: Option<u32>, lane_limit_max: Option<u32>,
        rate_us: Option<Rate>, pushes: bool, now: Timestamp,
    };
    CloseLane = "close_lane" { environment: EnvironmentId, id: Id };
    DeleteSchedule = "delete_schedule" { environment: EnvironmentId, id: Id };
    CreateLane = "create_lane" { environment: EnvironmentId, id: LaneId, application: ApplicationId, state: LaneState };
    pub(crate) SetLaneState = "set_lane_state" { environment: EnvironmentId, id: LaneId, state: LaneState };
    DeleteScheduleRun = "delete_schedule_run" { environment: EnvironmentId, schedule: Id };
}

/// Invalidates the cached endpoints of an application.
pub(crate) fn touch_group(tx: &Tx<'_>, environment: EnvironmentId, application: ApplicationId) -> Result<(), Fault> {
    run(tx.conn, TouchLaneGroup { environment, id: application.0 }).map(drop)
}

pub(super) fn touch_parent(tx: &Tx<'_>, environment: EnvironmentId, parent: Parent) -> Result<(), Fault> {
    parent.0.map_or(Ok(()), |id| touch_group(tx, environment, ApplicationId(id)))
}

/// Whether a parent has `max` resources of a kind.
pub(super) fn is_full(tx: &Tx<'_>, environment: EnvironmentId, columns: &Columns, max: usize) -> Result<bool, Fault> {
    if max == usize::MAX {
        return Ok(false);
    }
    let (kind, parent) = (columns.kind, columns.parent);
    let counted = run(tx.conn, CountResource { environment, kind, parent, limit: max })?;
    Ok(counted.is_some_and(|counted| counted >= max))
}

/// Writes the narrow tables of a resource that was created or replaced; returns the state of a schedule.
pub(super) fn write(tx: &Tx<'_>, environment: EnvironmentId, resource: &Resource) -> Result<Option<FiringRow>, Fault> {
    match resource.projection(environment) {
        None => {}
        Some(Projection::LaneGroup(id, group)) => put_group(tx, environment, id, &group)?,
        Some(Projection::Lane(endpoint)) => {
            touch_group(tx, environment, endpoint.application)?;
            let (id, application, state) = (endpoint.id.lane(), endpoint.application, endpoint.lane_state());
            run(tx.conn, CreateLane { environment, id, application, state })?;
            run(tx.conn, SetLaneState { environment, id, state })?;
        }
        Some(Projection::Schedule(record)) => {
            let ScheduleState { next, queued, look_at } = record.begin(tx.now);
            run(tx.conn, PutSchedule { environment, id: record.schedule.id, next, queued, look_at })?;
            return Ok(Some(FiringRow { next, queued, look_at, last_job: None }));
        }
    }
    Ok(None)
}

/// Opens the lane group of the hidden application, or invalidates its cached endpoints.
pub(super) fn open_group(tx: &Tx<'_>, environment: EnvironmentId, application: ApplicationId) -> Result<(), Fault> {
    put_group(tx, environment, application.0, &LaneGroup::OPEN)
}

pub(super) fn delete_group(tx: &Tx<'_>, environment: EnvironmentId, id: Id) -> Result<(), Fault> {
    run(tx.conn, DeleteLaneGroup { environment, id }).map(drop)
}

pub(super) fn close_lanes(tx: &Tx<'_>, environment: EnvironmentId, endpoints: &[Id]) -> Result<(), Fault> {
    for id in endpoints {
        run(tx.conn, CloseLane { environment, id: *id })?;
    }
    Ok(())
}

/// Ends the holds of limits that have changed. Limits of the environment are cached with the endpoints.
pub(super) fn release_limits(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    changed: ResourceKind,
    holds: &LimitHolds,
) -> Result<(), Fault> {
    if changed == ResourceKind::EnvironmentPolicy {
        run(tx.conn, TouchEnvironmentGroup { environment })?;
    }
    let LimitHolds { low, high, application, order, breaker } = *holds;
    if breaker {
        run(tx.conn, CloseBreaker { environment, low, high, application })?;
    }
    run(tx.conn, ReleaseLaneLimit { environment, low, high, application, order }).map(drop)
}

pub(super) fn delete_schedule(tx: &Tx<'_>, environment: EnvironmentId, id: Id) -> Result<(), Fault> {
    run(tx.conn, DeleteSchedule { environment, id })?;
    run(tx.conn, DeleteScheduleRun { environment, schedule: id }).map(drop)
}

fn put_group(tx: &Tx<'_>, environment: EnvironmentId, id: Id, group: &LaneGroup) -> Result<(), Fault> {
    let LaneGroup { state, limit: limit_max, lane_limit: lane_limit_max, rate: rate_us, pushes, .. } = *group;
    let put = PutLaneGroup { environment, id, state, limit_max, lane_limit_max, rate_us, pushes, now: tx.now };
    run(tx.conn, put).map(drop)
}
