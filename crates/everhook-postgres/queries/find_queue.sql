-- A queue: its configuration, if someone configured it, and whether anything is known of it. Indexes: the primary key, lane_queue.
select
    {queue: Queue}
from (select :environment::int as environment, :name::text as name) as wanted
    left join everhook.queue on queue.environment = any (array[wanted.environment])
        and queue.name = wanted.name
where queue.name is not null
    or exists (
        select 1
        from everhook.lane
        where lane.environment = wanted.environment
            and lane.queue = wanted.name
    );
