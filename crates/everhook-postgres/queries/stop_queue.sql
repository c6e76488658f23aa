-- Stop the open queues of lanes whose targets refuse further jobs. Indexes: the primary keys, resource_name.
-- Differs: many rows at once, locked in key order. A queue whose configuration was deleted meanwhile has no target to
-- stop for.
with locked as materialized (
    select resource.environment, resource.kind, resource.parent, resource.id
    from (
            select distinct lane.environment, lane.queue
            from unnest(:wanted)
                join everhook.lane on lane.environment = any (array[wanted.environment])
                    and lane.id = wanted.id
            where lane.queue is not null
            order by lane.environment, lane.queue
        ) as told
        cross join lateral (
            select resource.environment, resource.kind, resource.parent, resource.id
            {include queue_by_name; environment = told.environment; name = told.queue}
                and resource.state = 0
            limit 1 -- one lookup by key per row, whatever the statistics say
            for no key update
        ) as resource
),
stopped as (
    update everhook.resource
    set state = 2,
        updated_at = everhook.now_us(),
        revision = resource.revision + 1
    from locked
    where resource.environment = any (array[locked.environment])
        and resource.kind = locked.kind
        and resource.parent = locked.parent
        and resource.id = locked.id
)
update everhook.lane_group
set state = 2,
    version = lane_group.version + 1
from locked
where lane_group.environment = any (array[locked.environment])
    and lane_group.id = locked.id;
