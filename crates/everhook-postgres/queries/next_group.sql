-- What a lease has to know of queues, and the time. A queue without configuration has no group. Index: the primary key.
-- No twin: SQLite reads groups one by one, by `find_group`.
select wanted.n, everhook.now_us(), {lane_group: LaneGroup}
from unnest(:wanted, n)
    left join everhook.lane_group on lane_group.environment = any (array[wanted.environment])
        and lane_group.id = wanted.id;
