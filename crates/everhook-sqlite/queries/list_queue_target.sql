-- List the open queues with a target. Indexes: lane_group_pushes, the primary key of resource.
-- Differs: a cross join makes SQLite start with the few groups that push.
select resource.environment, resource.name
from lane_group
    cross join resource on resource.environment = lane_group.environment
        and resource.kind = 3
        and resource.parent = x''
        and resource.id = lane_group.id
where lane_group.pushes
    and lane_group.state = 0
order by resource.environment, resource.name;
