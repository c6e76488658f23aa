-- Lock the lane groups of limited queues, with the columns of `next_group`. Index: the primary key. The lock lets only
-- one lease count and take at a time. Groups that another lease has locked are skipped: the caller asks again soon
-- instead of waiting.
-- No twin: SQLite has one writer.
select wanted.n, everhook.now_us(), {lane_group: LaneGroup}
from unnest(:wanted, n)
    join everhook.lane_group on lane_group.environment = any (array[wanted.environment])
        and lane_group.id = wanted.id
order by wanted.environment, wanted.id
for no key update of lane_group skip locked;
