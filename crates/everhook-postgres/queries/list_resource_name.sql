-- List resources in a range of names, up to a state and the bytes of a page. Indexes: resource_name, the primary key.
-- Schedules are listed with their states.
-- Differs: the page is cut here, before rows are sent. Each row has the number of rows before the cut.
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
