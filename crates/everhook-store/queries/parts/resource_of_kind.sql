-- Resources of a kind, with the states of schedules. The parent is the caller's condition.
select {resource: ResourceRow}, {schedule: FiringRow}
from everhook.resource
    left join everhook.schedule on resource.kind = 4
        and schedule.environment = any (array[resource.environment])
        and schedule.id = resource.id
where resource.environment = :environment
    and resource.kind = :kind
