-- List the open queues with a target. Indexes: lane_group_pushes, the primary key of resource.
select resource.environment, resource.name
from everhook.lane_group
    cross join lateral (
        select resource.*
        {include resource_by_id; environment = lane_group.environment; kind = 3; id = lane_group.id}
        limit 1 -- one lookup by key per row, whatever the statistics say
    ) as resource
where lane_group.pushes
    and lane_group.state = 0
order by resource.environment, resource.name;
