-- Queues between two names, configured or used. Indexes: the primary key; lane_queue, jumping from queue to queue.
-- Differs: SQLite jumps by itself.
with recursive used (name) as (
    (
        select lane.queue
        from everhook.lane
        where lane.environment = :environment
            and lane.queue > :above
            and lane.queue < :below
        order by lane.queue
        limit 1
    )
    union all
    select (
        select lane.queue
        from everhook.lane
        where lane.environment = :environment
            and lane.queue > used.name
            and lane.queue < :below
        order by lane.queue
        limit 1
    )
    from used
    where used.name is not null
)
select
    known.name,
    {queue: Queue}
from (
        select name
        from everhook.queue
        where environment = :environment
            and name > :above
            and name < :below
        union
        select name
        from used
        where name is not null
    ) as known
    left join everhook.queue on queue.environment = any (array[:environment])
        and queue.name = known.name
order by known.name :order
limit :limit;
