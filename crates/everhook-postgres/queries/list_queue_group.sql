-- List configured queues by id, each with the version of its lane group. Indexes: the primary keys.
-- No twin: SQLite reads queues one by one, with `find_resource`.
select lane_group.environment, lane_group.id, lane_group.version, {resource: Queue}
from unnest(:wanted)
    join everhook.lane_group on lane_group.environment = any (array[wanted.environment])
        and lane_group.id = wanted.id
    cross join lateral (
        select resource.*
        {include resource_by_id; environment = wanted.environment; kind = 3; id = wanted.id}
        limit 1 -- one lookup by key per row, whatever the statistics say
    ) as resource;
