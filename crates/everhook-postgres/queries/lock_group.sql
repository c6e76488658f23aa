-- The same as `next_group`, of queues with a limit or a rate, locked, so that nobody else counts at the same time; those that another lease
-- holds are left out. Index: the primary key.
-- No twin: SQLite has one writer.
select wanted.n, everhook.now_us(), {lane_group: LaneGroup}
from unnest(:wanted, n)
    join everhook.lane_group on lane_group.environment = any (array[wanted.environment])
        and lane_group.id = wanted.id
order by wanted.environment, wanted.id
for no key update of lane_group skip locked;
