-- Lock the lanes that have been ready longest. Index: lane_ready.
-- Differs: locked against other leases, but not against those who touch a lane; lanes that another lease holds are skipped.
with clock as materialized (
    select everhook.now_us() as now
),
ready as materialized (
    select lane.environment, lane.id, lane.application, lane.state, lane.waiting,
        case lane.floor_of when lane.next_due then lane.floor else 0 end as floor
    from everhook.lane
    where lane.ready_at <= (select now from clock)
        and lane.ready_at < 9223372036854775807
        and lane.id <> all (:full::bytea[]) -- no room for more of these
    order by lane.ready_at
    limit :limit
    for no key update skip locked
)
select {ready: NextLaneRow}, application.revision, clock.now
from clock
    cross join ready
    left join everhook.application on application.environment = any (array[ready.environment])
        and application.id = ready.application
        and application.deleted_at is null;
