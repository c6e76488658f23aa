-- How long until a lane of each queue is ready, leaving some out. Index: lane_queue.
-- No twin: SQLite asks for one queue after the other.
select wanted.n, first.ready_at - everhook.now_us()
from unnest(:wanted, n)
    cross join lateral (
        select greatest(lane.next_due, lane.hold_until) as ready_at
        from everhook.lane
        where lane.environment = wanted.environment
            and lane.queue = wanted.name
            and greatest(lane.next_due, lane.hold_until) < 9223372036854775807
            and lane.id <> all (:barren::bytea[]) -- these have nothing that may be taken now
        order by greatest(lane.next_due, lane.hold_until)
        limit 1
    ) as first;
