-- Resources between two names, up to a state, until they have the bytes of a page; and the states of schedules. Indexes:
-- resource_name, the primary key.
-- Differs: the rows are sized here, before they are sent, each with how many there were.
select {ResourceRow}, {FiringRow}, listed_rows
from (
    select
        listed.*,
        count(*) over () as listed_rows,
        sum(octet_length(spec) + octet_length(info)) over (
            order by name :order
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select {resource: ResourceRow}, {schedule: FiringRow}
        from everhook.resource
            left join everhook.schedule on resource.kind = 4
                and schedule.environment = any (array[resource.environment])
                and schedule.id = resource.id
        where resource.environment = :environment
            and resource.kind = :kind
            and resource.parent = ''
            and resource.name > :above
            and resource.name < :below
            and resource.state <= :state_max
            and resource.deleted_at is null
        order by resource.name :order
        limit :limit
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= :bytes_max
order by name :order
;
