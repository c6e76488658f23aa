-- Queues between two names, configured or used. Indexes: the primary key; lane_queue, jumping from queue to queue.
-- Differs: SQLite jumps by itself.
with recursive used (name) as (
    (
        select lane.queue
        from everhook.lane
        where lane.environment = $1
            and lane.queue > $2
            and lane.queue < $3
        order by lane.queue
        limit 1
    )
    union all
    select (
        select lane.queue
        from everhook.lane
        where lane.environment = $1
            and lane.queue > used.name
            and lane.queue < $3
        order by lane.queue
        limit 1
    )
    from used
    where used.name is not null
)
select
    known.name,
    queue.name, queue.state, queue.limit_max, queue.key_limit_max, queue.rate_us, queue.target_url, queue.target_keys, queue.updated_at,
    queue.revision
from (
        select name
        from everhook.queue
        where environment = $1
            and name > $2
            and name < $3
        union
        select name
        from used
        where name is not null
    ) as known
    left join everhook.queue on queue.environment = any (array[$1])
        and queue.name = known.name
order by known.name asc
limit $4;
