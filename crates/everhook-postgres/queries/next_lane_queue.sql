-- Lock the lanes of queues that have been ready longest. Indexes: lane_queue, the primary key of lane_group.
-- Differs: many queues at once. Locked against other leases, but not against those who touch a lane; lanes that another lease holds are
-- skipped. Of queues that are not locked, only those that are open and have no limit give theirs.
with clock as materialized (
    select everhook.now_us() as now
)
select wanted.n, lane.environment, lane.id, lane.ready_at
from clock
    cross join unnest(:wanted, n)
    cross join lateral (
        select lane.environment, lane.id, greatest(lane.next_due, lane.hold_until) as ready_at
        from everhook.lane
        where lane.environment = wanted.environment
            and lane.queue = wanted.name
            and greatest(lane.next_due, lane.hold_until) <= clock.now
        order by greatest(lane.next_due, lane.hold_until)
        limit :limit
        for no key update skip locked
    ) as lane
where :locked
    or not exists (
        select
        from everhook.lane_group
        where lane_group.environment = any (array[wanted.environment])
            and lane_group.id = wanted.id
            and (
                lane_group.state <> 0
                or lane_group.limit_max is not null
                or lane_group.lane_limit_max is not null
                or lane_group.rate_us is not null
            )
    );
