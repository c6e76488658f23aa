-- Find a resource by id, even a deleted one, with the state of a schedule. Indexes: the primary keys.
select {resource: ResourceRow}, {schedule: FiringRow}
from everhook.resource
    left join everhook.schedule on resource.kind = 4
        and schedule.environment = any (array[resource.environment])
        and schedule.id = resource.id
where resource.environment = :environment
    and resource.kind = :kind
    and resource.parent = :parent
    and resource.id = :id;
