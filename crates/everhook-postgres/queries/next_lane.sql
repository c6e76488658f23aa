-- Lock the lanes of feeds that have been ready longest. Indexes: lane_ready, the primary key of lane_group.
-- Differs: many feeds at once. Locked against other leases, but not against those who touch a lane; lanes that another lease holds are
-- skipped. Of queues that are not locked, only those that are open and have no limit give theirs.
with clock as materialized (
    select everhook.now_us() as now
)
select wanted.n, {lane: NextLaneRow}, lane_group.version, clock.now
from clock
    cross join unnest(:wanted, n)
    cross join lateral (
        select lane.environment, lane.id, lane.application, lane.state, lane.waiting, lane.floor, lane.ready_at
        from everhook.lane
        where lane.feed = wanted.feed
            and lane.ready_at <= clock.now
            and lane.ready_at < 9223372036854775807
            and lane.id <> all (:full::bytea[]) -- no room for more of these
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
