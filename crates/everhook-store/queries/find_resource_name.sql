-- Find a resource by uid or name, with the state of a schedule. Indexes: resource_name, the primary key.
select {resource: ResourceRow}, {schedule: FiringRow}
from everhook.resource
    left join everhook.schedule on resource.kind = 4
        and schedule.environment = any (array[resource.environment])
        and schedule.id = resource.id
where resource.environment = :environment
    and resource.kind = :kind
    and resource.parent = :parent
    and resource.name = :name
    and resource.deleted_at is null;
