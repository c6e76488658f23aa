-- Find a queue that is configured, or has or had a job. Indexes: resource_name, lane_queue.
select
    {resource: Queue}
from (select :environment::int as environment, :name::text as name) as wanted
    left join lateral (
        select resource.*
        {include queue_by_name; environment = wanted.environment; name = wanted.name}
        limit 1 -- one lookup by key per row, whatever the statistics say
    ) as resource on true
where resource.name is not null
    or exists (
        select 1
        from everhook.lane
        where lane.environment = wanted.environment
            and lane.queue = wanted.name
    );
