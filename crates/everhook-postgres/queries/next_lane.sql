-- Lock the lanes of feeds that have been ready longest. Indexes: lane_ready, the primary keys of queue and application.
-- Differs: many feeds at once. Locked against other leases, but not against those who touch a lane; lanes that another lease holds are
-- skipped. Of queues that are not locked, only those that are open and have no limit give theirs.
with clock as materialized (
    select everhook.now_us() as now
)
select wanted.n, {lane: NextLaneRow}, application.revision, clock.now
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
    left join everhook.application on application.environment = any (array[lane.environment])
        and application.id = lane.application
        and application.deleted_at is null
where :locked
    or not exists (
        select
        from everhook.queue
        where queue.environment = any (array[wanted.environment])
            and queue.name = wanted.name
            and (
                queue.state <> 0
                or queue.limit_max is not null
                or queue.key_limit_max is not null
                or queue.rate_us is not null
            )
    );
