-- List configured or used queues in a range of names. Indexes: resource_name; lane_queue, one lookup per queue.
-- Differs: the recursion skips from queue to queue in the index. SQLite does that by itself.
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
    {resource: Queue}
from (
        select name
        from everhook.resource
        where environment = :environment
            and kind = 3
            and parent = ''
            and name > :above
            and name < :below
            and deleted_at is null
        union
        select name
        from used
        where name is not null
    ) as known
    left join lateral (
        select resource.*
        {include queue_by_name; environment = :environment; name = known.name}
        limit 1 -- one lookup by key per row, whatever the statistics say
    ) as resource on true
order by known.name :order
limit :limit;
