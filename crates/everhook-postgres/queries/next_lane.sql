-- Lock the lanes that have been ready longest. Indexes: lane_ready, the primary key of lane_group.
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
-- The version by a subquery: a join might change the order of the lanes.
select {ready: NextLaneRow},
    (
        select lane_group.version
        from everhook.lane_group
        where lane_group.environment = ready.environment
            and lane_group.id = ready.application
    ),
    clock.now
from clock
    cross join ready;
