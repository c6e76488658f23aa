-- Lock the lanes of feeds that have been ready longest. Indexes: lane_ready, the primary key of lane_group.
-- `for no key update` conflicts with other leases but not with the key share locks of appends, so a lease and an append
-- of one lane run in parallel. Lanes that another lease holds are skipped: that lease is already taking their tasks.
-- Without `locked`, only lanes of deliveries and of open queues without limits are returned. The lane group is checked
-- again in this statement, because a limit may have been set since `next_group` read it.
-- Differs: many feeds at once.
with clock as materialized (
    select everhook.now_us() as now
)
select wanted.n, {lane: NextLaneRow}, lane_group.version, clock.now
from clock
    cross join unnest(:wanted, n)
    cross join lateral (
        select lane.environment, lane.id, lane.application, lane.state, lane.waiting, lane.floor, lane.ready_at,
            lane.hold_until, lane.last_position, lane.breaker
        from everhook.lane
        where lane.feed = wanted.feed
            and lane.ready_at <= clock.now
            and lane.ready_at < 9223372036854775807
            and lane.id <> all (:full::bytea[]) -- lanes without free capacity
        order by lane.ready_at
        limit :limit
        for no key update skip locked
    ) as lane
    left join everhook.lane_group on lane_group.environment = any (array[lane.environment])
        and lane_group.id = lane.application
where :locked
    or not exists (
        select
        from everhook.lane_group
        where lane_group.environment = any (array[wanted.environment])
            and lane_group.id = wanted.feed
            and (
                lane_group.state <> 0
                or lane_group.limit_max is not null
                or lane_group.lane_limit_max is not null
                or lane_group.rate_us is not null
            )
    );
