-- Lock ready lanes of deliveries after a position, leaving out lanes and groups without capacity on the asking node,
-- and paused environments.
-- Indexes: lane_ready, the primary keys of lane and lane_group.
-- At most `scanned` lanes are considered. `resume` is the position at which the next lease continues; it is null if all
-- ready lanes were considered. `later` is the time at which the next lane becomes ready.
-- The lanes are found without locks and then locked, so that lanes of other groups stay free for other nodes. A lane
-- that another lease has changed in between fails the check of `ready_at`.
-- There is always a row, because the caller needs `resume` even if no lane of the page has capacity.
-- No twin: SQLite walks the lanes one by one, with `next_lane`.
with clock as materialized (
    select everhook.now_us() as now
),
page as materialized (
    select lane.environment, lane.id, lane.application, lane.ready_at
    from everhook.lane
    where lane.feed = '\x00'
        and lane.ready_at <= (select clock.now from clock)
        and lane.ready_at < 9223372036854775807
        and (lane.ready_at, lane.environment, lane.id) > (:after_at, :after_environment, :after_lane)
    order by lane.ready_at, lane.environment, lane.id
    limit :scanned
),
chosen as materialized (
    select page.environment, page.id, page.ready_at
    from page
    where page.id <> all (:full::bytea[])
        and int4send(page.environment) || page.application <> all (:full_groups::bytea[])
        and page.environment <> all (:paused::integer[])
    order by page.ready_at, page.environment, page.id
    limit :limit
),
resume as materialized (
    (
        select chosen.ready_at, chosen.environment, chosen.id
        from chosen
        where (select count(*) from chosen) >= :limit
        order by chosen.ready_at desc, chosen.environment desc, chosen.id desc
        limit 1
    )
    union all
    (
        select page.ready_at, page.environment, page.id
        from page
        where (select count(*) from chosen) < :limit
            and (select count(*) from page) >= :scanned
        order by page.ready_at desc, page.environment desc, page.id desc
        limit 1
    )
),
locked as materialized (
    select lane.environment, lane.id, lane.application, lane.state, lane.waiting, lane.floor, lane.ready_at,
        lane.hold_until, lane.last_position, lane.breaker
    from chosen
        join everhook.lane on lane.environment = any (array[chosen.environment])
            and lane.id = chosen.id
    where lane.ready_at <= (select clock.now from clock)
    for no key update of lane skip locked
)
select clock.now,
    (
        select lane.ready_at
        from everhook.lane
        where lane.feed = '\x00'
            and lane.ready_at > (select clock.now from clock)
            and lane.ready_at < 9223372036854775807
        order by lane.ready_at
        limit 1
    ) as later,
    {resume: PositionRow}, {lane: NextLaneRow}, lane_group.version
from clock
    left join resume on true
    left join locked as lane on true
    left join everhook.lane_group on lane_group.environment = any (array[lane.environment])
        and lane_group.id = lane.application;
