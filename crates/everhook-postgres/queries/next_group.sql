-- Read the lane groups of queues for a lease, and the time. Index: the primary key. A queue without configuration has
-- no group.
-- No twin: SQLite reads groups one by one, with `find_group`.
select wanted.n, everhook.now_us(), {lane_group: LaneGroup}
from unnest(:wanted, n)
    left join everhook.lane_group on lane_group.environment = any (array[wanted.environment])
        and lane_group.id = wanted.id;
