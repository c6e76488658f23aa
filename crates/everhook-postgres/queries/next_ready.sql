-- How long until a lane of each feed is ready, leaving some out. Index: lane_ready.
-- No twin: SQLite asks for one feed after the other, by `next_lane`.
select wanted.n, first.ready_at - everhook.now_us()
from unnest(:wanted, n)
    cross join lateral (
        select lane.ready_at
        from everhook.lane
        where lane.feed = wanted.feed
            and lane.ready_at < 9223372036854775807
            and lane.id <> all (:full::bytea[]) -- these have nothing that may be taken now
        order by lane.ready_at
        limit 1
    ) as first;
