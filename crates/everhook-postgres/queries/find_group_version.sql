-- Find the versions of lane groups, which show whether cached endpoints are current, and the time. Index: the primary
-- key.
-- Differs: many rows at once.
with clock as materialized (
    select everhook.now_us() as now
)
select lane_group.environment, lane_group.id, lane_group.version, clock.now
from clock
    cross join unnest(:wanted)
    join everhook.lane_group on lane_group.environment = any (array[wanted.environment])
        and lane_group.id = wanted.id;
