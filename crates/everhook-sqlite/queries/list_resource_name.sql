-- List resources in a range of names, up to a state, with the states of schedules. Indexes: resource_name, the primary
-- key.
select {resource: ResourceRow}, {schedule: FiringRow}
from resource
    left join schedule on resource.kind = 4
        and schedule.environment = resource.environment
        and schedule.id = resource.id
where resource.environment = :environment
    and resource.kind = :kind
    and resource.parent = x''
    and resource.name > :above
    and resource.name < :below
    and resource.state <= :state_max
    and resource.deleted_at is null
order by resource.name :order
limit :limit;
