-- Find the time until a lane of each feed is ready, leaving some lanes out. Index: lane_ready.
-- No twin: SQLite asks for one feed after the other, with `next_lane`.
select wanted.n, first.ready_at - everhook.now_us()
from unnest(:wanted, n)
    cross join lateral (
        select lane.ready_at
        from everhook.lane
        where lane.feed = wanted.feed
            and lane.ready_at < 9223372036854775807
            and lane.ready_at > :after
            and lane.id <> all (:full::bytea[]) -- lanes without tasks to lease now
        order by lane.ready_at
        limit 1
    ) as first;
