-- Find the application with a uid, and the version of its lane group. Indexes: resource_name, the primary key.
select resource.id, lane_group.version
from everhook.resource
    join everhook.lane_group on lane_group.environment = any (array[resource.environment])
        and lane_group.id = resource.id
where resource.environment = :environment
    and resource.kind = 0
    and resource.parent = ''::bytea
    and resource.name = :uid
    and resource.deleted_at is null;
