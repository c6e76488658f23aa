-- List the endpoints of applications as fan-out and delivery need them, with the specs of the applications and of the
-- environment's policy. Indexes: the primary key of lane_group, resource_open, the primary key of resource. Each row
-- has the version of the lane group in the same snapshot, for the cache.
-- Differs: many applications at once.
select
    lane_group.environment, lane_group.id, lane_group.version,
    {endpoint: Endpoint; info = '{}'},
    application.spec, policy.spec
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
    ) as endpoint on true
    left join lateral (
        select resource.spec
        {include resource_by_id; environment = lane_group.environment; kind = 0; id = lane_group.id}
        offset 0
    ) as application on true
    left join lateral (
        select resource.spec
        {include resource_by_id; environment = lane_group.environment; kind = 6; id = :policy}
        offset 0
    ) as policy on true;
