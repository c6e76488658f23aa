-- Find the application with a uid, and the version of its lane group. Indexes: resource_name, the primary key.
select resource.id, lane_group.version
from resource
    join lane_group on lane_group.environment = resource.environment
        and lane_group.id = resource.id
where resource.environment = :environment
    and resource.kind = 0
    and resource.parent = x''
    and resource.name = :uid
    and resource.deleted_at is null;
