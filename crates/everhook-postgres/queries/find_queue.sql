-- A queue: its configuration, if someone configured it, and whether anything is known of it. Indexes: the primary key, lane_queue.
select
    queue.name, queue.state, queue.limit_max, queue.key_limit_max, queue.rate_us, queue.target_url, queue.target_keys, queue.updated_at,
    queue.revision
from (select $1::int as environment, $2::text as name) as wanted
    left join everhook.queue on queue.environment = any (array[wanted.environment])
        and queue.name = wanted.name
where queue.name is not null
    or exists (
        select 1
        from everhook.lane
        where lane.environment = wanted.environment
            and lane.queue = wanted.name
    );
