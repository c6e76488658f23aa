//! The narrow tables that are derived from resources: lanes, lane groups, and the states of schedules.

use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id};
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::queue::{Queue, QueueState, Rate};
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

use crate::columns::Keys;
use crate::error::Fault;
use crate::tx::Tx;

statement! {
    PutLaneGroup = "put_lane_group" {
        environment: EnvironmentId, id: Id, state: QueueState, limit_max: Option<u32>, lane_limit_max: Option<u32>,
        rate_us: Option<Rate>, pushes: bool,
    };
    // An existing lane of the endpoint stays as it is.
    CreateLane = "create_lane" { environment: EnvironmentId, id: EndpointId, application: ApplicationId, state: i16 };
    SetLaneState = "set_lane_state" { environment: EnvironmentId, id: EndpointId, state: i16 };
    CloseLane = ["close_lane", "locked_lane"] { wanted: Keys };
    DeleteSchedule = "delete_schedule" { environment: EnvironmentId, id: Id };
    pub(crate) ListQueueGroup = ["list_queue_group", "resource_by_id"] { wanted: Keys }
        -> Vec<(EnvironmentId, Id, i64, Queue)>;
}

/// Locks the application of a resource, and invalidates its cached endpoints. Returns false if it does not exist.
pub(super) async fn lock_parent(tx: &Tx<'_>, environment: EnvironmentId, parent: Parent) -> Result<bool, Fault> {
    if parent == Parent::of(OPERATIONAL_APPLICATION) {
        // The hidden application begins with its first endpoint.
        tx.run(put_group(environment, OPERATIONAL_APPLICATION.0, &LaneGroup::OPEN)).await?;
        return Ok(true);
    }
    lock_parent_of(tx, environment, parent).await
}

pub(super) async fn lock_parent_of(tx: &Tx<'_>, environment: EnvironmentId, parent: Parent) -> Result<bool, Fault> {
    let Parent(Some(id)) = parent else { return Ok(true) };
    Ok(tx.run(TouchLaneGroup { environment, id }).await? > 0)
}

/// Whether a parent has more than `max` resources of a kind.
pub(super) async fn is_over(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    columns: &Columns,
    max: usize,
) -> Result<bool, Fault> {
    let (Columns { kind, parent, .. }, Some(limit)) = (columns, max.checked_add(1)) else { return Ok(false) };
    let counted = tx.run(CountResource { environment, kind: *kind, parent: *parent, limit }).await?;
    Ok(counted.is_some_and(|counted| counted >= limit))
}

/// Writes the narrow tables of a resource that was created or replaced at `now`; returns the state of a schedule.
pub(super) async fn write(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    resource: &Resource,
    now: Timestamp,
) -> Result<Option<FiringRow>, Fault> {
    match resource.projection(environment) {
        None => {}
        Some(Projection::LaneGroup(id, group)) => {
            tx.run(put_group(environment, id, &group)).await?;
        }
        Some(Projection::Lane(endpoint)) => {
            let (id, application, state) = (endpoint.id, endpoint.application, endpoint.lane_state().to_db());
            let create = CreateLane { environment, id, application, state };
            tx.run((create, SetLaneState { environment, id, state })).await?;
        }
        Some(Projection::Schedule(record)) => {
            let ScheduleState { next, queued, look_at } = record.begin(now);
            tx.run(PutSchedule { environment, id: record.schedule.id, next, queued, look_at }).await?;
            return Ok(Some(FiringRow { next, queued, look_at, last_job: None }));
        }
    }
    Ok(None)
}

pub(super) async fn delete_group(tx: &Tx<'_>, environment: EnvironmentId, id: Id) -> Result<(), Fault> {
    tx.run(DeleteLaneGroup { environment, id }).await.map(drop)
}

pub(super) async fn close_lanes(tx: &Tx<'_>, environment: EnvironmentId, endpoints: &[Id]) -> Result<(), Fault> {
    let wanted = Keys::of(endpoints.iter().map(|id| (environment, *id)));
    tx.run(wanted.nonempty().map(|wanted| CloseLane { wanted })).await.map(drop)
}

/// Ends the holds of limits that have changed. Limits of the environment are cached with the endpoints.
pub(super) async fn release_limits(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    changed: ResourceKind,
    holds: &LimitHolds,
) -> Result<(), Fault> {
    if changed == ResourceKind::EnvironmentPolicy {
        tx.run(TouchEnvironmentGroup { environment }).await?;
    }
    let LimitHolds { low, high, application, order, breaker } = *holds;
    if breaker {
        tx.run(CloseBreaker { environment, low, high, application }).await?;
    }
    tx.run(ReleaseLaneLimit { environment, low, high, application, order }).await.map(drop)
}

pub(super) async fn delete_schedule(tx: &Tx<'_>, environment: EnvironmentId, id: Id) -> Result<(), Fault> {
    tx.run(DeleteSchedule { environment, id }).await.map(drop)
}

fn put_group(environment: EnvironmentId, id: Id, group: &LaneGroup) -> PutLaneGroup {
    let LaneGroup { state, limit: limit_max, lane_limit: lane_limit_max, rate: rate_us, pushes, .. } = *group;
    PutLaneGroup { environment, id, state, limit_max, lane_limit_max, rate_us, pushes }
}
