-- Find a queue that is configured, or has or had a job. Indexes: resource_name, lane_queue.
select {resource: Queue}
from (select :environment as environment, :name as name) as wanted
    left join resource on resource.environment = wanted.environment
        and resource.kind = 3
        and resource.parent = x''
        and resource.name = wanted.name
        and resource.deleted_at is null
where resource.name is not null
    or exists (
        select 1
        from lane
        where lane.environment = wanted.environment
            and lane.queue = wanted.name
    );
