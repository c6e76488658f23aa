-- List the endpoints of applications as fan-out and delivery need them. Index: the primary key of lane_group,
-- resource_open. Each row has the version of the lane group in the same snapshot, for the cache.
-- Differs: many applications at once.
select
    lane_group.environment, lane_group.id, lane_group.version,
    {endpoint: Endpoint; info = '{}'}
from unnest(:wanted)
    join everhook.lane_group on lane_group.environment = any (array[wanted.environment])
        and lane_group.id = wanted.id
    left join lateral (
        select resource.*
        from everhook.resource
        where resource.environment = lane_group.environment
            and resource.kind = 1
            and resource.parent = lane_group.id
            and resource.deleted_at is null
        offset 0 -- one lookup per application, whatever the statistics say
    ) as endpoint on true;
